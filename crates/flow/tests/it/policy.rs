//! Allowed transitions, implicit transitions, reminders, and which setting of the model wins.

use raymond_flow::{
    machine::{Phase, Record, SessionPlan, Settings, Status, Via},
    policy::{
        Accepted, AllowedTransition, JudgeContext, Policy, Problem, Source, Transition, Verdict,
        judge,
    },
    tag::{TagKind, parse},
    world::MemoryWorld,
};

use crate::sim::{Sim, session, started};

const NAMES: [(&str, &str); 5] =
    [("A.md", ""), ("B.md", ""), ("C.sh", ""), ("W.md", ""), ("E.md", "")];

fn entry(tag: TagKind, target: Option<&str>, attributes: &[(&str, &str)]) -> AllowedTransition {
    let attributes = attributes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    AllowedTransition {
        tag,
        target: target.map(str::to_owned),
        attributes,
        declared: Vec::new(),
        many: false,
    }
}

fn verdict(text: &str, allowed: Vec<AllowedTransition>) -> Verdict {
    let world = MemoryWorld::new(NAMES);
    let policy = Policy { allowed, evaluators: Vec::new() };
    judge(parse(text), &policy, &JudgeContext { world: &world, cwd: "/project", folder: "" })
}

fn accepts(text: &str, allowed: Vec<AllowedTransition>) -> bool {
    matches!(verdict(text, allowed), Verdict::Accept(_))
}

fn reminds(text: &str, allowed: Vec<AllowedTransition>) -> bool {
    matches!(verdict(text, allowed), Verdict::Remind(_))
}

#[test]
fn policy_allows_only_what_it_lists() {
    let allowed =
        || vec![entry(TagKind::Goto, Some("A.md"), &[]), entry(TagKind::Result, None, &[])];
    assert!(accepts("<goto>A.md</goto>", allowed()));
    assert!(accepts("<result>anything at all</result>", allowed()));
    assert!(reminds("<goto>B.md</goto>", allowed()));
    assert!(reminds("<reset>A.md</reset>", allowed()));
    assert!(reminds("<fork next=\"A.md\">B.md</fork>", allowed()));
}

#[test]
fn policy_entry_without_target_allows_any() {
    assert!(accepts("<goto>B</goto>", vec![entry(TagKind::Goto, None, &[])]));
}

#[test]
fn policy_names_match_whatever_they_resolve_to() {
    for (allowed, written) in [("A", "A.md"), ("A.md", "A"), ("C", "C.sh"), ("C.sh", "C")] {
        let text = format!("<goto>{written}</goto>");
        let entries =
            vec![entry(TagKind::Goto, Some(allowed), &[]), entry(TagKind::Result, None, &[])];
        assert!(accepts(&text, entries), "{allowed} {written}");
    }
}

#[test]
fn policy_attributes_that_are_named_must_match() {
    let call = || {
        vec![
            entry(TagKind::Call, Some("A.md"), &[("return", "B.md")]),
            entry(TagKind::Result, None, &[]),
        ]
    };
    assert!(accepts("<call return=\"B\">A</call>", call()));
    assert!(reminds("<call return=\"A\">A</call>", call()));
    let fork = || {
        vec![
            entry(TagKind::Fork, Some("W"), &[("next", "A"), ("kind", "bug")]),
            entry(TagKind::Result, None, &[]),
        ]
    };
    assert!(accepts("<fork next=\"A.md\" kind=\"bug\">W</fork>", fork()));
    assert!(reminds("<fork next=\"A.md\" kind=\"idea\">W</fork>", fork()));
    assert!(reminds("<fork next=\"A.md\">W</fork>", fork()));
}

#[test]
fn policy_attributes_that_are_not_named_are_free() {
    let fork =
        vec![entry(TagKind::Fork, Some("W"), &[("next", "A")]), entry(TagKind::Result, None, &[])];
    assert!(accepts("<fork next=\"A\" item=\"anything\" other=\"y\">W</fork>", fork));
}

