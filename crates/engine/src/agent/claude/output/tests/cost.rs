//! What a turn costs, of results that have the sums of a process or of a session.

use super::*;

#[test]
fn further_turn_of_a_process_costs_what_it_adds() {
    let first = end(&[INIT, &result("a", 0.25, 1000)]);
    let total = first.total.unwrap();
    let second = end_of(&[INIT, &result("b", 0.75, 1500)], "", Some(0), Some(&total));
    assert_eq!(second.spent.cost_usd, Usd::from_dollars(0.5).unwrap());
    assert_eq!((second.spent.tokens.input, second.spent.tokens.output), (500, 0));
}

#[test]
fn cost_of_a_failed_turn_counts() {
    let line = r#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget ($0.01)"],"total_cost_usd":0.02}"#;
    assert_eq!(end(&[line]).spent.cost_usd, Usd::from_dollars(0.02).unwrap());
}

/// A result of a newer version: `total` is that of the session, of which `since` was spent since the result before.
pub(super) fn summed(total: f64, since: Option<f64>, input: [u64; 2]) -> String {
    let usage = |cost: f64, input| {
        format!(r#"{{"claude-x":{{"inputTokens":{input},"outputTokens":5,"costUSD":{cost}}}}}"#)
    };
    let since =
        since.map(|cost| format!(r#","model_usage_since_last_result":{}"#, usage(cost, input[1])));
    format!(
        r#"{{"usage":{{"input_tokens":1}},"modelUsage":{},"total_cost_usd":{total},"is_error":false,"result":"x"{},"type":"result"}}"#,
        usage(total, input[0]),
        since.unwrap_or_default()
    )
}

#[test]
fn first_turn_of_a_process_costs_what_its_results_tell_and_not_what_the_session_cost_before() {
    let ended = end_of(&[INIT, &summed(0.25, Some(0.05), [7000, 1000])], "", Some(0), None);
    assert_eq!(Some(ended.spent.cost_usd), Usd::from_dollars(0.05));
    assert_eq!(ended.spent.tokens.input, 1000);
    // The next turn of the process, after one that nobody asked for and whose result no turn has seen.
    let next = summed(0.45, Some(0.1), [9000, 1000]);
    let ended = end_of(&[INIT, &next], "", Some(0), ended.total.as_deref());
    assert_eq!(Some(ended.spent.cost_usd), Usd::from_dollars(0.2));
    assert_eq!(ended.spent.tokens.input, 2000);
    // Two results in one turn: the first one tells where the sum began.
    let both = [summed(0.35, Some(0.1), [8000, 500]), summed(0.45, Some(0.1), [9000, 1000])];
    let ended = end_of(&[INIT, &both[0], &both[1]], "", Some(0), None);
    assert_eq!(Some(ended.spent.cost_usd), Usd::from_dollars(0.2));
    assert_eq!(ended.spent.tokens.input, 1500);
}

#[test]
fn turn_is_not_free_because_what_it_cost_has_another_name() {
    let renamed = summed(0.25, Some(0.05), [7000, 1000]).replace("costUSD", "price");
    let ended = end(&[INIT, &renamed]);
    assert_eq!(Some(ended.spent.cost_usd), Usd::from_dollars(0.25));
}

#[test]
fn version_that_sums_over_a_session_without_saying_so_is_compared_with_its_transcript() {
    let folder = tempfile::tempdir().unwrap();
    let [transcript, path] = ["transcript", "x"].map(|name| folder.path().join(name));
    let saved = r#"{"type":"cost-state","totalCostUSD":0.25,"modelUsage":{"claude-x":{"inputTokens":7000,"costUSD":0.25}}}"#;
    fs::write(&transcript, saved).unwrap();
    let paid = |version: &str, before: Option<&str>| {
        let init =
            format!(r#"{{"claude_code_version":"{version}","subtype":"init","type":"system"}}"#);
        fs::write(&path, format!("{init}\n{}\n", summed(0.3, None, [8000, 0]))).unwrap();
        let output = TurnOutput {
            stdin: &path,
            stdout: &path,
            stdout_bytes: u64::MAX,
            stderr: &path,
            exit_code: Some(0),
            is_first: true,
            before,
            told: &[],
        };
        let spent = outcome(&output, Path::new("")).unwrap().spent;
        (spent.cost_usd, spent.tokens.input)
    };
    let dollars = |amount| Usd::from_dollars(amount).unwrap();
    let before = transcript.to_str();
    assert_eq!(paid("2.1.290", before), (dollars(0.05), 1000));
    assert_eq!(paid("2.1.276", before), (dollars(0.3), 8000));
    assert_eq!(paid("2.1.290", None), (dollars(0.3), 8000));
}

#[test]
fn sum_that_cannot_be_true_makes_no_turn_cheaper() {
    let turn = |result: &str, before| end_of(&[INIT, result], "", Some(0), before).spent;
    let first = summed(0.25, Some(0.05), [7000, 1000]);
    let before = end_of(&[INIT, &first], "", Some(0), None).total;
    let lower = turn(&summed(0.1, None, [7000, 0]), before.as_deref());
    assert_eq!(Some(lower.cost_usd), Usd::from_dollars(0.1), "it has begun anew");
    for since in [-5.0, 1e9] {
        let spent = turn(&summed(0.25, Some(since), [7000, 1000]), None);
        assert_eq!(Some(spent.cost_usd), Usd::from_dollars(0.25), "{since}");
    }
    let unsaid = first.replace(r#""costUSD":0.05"#, r#""cost":0.05"#);
    assert_eq!(Some(turn(&unsaid, None).cost_usd), Usd::from_dollars(0.25));
}

/// A call of a model, as it is printed or written down.
fn called(id: &str, output: u64) -> String {
    let usage = format!(r#"{{"input_tokens":1000,"output_tokens":{output}}}"#);
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","model":"claude-sonnet-4-6","content":[],"usage":{usage}}}}}"#
    )
}

/// What a killed turn has spent that printed `lines` and whose session has this `transcript`, and whether that is an estimate.
fn spent_in_vain(lines: &[&str], transcript: &[&str]) -> (f64, bool) {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("projects/p");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("s.jsonl"), transcript.join("\n")).unwrap();
    let [stdin, stdout, stderr] = ["prompt", "stdout", "stderr"].map(|name| home.path().join(name));
    fs::write(&stdin, r#"{"uuid":"p1","type":"user"}"#).unwrap();
    fs::write(&stdout, lines.join("\n")).unwrap();
    fs::write(&stderr, "").unwrap();
    let output = TurnOutput {
        stdin: &stdin,
        stdout: &stdout,
        stdout_bytes: u64::MAX,
        stderr: &stderr,
        exit_code: None,
        is_first: true,
        before: None,
        told: &[],
    };
    let spent = outcome(&output, home.path()).unwrap().spent;
    (spent.cost_usd.dollars(), spent.is_estimate)
}

#[test]
fn turn_without_a_result_costs_what_its_session_says_of_it() {
    let prompt = r#"{"uuid":"p1","promptId":"c1","type":"user"}"#;
    let saved = r#"{"type":"cost-state","totalCostUSD":0.5,"modelUsage":{}}"#;
    let (printed, known) = (called("m1", 1), called("m1", 50));
    let (before, aside) = (called("m0", 50), called("m2", 50));
    let lines = [INIT, &*printed];
    assert_eq!(spent_in_vain(&lines, &[&*before, prompt, &*known, saved]), (0.5, false));
    assert_eq!(spent_in_vain(&lines, &[&*before, prompt, &*known]), (0.003_75, true));
    // What was not printed: that of a subagent.
    assert_eq!(spent_in_vain(&lines, &[prompt, &*known, &*aside]), (0.007_5, true));
    assert_eq!(spent_in_vain(&lines, &[]), (0.003_015, true), "nothing else is known");
    assert_eq!(spent_in_vain(&[INIT], &[prompt]), (0.0, false));
    // After a result, only what was printed since then is unpaid.
    let paid = result("x", 0.25, 1000);
    let lines = [INIT, &*aside, &*paid, &*printed];
    assert_eq!(spent_in_vain(&lines, &[prompt, &*aside, &*known]), (0.253_75, true));
    assert_eq!(spent_in_vain(&lines, &[prompt, &*aside, &*known, saved]), (0.5, false));
    let lines = [INIT, &*aside, &*paid];
    assert_eq!(spent_in_vain(&lines, &[prompt, &*aside, saved]), (0.25, false));
}
