#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use raymond_flow::machine::Turn;

use super::*;
use crate::testing::{shell, turn, turn_step};

fn agent(change: impl FnOnce(&mut ProgramConfig)) -> ProgramAgent {
    let mut config = shell();
    change(&mut config);
    ProgramAgent::new(config)
}

fn plain() -> ProgramAgent {
    agent(|_| {})
}

/// What `agent` makes of this output.
fn end_of(agent: &ProgramAgent, stdout: impl AsRef<[u8]>, exit_code: Option<i32>) -> TurnEnd {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stdout");
    fs::write(&path, stdout.as_ref()).unwrap();
    let (stdin, stdout_bytes) = (path.as_path(), stdout.as_ref().len() as u64);
    let output = TurnOutput {
        stdin,
        stdout: &path,
        stdout_bytes,
        stderr: &path,
        exit_code,
        is_first: true,
        before: None,
        told: &[],
    };
    agent.outcome(&output).unwrap()
}

fn end(stdout: impl AsRef<[u8]>) -> TurnEnd {
    end_of(&plain(), stdout, Some(0))
}

fn reply(text: &str) -> Outcome {
    Outcome::Reply { text: text.to_owned() }
}

fn failure(end: TurnEnd) -> TurnFailure {
    match end.outcome {
        Outcome::Failed(failure) => failure,
        outcome => panic!("no failure: {outcome:?}"),
    }
}

#[test]
fn last_line_is_the_answer_whatever_comes_before_it() {
    for output in [
        "{\"result\":\"x\"}",
        "{\"result\":\"x\"}\n",
        "{\"result\":\"x\"}\r\n",
        "{\"result\":\"x\"}\n\n  \n",
        "noise\n{\"result\":\"no\"}\n{\"result\":\"x\"}\n",
        "{\"result\":\"x\",\"unknown\":[1,2]}",
    ] {
        assert_eq!(end(output).outcome, reply("x"), "{output:?}");
    }
    let much = "noise ".repeat(1024 * 1024) + "\n{\"result\":\"x\"}";
    assert_eq!(end(much).outcome, reply("x"));
    // Bytes that are no text do not spoil the line after them.
    assert_eq!(end(b"\xff\xfe\0\n{\"result\":\"x\"}").outcome, reply("x"));
}

#[test]
fn output_without_an_answer_is_a_failure_that_says_how_it_ended() {
    for output in [
        "",
        "\n\n",
        "words",
        "{\"result\":\"x\"}\nmore words",
        "{\"result\":\"x",
        "[]",
        "{\"result\":7}",
    ] {
        let killed = failure(end_of(&plain(), output, None));
        assert_eq!(killed.message, "the program was killed", "{output:?}");
        let exited = failure(end_of(&plain(), output, Some(3)));
        assert!(exited.message.contains("exited with code 3"), "{output:?}");
        assert_eq!(exited.class, FailureClass::Other);
    }
    assert_eq!(failure(end("{}")).message, "the program gave no answer");
}

#[test]
fn answer_that_is_cut_at_any_byte_is_none() {
    let whole = "{\"result\":\"<goto>A</goto>\",\"cost_usd\":0.5}";
    for at in 0..whole.len() {
        let end = end_of(&plain(), &whole.as_bytes()[..at], None);
        assert!(matches!(end.outcome, Outcome::Failed(_)), "cut at {at}");
        assert_eq!(end.spent.cost_usd, Usd::ZERO, "cut at {at}");
    }
    assert_eq!(end(whole).outcome, reply("<goto>A</goto>"));
}

#[test]
fn last_line_that_is_longer_than_any_answer_is_none() {
    let limit = usize::try_from(LAST_LINE_BYTES_MAX).unwrap();
    let long = format!("{{\"result\":\"{}\"}}", "x".repeat(limit));
    assert!(matches!(end(long).outcome, Outcome::Failed(_)));
}

#[test]
fn longest_payload_is_read_although_every_character_of_it_is_escaped() {
    let length = usize::try_from(raymond_flow::tag::PAYLOAD_BYTES_MAX).unwrap();
    let output = format!("{{\"result\":\"{}\"}}", "\\u0001".repeat(length));
    assert_eq!(end(output).outcome, reply(&"\u{1}".repeat(length)));
}