#[test]
fn without_a_policy_everything_is_allowed_but_nothing_is_reminded() {
    assert!(accepts("<goto>A</goto>", vec![]));
    for text in ["no tag", "<goto>A</goto><goto>B</goto>", "<goto>MISSING</goto>", "<goto>A"] {
        assert!(matches!(verdict(text, vec![]), Verdict::Fail(_)), "{text}");
    }
}

#[test]
fn zero_several_and_malformed_tags_are_reminded_of_with_a_policy() {
    let allowed =
        || vec![entry(TagKind::Goto, Some("A"), &[]), entry(TagKind::Goto, Some("B"), &[])];
    for text in ["no tag", "<goto>A</goto><goto>B</goto>", "<goto>A", "<goto>x/A.md</goto>"] {
        assert!(reminds(text, allowed()), "{text}");
    }
}

#[test]
fn state_that_does_not_exist_is_reminded_of_if_the_agent_chose_it() {
    assert!(reminds("<goto>MISSING</goto>", vec![entry(TagKind::Goto, None, &[])]));
}

#[test]
fn state_that_does_not_exist_fails_at_once_if_the_author_chose_it() {
    let allowed =
        vec![entry(TagKind::Goto, Some("MISSING"), &[]), entry(TagKind::Result, None, &[])];
    let Verdict::Fail(Problem::Unresolved(_)) = verdict("<goto>MISSING</goto>", allowed) else {
        panic!("asking again cannot help");
    };
}

#[test]
fn implicit_transition_is_used_when_the_only_one_is_complete() {
    let cases = [
        entry(TagKind::Goto, Some("A"), &[]),
        entry(TagKind::Reset, Some("A"), &[]),
        entry(TagKind::Call, Some("A"), &[("return", "B")]),
        entry(TagKind::Function, Some("A"), &[("return", "B"), ("model", "haiku")]),
        entry(TagKind::Fork, Some("W"), &[("next", "A"), ("item", "x")]),
    ];
    for only in cases {
        let expected = verdict(&only.example(), vec![]);
        let (Verdict::Accept(implicit), Verdict::Accept(written)) =
            (verdict("no tag here", vec![only.clone()]), expected)
        else {
            panic!("{only:?}");
        };
        assert_eq!(implicit.transition, written.transition);
        assert_eq!(implicit.source, Source::Implicit);
    }
}

#[test]
fn implicit_transition_needs_everything_predetermined() {
    let open = [
        entry(TagKind::Goto, None, &[]),
        entry(TagKind::Call, Some("A"), &[]),
        entry(TagKind::Fork, Some("W"), &[]),
        entry(TagKind::Function, None, &[("return", "B")]),
    ];
    for only in open {
        assert!(reminds("no tag", vec![only.clone()]), "{only:?}");
    }
}

#[test]
fn implicit_transition_is_never_a_result() {
    assert!(reminds("no tag", vec![entry(TagKind::Result, None, &[])]));
}

#[test]
fn implicit_transition_still_demands_that_a_written_tag_matches() {
    let only = || vec![entry(TagKind::Goto, Some("A"), &[])];
    assert!(accepts("<goto>A.md</goto>", only()));
    assert!(reminds("<goto>B.md</goto>", only()));
    assert!(reminds("<goto>A</goto><goto>A</goto>", only()));
}

#[test]
fn implicit_transition_is_not_used_with_two_entries() {
    let two = vec![entry(TagKind::Goto, Some("A"), &[]), entry(TagKind::Goto, Some("B"), &[])];
    assert!(reminds("no tag", two));
}

#[test]
fn cd_to_a_directory_that_does_not_exist_is_an_error_before_anything_starts() {
    let Verdict::Fail(problem) = verdict("<reset cd=\"nowhere\">A</reset>", vec![]) else {
        panic!("there is no such directory");
    };
    assert_eq!(problem, Problem::NoSuchDirectory { path: "/project/nowhere".to_owned() });
    assert!(reminds("<fork next=\"A\" cd=\"/x\">W</fork>", vec![entry(TagKind::Fork, None, &[])]));
}

