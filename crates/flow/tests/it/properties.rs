//! Properties of every workflow, for random answers and failures.
//!
//! The simulator itself checks after each decision that the journal replays to the live run and
//! that the state file reads back as the same run; here it is driven at random.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};
use raymond_flow::{
    id::{AgentId, StateName},
    machine::{
        FailureClass, Halt, Input, Limits, OnUsageLimit, Phase, Record, Session, Standing, Status,
        TurnFailure, apply, replay,
    },
    money::Usd,
    policy::Transition,
    prompt::{Variables, render},
    source::{Platform, StateFile},
    tag::{Scan, Scanner, Tag, TagError, TagKind, parse},
    turn::{Exit, Outcome},
    world::MemoryWorld,
};

use crate::sim::{Sim, known_limit, response, session, started, usd};

const STATES: [&str; 8] =
    ["START.md", "PLAN.md", "STEP1.md", "W1_X.md", "X.md", "POLL.sh", "BUILD.sh", "JUDGE.md"];

/// A prompt with some policy, or none.
fn prompt() -> impl Strategy<Value = String> {
    let policies = [
        "",
        "---\nallowed_transitions: [{ tag: goto, target: PLAN }]\n---\n",
        "---\nallowed_transitions: [{ tag: goto }, { tag: fork, many: true }, { tag: result }]\n---\n",
        "---\nallowed_transitions: [{ tag: join }, { tag: fork, many: true }]\nmax_visits: 2\nthen: { tag: result }\n---\n",
        "---\nallowed_transitions:\n  - { tag: call, target: X, return: PLAN }\n  - { tag: result }\n---\n",
        "---\nallowed_transitions: [{ tag: goto }, { tag: result }]\nevaluators:\n  - prompt: JUDGE\n---\n",
        "---\nevaluators: [{ match: stuck, then: { tag: reset, target: PLAN } }]\nmodel: haiku\n---\n",
        "---\nmodel: [broken\n---\n",
        "---\nallowed_transitions: [{ tag: ask, question: Go?, choices: a=PLAN|b=X, timeout: 5m, default: b }]\n---\n",
        "---\nallowed_transitions: [{ tag: ask, next: PLAN }, { tag: result }]\n---\n",
    ];
    (select(policies.to_vec()), "[a-z {}]{0,20}")
        .prop_map(|(policy, body)| format!("{policy}{body}"))
}