#[test]
fn class_of_a_failure_is_what_the_program_says() {
    use FailureClass::{
        Authentication, Budget, Other, PromptTooLong, Refused, SessionMissing, Transient,
        UnknownModel, UsageLimit,
    };
    for (more, class) in [
        ("\"class\":\"transient\"", Transient { retry_after_ms: None }),
        ("\"class\":\"transient\",\"retry_after\":20", Transient { retry_after_ms: Some(20_000) }),
        (
            "\"class\":\"transient\",\"retry_after\":18446744073709551615",
            Transient { retry_after_ms: Some(u64::MAX) },
        ),
        ("\"class\":\"usage_limit\"", UsageLimit { resets_at: None }),
        ("\"class\":\"usage_limit\",\"resets_at\":7", UsageLimit { resets_at: Some(7) }),
        ("\"class\":\"budget\"", Budget),
        ("\"class\":\"authentication\"", Authentication),
        ("\"class\":\"unknown_model\"", UnknownModel),
        ("\"class\":\"session_missing\"", SessionMissing),
        ("\"class\":\"prompt_too_long\"", PromptTooLong),
        ("\"class\":\"refused\"", Refused),
        ("\"class\":\"Transient\"", Other),
        ("\"class\":null", Other),
    ] {
        let failure = failure(end(format!("{{\"error\":\"no\",{more}}}")));
        assert_eq!((failure.class, &*failure.message), (class, "no"), "{more}");
    }
}

#[test]
fn cost_is_what_is_reported_else_what_the_tokens_cost_else_nothing() {
    let usd = |amount| Usd::from_dollars(amount).unwrap();
    let tokens =
        "\"input_tokens\":1000000,\"cached_input_tokens\":2000000,\"output_tokens\":500000";
    let per_million = Prices { input: usd(3.0), cached_input: usd(0.5), output: usd(10.0) };
    let priced = agent(|config| config.prices = Some(per_million));
    let of = |agent: &ProgramAgent, more: &str| {
        end_of(agent, format!("{{\"result\":\"x\",{more}}}"), Some(0)).spent
    };
    assert_eq!(of(&priced, tokens).cost_usd, usd(9.0));
    assert_eq!(of(&priced, &format!("{tokens},\"cost_usd\":0.25")).cost_usd, usd(0.25));
    assert_eq!(of(&plain(), tokens).cost_usd, Usd::ZERO);
    let count = of(&plain(), tokens).tokens;
    assert_eq!((count.input, count.cache_read, count.output), (1_000_000, 2_000_000, 500_000));
    assert_eq!(of(&plain(), "\"model\":\"m\"").model.as_deref(), Some("m"));
    assert_eq!(of(&plain(), "\"version\":\"p 1\"").version.as_deref(), Some("p 1"));
}

#[test]
fn cost_that_cannot_be_read_or_is_missing_is_doubted() {
    let promising = agent(|config| config.promises_cost = CostPromise::Turns);
    let priced = agent(|config| config.prices = Some(Prices::default()));
    let doubt = |agent: &ProgramAgent, cost: &str| {
        let line = format!("{{\"result\":\"x\"{cost}}}");
        end_of(agent, line, Some(0)).spent.doubt.unwrap_or_default()
    };
    for cost in ["NaN", "-Infinity", "1e999", "\"free\"", "1,\"input_tokens\":-5"] {
        let said = doubt(&plain(), &format!(",\"cost_usd\":{cost}"));
        assert_eq!(said, "the program's last line cannot be read", "{cost}");
    }
    assert_eq!(doubt(&plain(), ",\"cost_usd\":-1.5"), "the program reports a cost of -1.5 dollars");
    assert_eq!(doubt(&promising, ""), "the program reports no cost");
    assert_eq!(doubt(&priced, ""), "the program reports neither cost nor tokens");
    assert_eq!(doubt(&priced, ",\"output_tokens\":1") + &doubt(&priced, ",\"cost_usd\":0"), "");
    let killed = end_of(&plain(), "{\"cost_usd\":0.", None);
    assert_eq!(killed.spent.doubt, None);
}