#[test]
fn cd_is_taken_from_the_agents_directory_or_absolute() {
    let mut world = MemoryWorld::new(NAMES);
    world.directories.extend(["/project/sub".to_owned(), "/else".to_owned()]);
    for (cd, path) in [("sub", "/project/sub"), ("/else", "/else")] {
        let text = format!("<reset cd=\"{cd}\">A</reset>");
        let context = JudgeContext { world: &world, cwd: "/project", folder: "" };
        let Verdict::Accept(accepted) = judge(parse(&text), &Policy::default(), &context) else {
            panic!("{cd}");
        };
        let expected = format!("<reset cd=\"{path}\">A.md</reset>");
        assert_eq!(accepted.transition.to_string(), expected);
    }
}

#[test]
fn cd_in_a_loop_keeps_the_length_of_the_path() {
    let mut world = MemoryWorld::new(NAMES);
    world.directories.extend(["/project", "/project/sub"].map(str::to_owned));
    let mut cwd = "/project".to_owned();
    for round in 0..10_000 {
        let cd = [".", "sub//./", ".."][round % 3];
        let text = format!("<reset cd=\"{cd}\">A</reset>");
        let context = JudgeContext { world: &world, cwd: &cwd, folder: "" };
        let verdict = judge(parse(&text), &Policy::default(), &context);
        let Verdict::Accept(Accepted { transition: Transition::Reset { cd, .. }, .. }) = verdict
        else {
            panic!("round {round} in {cwd}: {verdict:?}");
        };
        cwd = cd.unwrap();
    }
    assert_eq!(cwd, "/project");
}

#[test]
fn cd_without_a_value_has_a_message_of_its_own() {
    let Verdict::Fail(problem) = verdict("<reset cd=\"\">A</reset>", vec![]) else {
        panic!("an empty `cd` names nothing");
    };
    assert_eq!(problem.to_string(), "`cd` is empty: leave it out to stay in the same directory");
    assert!(reminds("<fork next=\"A\" cd=\"\">W</fork>", vec![entry(TagKind::Fork, None, &[])]));
}

#[test]
fn fork_attribute_that_would_change_how_programs_run_is_a_protocol_error() {
    for name in ["PATH", "LD_PRELOAD", "BASH_ENV", "RAYMOND_RESULT"] {
        let text = format!("<fork next=\"A\" {name}=\"x\">W</fork>");
        let allowed = vec![entry(TagKind::Fork, Some("W"), &[]), entry(TagKind::Result, None, &[])];
        let Verdict::Remind(Problem::UnsafeAttribute(_)) = verdict(&text, allowed) else {
            panic!("{name}");
        };
    }
}

#[test]
fn fork_attribute_of_an_agent_is_lower_case_or_declared() {
    let fork = |declared: &[&str], named: &[(&str, &str)]| AllowedTransition {
        declared: declared.iter().map(|name| (*name).to_owned()).collect(),
        ..entry(TagKind::Fork, Some("W"), named)
    };
    let text = "<fork next=\"A\" MAKEFLAGS=\"--eval=x\">W</fork>";
    assert!(reminds(text, vec![fork(&[], &[])]));
    assert!(reminds(text, vec![fork(&["PART"], &[])]));
    assert!(accepts(text, vec![fork(&["MAKEFLAGS"], &[])]));
    assert!(accepts(text, vec![fork(&[], &[("MAKEFLAGS", "--eval=x")])]));
    assert!(accepts(text, vec![fork(&[], &[]), fork(&["MAKEFLAGS"], &[])]), "any entry that fits");
    assert!(accepts("<fork next=\"A\" item=\"x\">W</fork>", vec![fork(&["PART"], &[])]));
    let Verdict::Fail(problem) = verdict(text, vec![]) else { panic!("it is not declared") };
    assert_eq!(
        problem.to_string(),
        "the attribute `MAKEFLAGS` is not allowed: choose a name in lower case (`a` to `z`, digits, \
         `_`), or one that the state declares under `attributes`"
    );
    assert!(reminds("<fork next=\"A\" PATH=\"x\">W</fork>", vec![fork(&["PATH"], &[])]));
}

