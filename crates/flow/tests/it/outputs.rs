//! Structured outputs: how they are judged, and where their fields are variables.

use raymond_flow::{
    machine::{Spent, Status},
    payload::Payload,
    turn::{Outcome, conclude},
    world::MemoryWorld,
};

use crate::sim::{Sim, agent, started};

/// The frontmatter of a state with a risk and a count in its output, and these transitions.
fn state(transitions: &str) -> String {
    format!(
        "---\nschema:\n  type: object\n  required: [risk]\n  properties:\n    risk: {{ enum: [low, high] }}\n    \
         count: {{ type: integer, maximum: 3 }}\n    files: {{ type: array }}\n{transitions}---\nDo it."
    )
}

const ONLY_NEXT: &str = "allowed_transitions: [{ tag: goto, target: NEXT }]\n";
const TWO: &str = "allowed_transitions: [{ tag: goto, target: NEXT }, { tag: result }]\n";
const GOOD: &str = r#"{"risk":"low","count":2,"files":["a"]}"#;

fn sim(start: &str, next: (&str, &str)) -> Sim {
    Sim::new([("START.md", start), next, ("LATER.md", "{{risk}}"), ("W.md", "{{risk}}")])
}

/// A coding agent answers with a text and an output.
fn answers(sim: &mut Sim, name: &str, text: &str, output: Option<&str>) {
    let id = sim.step(name);
    sim.children.remove(&id);
    let spent = Spent { output: output.map(str::to_owned), ..Spent::default() };
    let outcome = Outcome::Reply { text: text.to_owned() };
    let input = conclude(&sim.run, &id, outcome, spent, &sim.world);
    sim.input(input);
}