/// An answer: often a valid tag, sometimes not.
fn answer() -> impl Strategy<Value = String> {
    let state =
        || select(vec!["START", "PLAN", "STEP1", "W1_X", "X.md", "POLL", "BUILD", "NOWHERE"]);
    prop_oneof![
        4 => state().prop_map(|s| format!("<goto>{s}</goto>")),
        1 => state().prop_map(|s| format!("stuck <goto>{s}</goto>")),
        1 => state().prop_map(|s| format!("<reset>{s}</reset>")),
        3 => (state(), state()).prop_map(|(s, r)| format!("<call return=\"{r}\">{s}</call>")),
        2 => (state(), state()).prop_map(|(s, r)| format!("<function return='{r}'>{s}</function>")),
        3 => (state(), state(), "[a-z]{0,3}")
            .prop_map(|(s, n, i)| format!("<fork next=\"{n}\" item=\"{i}\">{s}</fork>")),
        2 => (state(), state(), 1..4u32)
            .prop_map(|(s, n, l)| format!("<fork next=\"{n}\" limit=\"{l}\">{s}</fork>")),
        1 => (state(), state(), 2..5usize)
            .prop_map(|(s, n, many)| format!("<fork next=\"{n}\">{s}</fork>").repeat(many)),
        3 => state().prop_map(|s| format!("<join>{s}</join>")),
        2 => (state(), 1..3u32)
            .prop_map(|(s, n)| format!("<join count=\"{n}\" failed=\"pass\">{s}</join>")),
        3 => (state(), state(), select(vec!["", " timeout='9s' default='b'"]))
            .prop_map(|(s, n, t)| format!("<ask next='{n}' choices='a={s}|b'{t}>Well?</ask>")),
        1 => state().prop_map(|s| format!("<ask next='{s}'>Why?</ask>")),
        4 => "[a-z]{0,5}".prop_map(|p| format!("<result>{p}</result>")),
        1 => Just("<result>accept</result>".to_owned()),
        1 => Just("no tag at all".to_owned()),
        1 => "\\PC{0,30}",
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Answer(prop::sample::Index, String, u32),
    Exit(prop::sample::Index, i32),
    Fail(prop::sample::Index, FailureClass, u32),
    Lose(prop::sample::Index),
    Interrupt(prop::sample::Index),
    Wake(prop::sample::Index),
    Respond(prop::sample::Index, &'static str),
    Lift,
    Limit,
    Crash,
    Halt(Halt),
    Resume(Option<u32>),
    Rewrite(prop::sample::Index, String),
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    let classes = vec![
        FailureClass::Transient { retry_after_ms: None },
        FailureClass::UsageLimit { resets_at: Some(7) },
        FailureClass::Budget,
        FailureClass::Authentication,
        FailureClass::TimedOut,
    ];
    prop_oneof![
        20 => (which(), answer(), 0..900_000u32).prop_map(|(i, a, c)| Step::Answer(i, a, c)),
        1 => (which(), -1..3i32).prop_map(|(i, code)| Step::Exit(i, code)),
        2 => (which(), select(classes), 0..900_000u32).prop_map(|(i, f, c)| Step::Fail(i, f, c)),
        1 => which().prop_map(Step::Lose),
        1 => which().prop_map(Step::Interrupt),
        3 => which().prop_map(Step::Wake),
        5 => (which(), select(vec!["a", "b", "c"])).prop_map(|(i, r)| Step::Respond(i, r)),
        1 => Just(Step::Lift),
        1 => Just(Step::Limit),
        2 => Just(Step::Crash),
        1 => select(vec![Halt::Interrupted, Halt::DiskLow { free_bytes: 1 }]).prop_map(Step::Halt),
        3 => proptest::option::of(1..100u32).prop_map(Step::Resume),
        1 => (which(), prompt()).prop_map(|(i, p)| Step::Rewrite(i, p)),
    ]
}

fn worker_step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    let tags = vec![
        "<fork next=\"START\">W</fork>",
        "<fork next=\"START\" limit=\"2\">W</fork>",
        "<fork next=\"START\" limit=\"1\">W</fork>",
        "<join>START</join>",
        "<join count=\"2\">START</join>",
        "<join failed=\"pass\">START</join>",
        "<join count=\"1\" failed=\"pass\">START</join>",
        "<function return=\"START\">CALLEE</function>",
        "<call return=\"START\">CALLEE</call>",
        "<reset>START</reset>",
        "<goto>W</goto>",
        "<result>r</result>",
        "<result>other</result>",
        "<result>third</result>",
    ];
    prop_oneof![
        20 => (which(), select(tags)).prop_map(|(i, tag)| Step::Answer(i, tag.to_owned(), 0)),
        3 => which().prop_map(|i| Step::Fail(i, FailureClass::Refused, 0)),
        1 => which().prop_map(Step::Lose),
        1 => which().prop_map(Step::Interrupt),
        2 => Just(Step::Crash),
        1 => Just(Step::Halt(Halt::Interrupted)),
        3 => Just(Step::Resume(None)),
    ]
}

/// The run as an orchestrator finds it that knows nothing but the state file.
fn reopened(mut sim: Sim) -> Sim {
    let json = serde_json::to_string(&sim.run).unwrap();
    sim.run = serde_json::from_str(&json).unwrap();
    sim
}

/// No more workers with a limit are under way than the highest of their limits allows.
fn places_are_kept(sim: &Sim) -> Result<(), TestCaseError> {
    for crew in sim.run.crews.values() {
        let under_way = crew.workers().values().filter(|w| w.standing == Standing::UnderWay);
        let limited = under_way.clone().filter_map(|w| w.limit).count();
        let most = under_way.filter_map(|w| w.limit).max().unwrap_or(0);
        prop_assert!(limited <= most as usize, "{:?}", crew);
    }
    Ok(())
}

/// Every worker's result is joined once, or kept for a join, or its parent has ended.
fn results_are_handed_over_once(sim: &Sim) -> Result<(), TestCaseError> {
    let mut run = replay(sim.journal[..1].to_vec()).unwrap();
    let mut joined = BTreeSet::new();
    let mut ended: Vec<(AgentId, String)> = Vec::new();
    for record in &sim.journal[1..] {
        let before = run.clone();
        apply(&mut run, record).unwrap();
        match record {
            Record::Joined { agent, workers } => {
                let handed: serde_json::Value = serde_json::from_str(
                    run.agents[agent].result.as_ref().unwrap().as_text().unwrap(),
                )
                .unwrap();
                prop_assert_eq!(handed.as_array().unwrap().len(), workers.len());
                let parent = &before.agents[agent];
                let Phase::Joining { join } = &parent.phase else { panic!("{parent:?}") };
                let births: Vec<_> = workers.iter().map(|worker| worker.born).collect();
                prop_assert!(join.count.is_some() || births.is_sorted(), "{:?}", births);
                for (worker, handed) in workers.iter().zip(handed.as_array().unwrap()) {
                    prop_assert!(joined.insert(worker.agent.clone()), "{:?} twice", worker);
                    prop_assert!(worker.born >= parent.workers_since(), "the caller's");
                    prop_assert_eq!(handed["agent"].as_str(), Some(worker.agent.as_str()));
                    match ended.iter().find(|(id, _)| *id == worker.agent) {
                        Some((_, payload)) => prop_assert_eq!(&handed["result"], payload),
                        None => prop_assert!(handed["error"].is_string()),
                    }
                }
            }
            Record::Followed { agent, transition: Transition::Result { payload }, .. }
                if !run.agents.contains_key(agent) =>
            {
                ended.push((agent.clone(), payload.to_string()));
            }
            _ => {}
        }
    }
    let gone: BTreeSet<_> = ended.iter().map(|(id, _)| id.clone()).collect();
    for (worker, payload) in &ended {
        let forked = sim.journal.iter().find_map(|record| match record {
            Record::Followed { agent, workers, .. } if workers.contains(worker) => Some(agent),
            _ => None,
        });
        let Some(parent) = forked else { continue };
        let is_passed = run.agents.get(parent).is_some_and(|agent| agent.phase.is_passed());
        let keeps = |standing: &Standing| matches!(standing, Standing::Ended { result, .. } if result.as_text() == Some(payload.as_str()));
        let is_kept = run.crews.get(parent).is_some_and(|crew| {
            crew.workers().values().any(|w| w.agent == *worker && keeps(&w.standing))
        });
        let is_in_one_place = joined.contains(worker) != is_kept;
        prop_assert!(is_in_one_place || gone.contains(parent) || is_passed, "{} is lost", worker);
    }
    Ok(())
}

/// Answers an open question twice: the second answer decides nothing.
fn respond(sim: &mut Sim, index: prop::sample::Index, result: &str) {
    let open: Vec<_> = sim.questions.keys().cloned().collect();
    if open.is_empty() || sim.run.status != Status::Running {
        return;
    }
    let id = index.get(&open).clone();
    let is_answer = sim.questions[&id].target(result).is_some();
    let response = Box::new(response(result));
    let before = sim.journal.len();
    sim.input(Input::Answered { id: id.clone(), response: response.clone() });
    assert_eq!(sim.journal.len() > before, is_answer);
    if is_answer {
        sim.questions.remove(&id);
        // A second answer decides nothing.
        let length = sim.journal.len();
        sim.input(Input::Answered { id, response });
        assert_eq!(sim.journal.len(), length);
    }
}

/// Does `step` to the run, if it means anything there.
fn take(sim: &mut Sim, step: Step) {
    let child = |sim: &Sim, index: &prop::sample::Index| {
        let ids: Vec<_> = sim.children.keys().cloned().collect();
        (!ids.is_empty()).then(|| index.get(&ids).agent.as_str().to_owned())
    };
    let cost = |billionths: u32| Usd::from_billionths(u64::from(billionths) * 1_000).dollars();
    match step {
        Step::Answer(index, text, billionths) => {
            let Some(name) = child(sim, &index) else { return };
            if sim.state(&name).ends_with(".sh") {
                sim.prints(&name, &text);
            } else {
                sim.reply_costing(&name, &text, cost(billionths));
            }
        }
        Step::Exit(index, code) => {
            let Some(name) = child(sim, &index) else { return };
            sim.exits(&name, "<goto>PLAN</goto>", Exit::Code(code));
        }
        Step::Fail(index, class, billionths) => {
            let Some(name) = child(sim, &index) else { return };
            let failure = TurnFailure { class, message: "failed".to_owned() };
            sim.end(&name, Outcome::Failed(failure), cost(billionths));
        }
        Step::Lose(index) => {
            let Some(name) = child(sim, &index) else { return };
            sim.end(&name, Outcome::Lost, 0.0);
        }
        Step::Interrupt(index) => {
            let Some(name) = child(sim, &index) else { return };
            sim.end(&name, Outcome::Interrupted, 0.0);
        }
        Step::Wake(index) => {
            let waiting: Vec<_> = sim.waits.keys().cloned().collect();
            if !waiting.is_empty() && sim.run.halt.is_none() {
                sim.wake(index.get(&waiting).as_str());
            }
        }
        Step::Respond(index, result) => respond(sim, index, result),
        Step::Lift => {
            sim.waits_for_usage_limit = false;
            sim.input(Input::UsageLimitLifted);
        }
        Step::Limit => sim.input(known_limit(None, None)),
        Step::Crash => sim.crash(),
        Step::Halt(halt) => sim.input(Input::Halt(halt)),
        Step::Resume(dollars) if sim.run.status != Status::Running => {
            let budget_usd = dollars.map(|dollars| usd(f64::from(dollars)));
            sim.resume_with(Limits { budget_usd, ..sim.run.limits.clone() });
        }
        Step::Resume(_) => {}
        Step::Rewrite(index, text) => {
            let name = (*index.get(&STATES)).to_owned();
            sim.world.files.insert(name, text.into_bytes());
        }
    }
}

/// Ends a turn that has spent so many thousandths of its share, in one of several ways, or lets something else
/// happen to the run.
fn spend(sim: &mut Sim, index: prop::sample::Index, kind: u8, permille: u64) {
    if sim.run.status != Status::Running {
        let budget_usd = sim.run.limits.budget_usd.map(|budget| budget + budget);
        return sim.resume_with(Limits { budget_usd, ..sim.run.limits.clone() });
    }
    let waiting: Vec<_> = sim.waits.keys().cloned().collect();
    let ids: Vec<_> = sim.children.keys().cloned().collect();
    let may_wake = !waiting.is_empty() && sim.run.halt.is_none();
    if may_wake && (kind == 0 || ids.is_empty()) {
        return sim.wake(index.get(&waiting).as_str());
    }
    if ids.is_empty() || kind == 0 {
        return sim.crash();
    }
    let name = index.get(&ids).agent.as_str().to_owned();
    if sim.state(&name).ends_with(".sh") {
        return sim.prints(&name, "<goto>START</goto>");
    }
    let share = sim.child(&name).turn().budget_usd.unwrap();
    let part = |permille: u64| share.for_millionths(permille * 1000);
    let fails = |class| Outcome::Failed(TurnFailure { class, message: "failed".to_owned() });
    match kind {
        1 => sim.end(&name, fails(FailureClass::Budget), share.dollars()),
        2 => {
            let class = FailureClass::Transient { retry_after_ms: None };
            sim.end(&name, fails(class), part(permille).dollars());
        }
        3 => sim.end(&name, Outcome::Lost, 0.0),
        4 => sim.reply_costing(&name, "<result>x</result>", part(permille).dollars()),
        5 => sim.reply_costing(&name, "<goto>S</goto>", part(permille).dollars()),
        6 => sim.reply_costing(&name, "<goto>START</goto>", part(permille).dollars()),
        _ => {
            let answer = "<fork next=\"START\">START</fork>";
            sim.reply_costing(&name, answer, part(permille / 100).dollars());
        }
    }
}

proptest! {
    #[test]
    fn every_run_replays_names_agents_once_and_adds_up(
        prompts in vec(prompt(), STATES.len()),
        steps in vec(step(), 1..60),
        max_parallel in 1..4u32,
        max_iterations in proptest::option::of(1..40u64),
        waits in any::<bool>(),
    ) {
        let mut begin = started("START.md");
        begin.limits.max_parallel = max_parallel;
        begin.limits.max_iterations = max_iterations;
        begin.limits.budget_usd = Some(usd(5.0));
        begin.settings.on_usage_limit =
            if waits { OnUsageLimit::Wait } else { OnUsageLimit::Pause };
        let files = STATES.iter().zip(&prompts).map(|(name, text)| (*name, text.as_str()));
        let mut sim = Sim::with(begin, MemoryWorld::new(files));
        for step in steps {
            take(&mut sim, step);
            sim.check_pending();
            let turns = sim.children.values().filter(|c| c.step.state.as_str().ends_with(".md"));
            prop_assert!(turns.count() <= max_parallel as usize);
        }
        let mut names = BTreeSet::from([AgentId::main()]);
        let mut total = Usd::ZERO;
        let (mut ids, mut asks, mut answers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for record in &sim.journal {
            match record {
                Record::Followed { workers, .. } => {
                    for worker in workers {
                        prop_assert!(names.insert(worker.clone()), "{} was given twice", worker);
                    }
                }
                Record::Ended { spent, .. } => total += spent.cost_usd,
                Record::Intended { agent, step } => {
                    prop_assert!(ids.insert((agent.clone(), step.number)), "a step id was reused");
                }
                Record::Asked { agent, number, .. } => {
                    prop_assert!(asks.insert((agent.clone(), *number)), "a question was asked twice");
                }
                Record::Answered { agent, number, .. } => {
                    let id = (agent.clone(), *number);
                    prop_assert!(asks.contains(&id) && answers.insert(id), "answered twice");
                }
                _ => {}
            }
        }
        prop_assert_eq!(sim.run.total_cost_usd, total);
        prop_assert_eq!(sim.run.agents_born, names.len() as u64);
        if sim.run.status == Status::Completed {
            let is_over = sim.run.agents.values().all(|agent| agent.phase.is_passed());
            prop_assert!(is_over, "completed only if everybody ended");
        }
        results_are_handed_over_once(&sim)?;
    }

    /// A run of workers alone, so that most of it is forks, joins, failures and kills.
    #[test]
    fn results_of_workers_are_neither_lost_nor_handed_over_twice_whatever_is_killed(
        steps in vec(worker_step(), 1..120),
    ) {
        let mut sim = Sim::new(["START.md", "W.md", "CALLEE.md"].map(|name| (name, "")));
        for step in steps {
            take(&mut sim, step);
            sim.check_pending();
            places_are_kept(&sim)?;
            sim = reopened(sim);
        }
        results_are_handed_over_once(&sim)?;
    }

    #[test]
    fn replay_of_any_prefix_is_the_run_at_that_moment(
        steps in vec(step(), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut sim = Sim::new(STATES.map(|name| (name, "")));
        for step in steps {
            take(&mut sim, step);
        }
        let prefix = &sim.journal[..=cut.index(sim.journal.len())];
        let mut run = replay(prefix.to_vec()).unwrap();
        for record in &sim.journal[prefix.len()..] {
            apply(&mut run, record).unwrap();
        }
        prop_assert_eq!(run, sim.run);
    }

    #[test]
    fn records_in_a_wrong_order_are_refused_or_applied_but_never_panic(
        steps in vec(step(), 1..40),
        order in vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let mut sim = Sim::new(STATES.map(|name| (name, "")));
        for step in steps {
            take(&mut sim, step);
        }
        let mut run = replay(sim.journal[..1].to_vec()).unwrap();
        for index in order {
            if apply(&mut run, index.get(&sim.journal)).is_err() {
                break;
            }
        }
    }

    /// Whatever the order of starts and ends: what is spent and what turns in flight may still spend never add up to
    /// more than the budget, as long as no turn spends more than its share, and no turn waits for ever.
    #[test]
    fn spent_and_reserved_never_exceed_the_budget(
        turns in vec((any::<prop::sample::Index>(), 0..9u8, 0..=1000u64), 1..120),
        cents in 1..500u64,
        max_parallel in 1..70u32,
    ) {
        let mut begin = started("START.md");
        begin.limits.max_parallel = max_parallel;
        begin.limits.budget_usd = Some(Usd::from_billionths(cents * 10_000_000));
        let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", ""), ("S.sh", "")]));
        for (index, kind, permille) in turns {
            spend(&mut sim, index, kind, permille);
            let budget = sim.run.limits.budget_usd.unwrap();
            prop_assert!(sim.run.total_cost_usd + sim.reserved() <= budget);
            let is_idle = sim.children.is_empty() && sim.waits.is_empty();
            prop_assert!(!is_idle || sim.run.status != Status::Running, "every turn waits");
        }
    }

    /// A call followed by any gotos and one result returns to the caller's session and state.
    #[test]
    fn stack_discipline_holds(moves in vec((0..4u8, 0..5usize), 1..60)) {
        let states = ["A.md", "B.md", "C.md", "D.md", "E.md"];
        let mut sim = Sim::new(states.map(|name| (name, "")));
        let mut expected: Vec<(StateName, Session)> = Vec::new();
        for (kind, index) in moves {
            let open = sim.child("main").session().id().clone();
            let state = states[index];
            match kind {
                0 => sim.reply("main", &format!("<goto>{state}</goto>")),
                1 | 2 => {
                    let tag = if kind == 1 { "call" } else { "function" };
                    sim.reply("main", &format!("<{tag} return=\"{state}\">A.md</{tag}>"));
                    let name = StateName::new(state);
                    expected.push((name, Session::Open(open.clone())));
                    prop_assert_ne!(sim.child("main").session().id(), &open);
                }
                _ => {
                    let Some((state, session)) = expected.pop() else { continue };
                    sim.reply("main", "<result>x</result>");
                    prop_assert_eq!(sim.state("main"), state.as_str());
                    let id = sim.child("main").session().id().clone();
                    prop_assert_eq!(Session::Open(id), session);
                }
            }
            let stack = sim.main().stack.iter().map(|f| (f.state.clone(), f.session.clone()));
            prop_assert_eq!(stack.collect::<Vec<_>>(), expected.clone());
        }
    }

    #[test]
    fn no_text_makes_the_tag_scanner_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn chunks_of_any_size_are_scanned_like_the_whole(
        pieces in vec(select(vec![
            "<goto>", "</goto>", "<result>", "</result>", "<call return=\"", "\">", "X.md", "<", ">",
            "</call>", "<fork next='N' a=\"<\">", "</fork>", " ", "\n", "é", "'", "\"", "<goto/>", "</", "=",
        ]), 0..30),
        sizes in vec(1..9usize, 1..9),
    ) {
        let text = pieces.concat();
        let mut scanner = Scanner::new();
        let mut rest = text.as_bytes();
        for size in sizes.iter().cycle() {
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            scanner.push(chunk);
            rest = after;
            if rest.is_empty() { break; }
        }
        let tag = |scan: Scan| scan.tag(|span| {
            let range = span.range().unwrap();
            Ok::<_, ()>(String::from_utf8_lossy(&text.as_bytes()[range]).into_owned())
        }).unwrap();
        prop_assert_eq!(tag(scanner.finish()), tag(Scan::of(&text)));
    }

    #[test]
    fn tag_that_is_written_is_the_tag_that_is_read(text in answer()) {
        if let Ok(tag) = parse(&text) {
            // Surrounding prose without brackets changes nothing but places.
            let padded = parse(&format!("before {text} after")).map(|tag| tag.value.kind);
            prop_assert_eq!(padded, Ok(tag.value.kind));
            let forks = tag.value.more.len() + 1;
            let twice = parse(&format!("{text}{text}"));
            let is_several = match twice.map(|tag| tag.value) {
                Ok(Tag { kind: TagKind::Fork, more, .. }) => more.len() + 1 == 2 * forks,
                Ok(_) => false,
                Err(error) => matches!(error, TagError::Several { count: 2, .. }),
            };
            prop_assert!(is_several);
        }
    }

    #[test]
    fn payload_of_a_result_is_whole_or_refused(
        pieces in vec(select(vec![
            "<result>", "</result>", "<goto>A</goto>", "<goto>", "</goto>", " ", "\n", "x", "<result/>",
        ]), 0..12),
        before in select(vec!["", "I end with <result>.\n", "Done: "]),
    ) {
        let raw = pieces.concat();
        let text = format!("{before}<result>{raw}</result>");
        match parse(&text).map(|tag| tag.value) {
            Ok(Tag { kind: TagKind::Result, content: payload, .. }) => {
                // A line in the payload that begins or ends like a payload may be taken for its end.
                let is_odd = raw.lines().skip(1).any(|line| line.trim_start().starts_with("<result>"))
                    || raw.lines().any(|line| line.trim_end().ends_with("</result>"));
                prop_assert!(is_odd || payload.value.ends_with(&raw), "{text:?}: {:?}", payload.value);
                // Prose is taken for payload only if it opens a tag that the payload closes.
                let is_mentioned = before.contains("<result>") && raw.contains("</result>");
                prop_assert!(is_odd || is_mentioned || payload.value == raw, "{text:?}");
            }
            Ok(other) => prop_assert!(false, "{text:?}: {other:?}"),
            Err(_) => {}
        }
    }

    #[test]
    fn no_file_makes_the_reader_panic(
        bytes in vec(any::<u8>(), 0..200),
        text in "(---\n)?([a-z_]{0,20}:? ?[\\[\\]{}'\"&*!|>%@-]{0,4}\n?){0,8}(---\n)?",
    ) {
        let _ = StateFile::read("X.md", &bytes, Platform::Unix);
        let _ = StateFile::read("X.md", text.as_bytes(), Platform::Windows);
    }

    #[test]
    fn rendering_never_expands_a_value(template in "[ab{}]{0,30}", value in "[ab{}]{0,10}") {
        let mut variables = Variables::new();
        variables.set("a", &value);
        let once = render(&template, &variables);
        let count = |text: &str| text.matches("{{a}}").count();
        if !value.contains(['{', '}']) {
            prop_assert_eq!(count(&once.text), 0);
        }
        variables.set("a", "{{a}}");
        // Each placeholder becomes itself: a second pass would never end.
        prop_assert_eq!(render(&template, &variables).text, template.replace("{{ a }}", "{{a}}"));
    }

    #[test]
    fn session_ids_are_opaque(id in "\\PC{1,40}") {
        let json = serde_json::to_string(&session(&id)).unwrap();
        prop_assert_eq!(serde_json::from_str::<raymond_flow::id::SessionId>(&json).unwrap(), session(&id));
    }
}