#[test]
fn fork_attribute_of_a_script_is_the_authors_own() {
    let mut sim = Sim::new([("RUN.sh", ""), ("W.sh", ""), ("A.md", "")]);
    sim.world.variables.insert("LANG".to_owned());
    sim.prints("main", "<fork next=\"A\" PART=\"1\" LANG=\"C\">W</fork>");
    assert_eq!(sim.child("main_w1").environment().get("PART"), Some(&"1"));
    let mut sim = Sim::new([("RUN.sh", ""), ("W.sh", "")]);
    sim.prints("main", "<fork next=\"RUN\" LD_PRELOAD=\"x\">W</fork>");
    assert!(sim.error("main").contains("`LD_PRELOAD` changes how programs run"));
}

#[test]
fn fork_attribute_that_is_declared_is_shown_in_reminders() {
    let declared = "---\nallowed_transitions:\n  - { tag: fork, target: W, next: A, kind: bug, attributes: [PART, kind] }\n---\n";
    let mut sim = Sim::new([("START.md", declared), ("W.md", ""), ("A.md", "")]);
    sim.reply("main", "<fork next=\"A\" kind=\"bug\" Part=\"1\">W</fork>");
    let prompt = sim.child("main").prompt();
    assert!(prompt.contains("`Part` is not allowed"), "{prompt}");
    assert!(prompt.contains("- <fork next=\"A\" kind=\"bug\" PART=\"…\">W</fork>"), "{prompt}");
}

#[test]
fn model_of_a_function_is_one_word_without_a_dash() {
    for model in ["--dangerously-skip-permissions", " -x", "", "a\nb"] {
        let text = format!("<function return=\"A\" model=\"{model}\">B</function>");
        let Verdict::Remind(Problem::NotAModel { .. }) =
            verdict(&text, vec![entry(TagKind::Function, None, &[])])
        else {
            panic!("{model}");
        };
    }
    assert!(accepts("<function return=\"A\" model=\"opus\">B</function>", vec![]));
}

#[test]
fn setting_that_would_become_an_option_starts_no_turn() {
    for (set, expected) in [
        (Settings { model: Some("--x".to_owned()), ..Settings::default() }, "the model `--x`"),
        (Settings { effort: Some("-x".to_owned()), ..Settings::default() }, "the effort `-x`"),
        (Settings { agent: Some("-x".to_owned()), ..Settings::default() }, "the agent `-x`"),
    ] {
        let mut started = started("A.md");
        started.settings = set;
        let sim = Sim::with(started, MemoryWorld::new(NAMES));
        assert!(sim.children.is_empty());
        assert!(sim.error("main").starts_with(expected), "{}", sim.error("main"));
    }
}

#[test]
fn what_the_agent_chose_is_reminded_of_even_if_the_entry_is_complete() {
    let allowed = || vec![entry(TagKind::Fork, Some("W"), &[("next", "A")])];
    assert!(reminds("<fork next=\"A\" PATH=\"x\">W</fork>", allowed()));
    assert!(reminds("<fork next=\"A\" cd=\"/nowhere\">W</fork>", allowed()));
}

#[test]
fn what_the_author_prescribed_fails_at_once() {
    let cd = vec![entry(TagKind::Reset, Some("A"), &[("cd", "/nowhere")])];
    let Verdict::Fail(Problem::NoSuchDirectory { .. }) =
        verdict("<reset cd=\"/nowhere\">A</reset>", cd)
    else {
        panic!("the agent cannot do better");
    };
}

const REVIEW: &str = "---\nallowed_transitions:\n  - { tag: goto, target: DONE.md }\n  - { tag: result }\n---\nreview";

fn review() -> Sim {
    Sim::new([("REVIEW.md", REVIEW), ("DONE.md", "done")])
}

