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
        let spent = outcome(&output).unwrap().spent;
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