#[test]
fn promise_of_a_cost_holds_for_every_end_of_a_turn() {
    let asks = r#"{"asks":[{"text":"?"}]}"#;
    let error = r#"{"error":"overloaded","class":"transient"}"#;
    let is_doubted = |promises_cost, line: &str, exit_code| {
        let agent = agent(|config| config.promises_cost = promises_cost);
        end_of(&agent, line, exit_code).spent.doubt.is_some()
    };
    let null = r#"{"result":"x","cost_usd":null}"#;
    let (answers, turns) = (CostPromise::Answers, CostPromise::Turns);
    for (line, exit_code, by_answers) in [
        (null, Some(0), true),
        (asks, Some(0), true),
        (error, Some(0), false),
        ("", Some(3), false),
        ("working", None, false),
    ] {
        assert!(!is_doubted(CostPromise::None, line, exit_code), "{line}");
        assert_eq!(is_doubted(answers, line, exit_code), by_answers, "{line}");
        assert!(is_doubted(turns, line, exit_code), "{line}");
    }
    let paid = r#"{"error":"overloaded","class":"transient","cost_usd":0}"#;
    assert!(!is_doubted(turns, paid, Some(0)));
}

#[test]
fn program_with_prices_reports_cost() {
    let silent = Capabilities { reports_cost: false, ..Capabilities::FULL };
    let of = |prices| {
        let agent = agent(|config| (config.capabilities, config.prices) = (silent, prices));
        agent.capabilities().reports_cost
    };
    assert!(!of(None));
    assert!(of(Some(Prices::default())));
}

#[test]
fn session_is_the_one_that_was_reported_last_and_counts_without_an_answer() {
    let of = |output: &str| {
        let end = end_of(&plain(), output, None);
        end.spent.session.map(|session| session.to_string())
    };
    assert_eq!(of("{\"result\":\"x\",\"session\":\"late\"}").as_deref(), Some("late"));
    assert_eq!(of("{\"session\":\"early\"}\n{\"result\":\"x\"}").as_deref(), Some("early"));
    let both = "{\"session\":\"early\"}\n{\"result\":\"x\",\"session\":\"late\"}";
    assert_eq!(of(both).as_deref(), Some("late"));
    assert_eq!(
        of("starting\n{\"session\":\"early\"}\nkilled in the mid").as_deref(),
        Some("early")
    );
    assert_eq!(of("{\"session\":\"early\",\"more\":1}\nx"), None, "that is another kind of line");
    assert_eq!(of("{\"session\":\"\"}\n{\"result\":\"x\"}"), None);
    let far = " \n".repeat(usize::try_from(FIRST_BYTES_MAX).unwrap()) + "{\"session\":\"s\"}\nx";
    assert_eq!(of(&far), None, "only the beginning is looked at");
}

#[test]
fn session_that_cannot_be_one_fails_the_turn() {
    let end = end("{\"result\":\"x\",\"session\":\"../../etc\"}");
    assert_eq!(failure(end).class, FailureClass::Misconfigured);
}

/// The command of a turn.
fn command(agent: &ProgramAgent, turn: &Turn) -> TurnCommand {
    let step = turn_step(turn.clone());
    let request = TurnRequest {
        agent: &raymond_flow::id::AgentId::main(),
        step: &step,
        turn,
        cwd: Path::new("/work"),
        prompt: "prompt",
        continuation: "go on",
        earlier: &[],
        folder: None,
        state_dir: Path::new("/work/.raymond"),
        scope: Path::new("/nowhere"),
        follows_a_model: false,
    };
    agent.command(&request).unwrap()
}

#[test]
fn every_variable_of_the_protocol_is_set_or_kept_from_being_inherited() {
    let id = || SessionId::new("own");
    let branch = SessionPlan::Branch { from: SessionId::new("from"), id: id(), cwd: None };
    for (plan, names_sessions, expected) in [
        (SessionPlan::Fresh { id: id() }, false, [Some("own"), Some("fresh"), None]),
        (SessionPlan::Resume { id: id() }, false, [Some("own"), Some("resume"), None]),
        (branch.clone(), false, [Some("own"), Some("branch"), Some("from")]),
        // A program that names its sessions is told only of those that exist.
        (SessionPlan::Fresh { id: id() }, true, [None, Some("fresh"), None]),
        (SessionPlan::Resume { id: id() }, true, [Some("own"), Some("resume"), None]),
        (branch, true, [None, Some("branch"), Some("from")]),
    ] {
        let agent = agent(|config| config.capabilities.names_sessions = names_sessions);
        let command = command(&agent, &turn(plan.clone()));
        let names = ["RAYMOND_SESSION", "RAYMOND_SESSION_MODE", "RAYMOND_SESSION_FROM"];
        for (name, expected) in names.into_iter().zip(expected) {
            let set = command.environment.iter().find(|(own, _)| own == name);
            assert_eq!(set.map(|(_, value)| value.as_str()), expected, "{name} {plan:?}");
            let is_removed = command.without.contains(&name.to_owned());
            assert_eq!(is_removed, expected.is_none(), "{name} {plan:?}");
        }
        assert_eq!(command.environment.len() + command.without.len(), 9);
    }
}