#[test]
fn reminder_goes_into_the_same_session_and_lists_what_is_allowed() {
    let mut sim = review();
    sim.reply("main", "I am not sure.");
    let child = sim.child("main");
    assert_eq!(child.step.state.as_str(), "REVIEW.md");
    assert_eq!(child.session(), &SessionPlan::Resume { id: session("s1") });
    assert!(child.prompt().contains("- <goto>DONE.md</goto>\n- <result>…</result>"));
    assert!(child.prompt().contains("no transition tag was found"));
    sim.reply("main", "<goto>DONE</goto>");
    assert_eq!(sim.state("main"), "DONE.md");
    assert_eq!(sim.child("main").session(), &SessionPlan::Resume { id: session("s1") });
}

#[test]
fn reminders_end_after_three_and_the_agent_fails() {
    let mut sim = review();
    for _ in 0..3 {
        sim.reply("main", "still nothing");
    }
    assert_eq!(sim.run.status, Status::Running);
    sim.reply("main", "nothing, finally");
    assert_eq!(sim.error("main"), "no transition tag was found (after 3 reminders)");
    assert_eq!(sim.run.status, Status::Failed);
}

#[test]
fn reminder_counter_is_reset_in_every_state() {
    let mut sim = review();
    for _ in 0..3 {
        sim.reply("main", "nothing");
    }
    sim.reply("main", "<goto>DONE</goto>");
    assert_eq!(sim.main().tries.reminders, 0);
}

#[test]
fn parse_failure_without_a_policy_fails_the_agent_at_once() {
    let mut sim = Sim::new([("START.md", "go")]);
    sim.reply("main", "no tag");
    assert_eq!(sim.error("main"), "no transition tag was found");
    assert_eq!(sim.run.status, Status::Failed);
}

#[test]
fn implicit_transition_is_recorded_as_such() {
    let only = "---\nallowed_transitions: [{ tag: goto, target: DONE }]\n---\nx";
    let mut sim = Sim::new([("START.md", only), ("DONE.md", "done")]);
    sim.reply("main", "nothing to say");
    assert_eq!(sim.state("main"), "DONE.md");
    assert!(sim.journal.iter().any(|r| matches!(r, Record::Followed { via: Via::Implicit, .. })));
}

#[test]
fn empty_list_of_transitions_is_no_policy() {
    let mut sim = Sim::new([("START.md", "---\nallowed_transitions: []\n---\nx")]);
    sim.reply("main", "no tag");
    assert!(matches!(sim.main().phase, Phase::Failed { .. }));
}

#[test]
fn model_of_the_frontmatter_beats_the_tag_which_beats_the_run() {
    let mut begin = started("START.md");
    begin.settings.model = Some("from-run".to_owned());
    begin.settings.effort = Some("low".to_owned());
    let world = MemoryWorld::new([
        ("START.md", "x"),
        ("OWN.md", "---\nmodel: from-frontmatter\neffort: high\n---\nx"),
        ("PLAIN.md", "x"),
    ]);
    let mut sim = Sim::with(begin, world);
    let model = |sim: &Sim| sim.child("main").turn().settings.model.clone().unwrap();
    assert_eq!(model(&sim), "from-run");
    sim.reply("main", "<function return=\"PLAIN\" model=\"from-tag\">PLAIN</function>");
    assert_eq!(model(&sim), "from-tag");
    assert_eq!(sim.child("main").turn().settings.effort.as_deref(), Some("low"));
    sim.reply("main", "<goto>OWN</goto>");
    assert_eq!(model(&sim), "from-frontmatter");
    assert_eq!(sim.child("main").turn().settings.effort.as_deref(), Some("high"));
    sim.reply("main", "<call return=\"PLAIN\">PLAIN</call>");
    assert_eq!(model(&sim), "from-tag", "a call inside the function is part of it");
    sim.reply("main", "<result>back</result>");
    assert_eq!(model(&sim), "from-tag");
    sim.reply("main", "<result>back</result>");
    assert_eq!(model(&sim), "from-run");
}

#[test]
fn model_is_left_to_the_coding_agent_if_none_is_named() {
    let sim = Sim::new([("START.md", "x")]);
    assert_eq!(sim.child("main").turn().settings.model, None);
    assert_eq!(sim.child("main").turn().settings.effort, None);
}