#[test]
fn fields_are_variables_of_the_next_state_only_and_the_only_transition_needs_no_tag() {
    let next = ("NEXT.md", "{{risk}} {{count}} {{files}} {{ nothing }}");
    let mut sim = sim(&state(ONLY_NEXT), next);
    assert!(sim.child("main").turn().settings.options.schema.is_some());
    answers(&mut sim, "main", "", Some(GOOD));
    assert_eq!(sim.child("main").prompt(), r#"low 2 ["a"] {{ nothing }}"#);
    sim.reply("main", "<goto>LATER</goto>");
    assert_eq!(sim.child("main").prompt(), "{{risk}}");
}

#[test]
fn scripts_have_the_fields_like_the_variables_of_the_run() {
    let mut sim = sim(&state(ONLY_NEXT), ("NEXT.sh", ""));
    answers(&mut sim, "main", "", Some(GOOD));
    let environment = sim.child("main").environment();
    assert_eq!(environment["RAYMOND_VAR_risk"], "low");
    assert_eq!(environment["RAYMOND_VAR_files"], r#"["a"]"#);
}

#[test]
fn tag_beside_the_output_chooses_among_several_transitions() {
    let mut sim = sim(&state(TWO), ("NEXT.md", "{{risk}}"));
    answers(&mut sim, "main", "So: <goto>NEXT</goto>", Some(GOOD));
    assert_eq!(sim.child("main").prompt(), "low");
    let mut sim = self::sim(&state(TWO), ("NEXT.md", ""));
    answers(&mut sim, "main", "no tag", Some(GOOD));
    let text = sim.child("main").prompt();
    assert!(
        text.starts_with("Your last message did not end this step: no transition tag"),
        "{text}"
    );
    assert!(text.contains("Give the structured output again"), "{text}");
    // The output that was paid for counts if the reminder's answer has none.
    answers(&mut sim, "main", "<goto>NEXT</goto>", None);
    assert_eq!(sim.state("main"), "NEXT.md");
}

#[test]
fn missing_or_wrong_output_is_reminded_of_or_fails() {
    for (output, problem) in [
        (None, "the structured output is missing"),
        (Some(r#"{"risk":"x"}"#), "the structured output does not fit: `risk` should be one of"),
        (Some(r#"{"risk":"low","count":4}"#), "does not fit: `count` is 4"),
        (Some("broken"), "is no JSON"),
    ] {
        let mut sim = sim(&state(ONLY_NEXT), ("NEXT.md", ""));
        answers(&mut sim, "main", "<goto>NEXT</goto>", output);
        assert!(sim.child("main").prompt().contains(problem), "{}", sim.child("main").prompt());
        answers(&mut sim, "main", "", Some(GOOD));
        assert_eq!(sim.state("main"), "NEXT.md");
        let mut sim = self::sim(&state(""), ("NEXT.md", ""));
        answers(&mut sim, "main", "<goto>NEXT</goto>", output);
        assert!(sim.error("main").contains(problem), "{}", sim.error("main"));
    }
}

#[test]
fn output_is_the_payload_of_a_result_that_needs_no_tag() {
    let mut sim = sim(&state("allowed_transitions: [{ tag: result }]\n"), ("NEXT.md", ""));
    answers(&mut sim, "main", "Done.", Some(GOOD));
    assert_eq!(
        (sim.run.status, sim.run.result.as_ref().and_then(Payload::as_text)),
        (Status::Completed, Some(GOOD))
    );
    let mut sim = self::sim(&state("allowed_transitions: [{ tag: result }]\n"), ("NEXT.md", ""));
    answers(&mut sim, "main", "<result>own words</result>", Some(GOOD));
    assert_eq!(sim.run.result.as_ref().and_then(Payload::as_text), Some("own words"));
}

#[test]
fn workers_and_their_parent_have_the_fields() {
    let fork = "allowed_transitions: [{ tag: fork, target: W, next: NEXT }]\n";
    let mut sim = sim(&state(fork), ("NEXT.md", "{{risk}}"));
    answers(&mut sim, "main", "", Some(GOOD));
    assert_eq!(sim.child("main").prompt(), "low");
    assert_eq!(sim.child("main_w1").prompt(), "low");
}

#[test]
fn answer_of_a_person_leads_to_a_state_with_the_fields() {
    let ask =
        "allowed_transitions: [{ tag: ask, question: Ship it?, choices: yes=NEXT|no=LATER }]\n";
    let mut sim = sim(&state(ask), ("NEXT.md", "{{risk}} {{result}}"));
    answers(&mut sim, "main", "", Some(GOOD));
    sim.answer("main", "yes");
    assert_eq!(sim.child("main").prompt(), "low yes");
}

#[test]
fn evaluators_see_text_and_output() {
    let evaluated = format!("{ONLY_NEXT}evaluators: [{{ prompt: LATER }}]\n");
    let mut sim = sim(&state(&evaluated), ("NEXT.md", "{{risk}}"));
    sim.world.files.insert("LATER.md".to_owned(), b"Judge: {{output}}".to_vec());
    answers(&mut sim, "main", "I think so.", Some(GOOD));
    assert_eq!(sim.child("main").prompt(), format!("Judge: I think so.\n\n{GOOD}"));
    assert_eq!(sim.child("main").turn().settings.options.schema, None);
    sim.reply("main", "<result>accept</result>");
    assert_eq!(sim.child("main").prompt(), "low");
}

#[test]
fn schema_of_a_file_beside_the_state_is_read_when_the_state_is_entered() {
    let files = [
        ("START.md", "---\nschema: out.json\nallowed_transitions: [{ tag: result }]\n---\n"),
        ("out.json", r#"{"type":"object","properties":{"a":{"type":"string"}}}"#),
    ];
    let mut sim = Sim::new(files);
    answers(&mut sim, "main", "", Some(r#"{"a":"x"}"#));
    assert_eq!(sim.run.result.as_ref().and_then(Payload::as_text), Some(r#"{"a":"x"}"#));
    let broken = [files[0], ("out.json", r#"{"type":"object","not":{}}"#)];
    let sim = Sim::with(started("START.md"), MemoryWorld::new(broken));
    assert!(sim.error("main").contains("`out.json`: the keyword `not`"), "{}", sim.error("main"));
}

#[test]
fn rejected_output_is_judged_again_by_the_schema_as_it_is_then() {
    let mut sim = sim(&state(""), ("NEXT.md", "{{count}}"));
    answers(&mut sim, "main", "<goto>NEXT</goto>", Some(r#"{"risk":"low","count":9}"#));
    assert!(sim.error("main").contains("`count` is 9"), "{}", sim.error("main"));
    let fixed = state("").replace(", maximum: 3", "");
    sim.world.files.insert("START.md".to_owned(), fixed.into_bytes());
    sim.resume();
    assert_eq!(sim.child("main").prompt(), "9", "nothing is paid twice");
    assert!(sim.run.agents.contains_key(&agent("main")));
}