#[test]
fn model_of_the_turn_stands_over_that_of_the_program() {
    let agent = agent(|config| config.model = Some("own".to_owned()));
    let mut asking = turn(SessionPlan::Fresh { id: SessionId::new("s") });
    let model = |turn: &Turn| {
        let command = command(&agent, turn);
        let found = command.environment.into_iter().find(|(name, _)| name == "RAYMOND_TURN_MODEL");
        found.map(|(_, value)| value)
    };
    assert_eq!(model(&asking).as_deref(), Some("own"));
    asking.settings.model = Some("asked".to_owned());
    assert_eq!(model(&asking).as_deref(), Some("asked"));
}

#[test]
fn turn_that_recovers_is_asked_to_go_on() {
    let mut turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
    assert_eq!(command(&plain(), &turn).stdin, "prompt");
    turn.recovers = true;
    let command = command(&plain(), &turn);
    assert_eq!(command.stdin, "go on");
    assert!(command.environment.contains(&("RAYMOND_RECOVERS".to_owned(), "1".to_owned())));
}

#[test]
fn transcript_has_every_line_but_the_answer_and_the_session() {
    let lines = [
        "words",
        "",
        "{\"session\":\"s\"}",
        "{\"other\":1}",
        "{\"result\":\"x\"}",
        "{\"error\":\"x\"}",
    ];
    let entries: Vec<_> = lines.iter().flat_map(|line| PlainReader.line(line.as_bytes())).collect();
    let text = |text: &str| Entry::Text { text: text.to_owned() };
    assert_eq!(entries, [text("words"), text("{\"other\":1}")]);
}

#[test]
fn program_asks_a_person() {
    let asked = |line: &str| match end(line).outcome {
        Outcome::Asks { questions } => questions,
        other => panic!("{other:?}"),
    };
    let questions =
        asked(r#"{"asks":[{"text":"Which?","options":["red","blue"]}],"cost_usd":0.5}"#);
    assert_eq!((questions[0].text.as_str(), questions[0].options.len()), ("Which?", 2));
    assert_eq!(questions[0].grants, None);
    let tool = asked(r#"{"asks":[{"tool":"shell","text":"touch x"}]}"#);
    assert_eq!(tool[0].grants.as_deref(), Some("shell"));
    let answered = end(r#"{"result":"done","asks":[{"text":"Which?"}]}"#).outcome;
    assert!(matches!(answered, Outcome::Reply { .. }), "an answer counts more");
}

#[test]
fn turn_costs_what_its_session_costs_more_than_before_but_at_least_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stdout");
    let spent = |line: &str, before: Option<&str>| {
        fs::write(&path, line).unwrap();
        let (stdout, stdout_bytes) = (path.as_path(), line.len() as u64);
        let (stdin, stderr, exit_code) = (stdout, stdout, Some(0));
        let is_first = true;
        let output = TurnOutput {
            stdin,
            stdout,
            stdout_bytes,
            stderr,
            exit_code,
            is_first,
            before,
            told: &[],
        };
        let end = plain().outcome(&output).unwrap();
        (end.spent.cost_usd.dollars().to_string(), end.total.unwrap())
    };
    let pair = |cost: &str, total: &str| (cost.to_owned(), total.to_owned());
    let session = r#"{"result":"x","carried_usd":0.75}"#;
    assert_eq!(spent(session, Some("0.5")), pair("0.25", "0.75"));
    assert_eq!(spent(session, None), pair("0.75", "0.75"), "nothing was counted before");
    assert_eq!(spent(session, Some("2")), pair("0.75", "0.75"), "the count has begun anew");
    let own = r#"{"result":"x","cost_usd":0.25,"carried_usd":0.75}"#;
    assert_eq!(spent(own, Some("0.75")), pair("0.25", "0.75"), "the session has forgotten it");
    assert_eq!(spent(own, Some("0.375")), pair("0.375", "0.75"), "with what a killed turn cost");
}
