//! A run that is taken up again from its past.

use std::collections::BTreeMap;

use raymond_flow::{
    id::{RunId, SessionId},
    machine::{Phase, Record, SessionPlan, Status, bookmarks, replay},
    turn::Exit,
};

use crate::{
    fixtures::check_journal,
    sim::{Sim, agent},
    worktrees::sim_from,
};

/// The run that begins with the first `count` records of `sim`, each session branched as `then` says.
fn rewound(sim: Sim, count: usize, then: &[(&str, &str)]) -> Sim {
    let session = |(from, to): &(&str, &str)| (SessionId::new(from), SessionId::new(to));
    let sessions: BTreeMap<_, _> = then.iter().map(session).collect();
    let mut sim = sim;
    sim.journal.truncate(count);
    let (from, step) = (RunId::new("old").unwrap(), Some("main.2".to_owned()));
    sim.journal.push(Record::Rewound { from, step, sessions });
    sim.children.clear();
    sim.questions.clear();
    sim.run = replay(sim.journal.clone()).unwrap();
    assert_eq!(sim.run.status, Status::Paused, "nothing takes it up by itself");
    sim.resume();
    sim
}

fn before(sim: &Sim, agent: &str, number: u32) -> usize {
    let starts = |record: &Record| matches!(record, Record::Intended { agent: own, step } if own.as_str() == agent && step.number == number);
    sim.journal.iter().position(starts).unwrap()
}

#[test]
fn step_is_done_again_in_a_branch_of_its_session_as_it_was() {
    let mut sim = Sim::new([("START.md", "s"), ("NEXT.md", "n"), ("LAST.md", "l")]);
    sim.reply("main", "<goto>NEXT</goto>");
    sim.reply("main", "<goto>LAST</goto>");
    let cut = before(&sim, "main", 2);
    let marks = bookmarks(&sim.journal[..cut]);
    assert_eq!(marks[&SessionId::new("s1")].number, 1);
    let sim = rewound(sim, cut, &[("s1", "s1@then")]);
    assert_eq!(sim.state("main"), "NEXT.md");
    let SessionPlan::Branch { from, id, .. } = sim.child("main").session() else { panic!() };
    assert_eq!((from.as_str(), id.as_str() != "s1"), ("s1@then", true));
    assert_eq!(sim.run.iteration_count, 2);
}

#[test]
fn callers_return_to_branches_and_reminded_agents_enter_their_state_again() {
    let list = "---\nallowed_transitions:\n  - { tag: result }\n---\nsub";
    let mut sim = Sim::new([("START.md", "s"), ("SUB.md", list), ("BACK.md", "b")]);
    sim.reply("main", "<call return=\"BACK\">SUB</call>");
    sim.reply("main", "no tag");
    assert!(sim.child("main").prompt().contains("did not end this step"));
    let cut = before(&sim, "main", 3);
    let mut sim = rewound(sim, cut, &[]);
    assert_eq!(sim.child("main").prompt(), "sub", "not the reminder");
    sim.reply("main", "<result>r</result>");
    assert_eq!(sim.state("main"), "BACK.md");
    assert!(
        matches!(sim.child("main").session(), SessionPlan::Branch { from, .. } if from.as_str() == "s1")
    );
}

#[test]
fn step_of_another_agent_that_was_in_flight_is_done_again_and_questions_stay_open() {
    let files = [("START.sh", "s"), ("WORK.md", "w"), ("NEXT.sh", "n"), ("LAST.sh", "l")];
    let mut sim = Sim::new(files);
    sim.prints("main", "<fork next=\"NEXT\">WORK</fork>");
    sim.prints("main", "<ask next=\"LAST\">Right?</ask>");
    let count = sim.journal.len();
    let mut sim = rewound(sim, count, &[]);
    assert_eq!(sim.state("main_work1"), "WORK.md");
    assert_eq!(sim.child("main_work1").step.number, 2, "its number is not used twice");
    assert!(matches!(sim.run.agents.values().next().unwrap().phase, Phase::Asking { .. }));
    sim.answer("main", "yes");
    assert_eq!(sim.state("main"), "LAST.sh");
    sim.crash();
    assert_eq!(sim.run.status, Status::Running);
}

#[test]
fn workers_get_worktrees_of_their_own_from_their_last_recorded_commits() {
    let mut sim = sim_from("start");
    sim.reply("main", "<fork next=\"START\" worktree=\"fix\" cd=\"sub\">W</fork>");
    sim.reply("main", "<fork next=\"START\" worktree=\"true\">S</fork>");
    sim.reply("main_w1", "<call return=\"W\">S</call>");
    sim.holds_git = true;
    sim.exits("main_s2", "", Exit::Code(3));
    sim.save_worktree("main_s2", Some("c2"), None);
    assert_eq!(sim.run.bound_to_worktree(), None);
    let count = sim.journal.len();
    let mut sim = rewound(sim, count, &[]);
    assert!(sim.run.worktrees.is_empty(), "those of the other run stay its own");
    let plan = |name: &str| sim.making[&agent(name)].clone();
    assert_eq!((plan("main_s2").name, plan("main_s2").commit), (None, "c2".to_owned()));
    assert_eq!((plan("main_w1").name.as_deref(), &*plan("main_w1").commit), (Some("fix"), "c1"));
    assert_eq!(plan("main_w1").inside, "sub");
    sim.make_worktree("main_w1");
    sim.prints("main_w1", "<result>r</result>");
    assert_eq!(sim.child("main_w1").cwd, "/worktrees/main_w1-fix/sub");
}

#[test]
fn worker_in_the_middle_of_work_in_its_worktree_can_be_continued_only_there() {
    for tag in ["<ask next=\"W\">Right?</ask>", "<call return=\"W\" cd=\"/project/sub\">S</call>"] {
        let mut sim = sim_from("start");
        sim.reply("main", "<fork next=\"START\" worktree=\"true\" cd=\"sub\">W</fork>");
        sim.reply("main_w1", tag);
        assert_eq!(sim.run.bound_to_worktree(), Some(&agent("main_w1")), "{tag}");
    }
}

#[test]
fn rewound_is_kept_in_the_journal() {
    let (from, step) = (RunId::new("old").unwrap(), Some("main.2".to_owned()));
    let sessions = BTreeMap::from([(SessionId::new("s1"), SessionId::new("s1@m"))]);
    let record = Record::Rewound { from, step, sessions };
    check_journal("rewound", &[record]);
}
