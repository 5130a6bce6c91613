//! Worktrees: when a worker starts in one, when it leaves it, and what its parent is told.

use raymond_flow::{
    id::AgentId,
    machine::{Effect, Halt, Input, Phase, Record, Status, pending},
    turn::Exit,
    world::{Checkout, MemoryWorld},
};
use serde_json::{Value, json};

use crate::{
    fixtures::{check_journal, check_state},
    sim::{Sim, agent, started},
};

const POLICY: &str = "---\nallowed_transitions:\n  \
                      - { tag: fork, target: W, next: START, worktree: true, many: true }\n  \
                      - { tag: join, target: MERGE }\n---\nstart";

pub(crate) fn sim_from(start: &str) -> Sim {
    let files = [("START.md", start), ("W.md", "work"), ("S.sh", ""), ("MERGE.md", "{{result}}")];
    let mut world = MemoryWorld::new(files);
    world.directories.insert("/project/sub".to_owned());
    for (directory, inside) in [("/project", ""), ("/project/sub", "sub")] {
        let (repository, commit) = ("/project".to_owned(), "c1".to_owned());
        let checkout = Checkout { repository, inside: inside.to_owned(), commit };
        world.checkouts.insert(directory.to_owned(), checkout);
    }
    Sim::with(started("START.md"), world)
}

fn sim() -> Sim {
    sim_from("start")
}

fn handed(sim: &Sim) -> Value {
    serde_json::from_str(sim.main().result.as_ref().unwrap().as_text().unwrap()).unwrap()
}

#[test]
fn worker_starts_when_its_worktree_is_made_and_its_parent_goes_on_meanwhile() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.reply("main", "<fork next=\"START\" worktree=\"true\" cd=\"sub\">W</fork>");
    assert_eq!(sim.state("main"), "START.md");
    assert!(matches!(sim.agent("main_w1").phase, Phase::Moving { .. }));
    assert!(sim.children.keys().all(|id| id.agent == AgentId::main()), "it has no step yet");
    // An orchestrator that dies before it is made leaves it to the next one.
    sim.crash();
    sim.check_pending();
    sim.make_worktree("main_w1");
    assert_eq!(sim.child("main_w1").cwd, "/worktrees/main_w1/sub");
    assert_eq!(sim.main().cwd, "/project");
    sim.crash();
    assert!(sim.making.is_empty(), "it is not made twice");
}

#[test]
fn name_of_a_worktree_is_that_of_its_worker_and_what_the_fork_says() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\" worktree=\"fix-login\">W</fork>");
    let worktree = &sim.run.worktrees[&agent("main_w1")];
    assert_eq!(worktree.branch, "raymond/r/main_w1-fix-login");
    assert_eq!((worktree.base.as_str(), worktree.repository.as_str()), ("c1", "/project"));
    for wrong in ["", "false", "a/b", "a b", "..", "x.lock", &"x".repeat(61)] {
        let mut sim = sim_from("start");
        sim.reply("main", &format!("<fork next=\"START\" worktree=\"{wrong}\">W</fork>"));
        assert!(sim.error("main").contains("in `worktree` is neither"), "{wrong}");
    }
}

#[test]
fn policy_gives_a_worktree_also_to_a_fork_that_does_not_ask_for_one() {
    let mut sim = sim_from(POLICY);
    sim.reply(
        "main",
        "<fork next=\"START\">W</fork><fork next=\"START\" worktree=\"true\">W</fork>",
    );
    assert_eq!(sim.child("main_w1").cwd, "/worktrees/main_w1");
    assert_eq!(sim.child("main_w2").cwd, "/worktrees/main_w2");
    // What the tag does say must agree.
    sim.reply("main", "<fork next=\"START\" worktree=\"other\">W</fork>");
    assert_eq!(sim.child("main").turn().policy.allowed.len(), 2);
    let prompt = sim.child("main").prompt().to_owned();
    assert!(prompt.contains("is not among the transitions"), "{prompt}");
    assert!(prompt.contains("- <fork next=\"START\">W</fork>"), "{prompt}");
}

#[test]
fn worktree_that_cannot_be_made_there_makes_the_fork_impossible() {
    let mut sim = sim();
    sim.world.checkouts.clear();
    sim.reply("main", "<fork next=\"START\" worktree=\"true\">W</fork>");
    let error = sim.error("main");
    assert!(error.ends_with("cannot have a worktree: /project is not in a git repository"));
    assert!(sim.run.fork_counters.is_empty(), "nothing started");
    // The author prescribes it, so a reminder would change nothing.
    let mut sim = sim_from(POLICY);
    sim.world.checkouts.clear();
    sim.reply("main", "<fork next=\"START\">W</fork>");
    assert!(sim.error("main").contains("cannot have a worktree"));
}

#[test]
fn worker_ends_when_its_work_is_committed_and_the_join_tells_where_it_is() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.reply("main", "<fork next=\"START\" worktree=\"true\">W</fork>");
    sim.make_worktree("main_w1");
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<result>done</result>");
    assert!(matches!(sim.agent("main_w1").phase, Phase::Leaving { .. }));
    assert!(matches!(sim.main().phase, Phase::Joining { .. }));
    sim.crash();
    sim.check_pending();
    sim.save_worktree("main_w1", Some("c2"), None);
    assert_eq!(sim.state("main"), "MERGE.md");
    let expected = json!([{
        "agent": "main_w1", "state": "W.md", "attributes": {}, "result": "done",
        "worktree": "/worktrees/main_w1", "branch": "raymond/r/main_w1",
    }]);
    assert_eq!(handed(&sim), expected);
    assert_eq!(sim.run.worktrees[&agent("main_w1")].head.as_deref(), Some("c2"));
    // A second word about the same decides nothing.
    let again = sim.run.clone();
    sim.saving.insert(agent("main_w1"));
    sim.save_worktree("main_w1", Some("c3"), None);
    assert_eq!(sim.run, again);
}

#[test]
fn work_of_a_failed_worker_is_committed_before_its_failure_is_handed_over() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.reply("main", "<fork next=\"START\" worktree=\"true\">S</fork>");
    sim.make_worktree("main_s1");
    sim.reply("main", "<join failed=\"pass\">MERGE</join>");
    sim.exits("main_s1", "", Exit::Code(3));
    assert!(matches!(sim.main().phase, Phase::Joining { .. }));
    sim.save_worktree("main_s1", Some("c2"), Some("a merge is not finished"));
    assert_eq!(sim.state("main"), "MERGE.md");
    assert_eq!(handed(&sim)[0]["branch"], "raymond/r/main_s1");
    assert_eq!(handed(&sim)[0]["not_saved"], "a merge is not finished");
    assert!(handed(&sim)[0]["error"].as_str().unwrap().contains("code 3"));
    let problem = sim.run.worktrees[&agent("main_s1")].problem.as_deref();
    assert_eq!(problem, Some("a merge is not finished"));
}

#[test]
fn failed_worker_that_is_resumed_goes_on_in_its_worktree() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\" worktree=\"true\" limit=\"1\">S</fork>");
    sim.reply("main", "<join>MERGE</join>");
    sim.exits("main_s1", "", Exit::Code(3));
    assert_eq!(sim.run.status, Status::Failed);
    sim.resume();
    assert_eq!(sim.child("main_s1").cwd, "/worktrees/main_s1");
    sim.prints("main_s1", "<result>x</result>");
    assert_eq!(sim.state("main"), "MERGE.md");
    let made = sim.journal.iter().filter(|r| matches!(r, Record::WorktreeMade { .. })).count();
    assert_eq!(made, 1);
}

#[test]
fn worktree_that_git_refuses_fails_its_worker_and_is_tried_again_when_the_run_is_resumed() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.reply("main", "<fork next=\"START\" worktree=\"true\">S</fork>");
    sim.making.clear();
    let (agent, made) = (agent("main_s1"), Err("git says no".to_owned()));
    sim.input(Input::WorktreeMade { agent, made });
    assert_eq!(sim.error("main_s1"), "git says no");
    sim.reply("main", "<join>MERGE</join>");
    assert_eq!(sim.run.status, Status::Failed);
    sim.resume();
    sim.make_worktree("main_s1");
    assert_eq!(sim.child("main_s1").cwd, "/worktrees/main_s1");
}

#[test]
fn worker_with_a_limit_gets_its_worktree_with_its_place_from_the_commit_of_the_fork() {
    let mut sim = sim();
    sim.holds_git = true;
    let fork = "<fork next=\"S\" worktree=\"true\" limit=\"1\">W</fork>";
    sim.reply("main", "<goto>S</goto>");
    sim.prints("main", &format!("{fork}{fork}"));
    assert_eq!(sim.making.keys().collect::<Vec<_>>(), [&agent("main_w1")]);
    sim.make_worktree("main_w1");
    sim.world.checkouts.clear();
    sim.reply("main_w1", "<result>x</result>");
    sim.save_worktree("main_w1", Some("c2"), None);
    assert_eq!(sim.making[&agent("main_w2")].commit, "c1");
}

#[test]
fn halted_run_ends_only_after_the_work_of_its_workers_is_committed() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.reply("main", "<fork next=\"S\" worktree=\"true\">W</fork>");
    sim.make_worktree("main_w1");
    sim.input(Input::Halt(Halt::Interrupted));
    sim.reply("main_w1", "<result>x</result>");
    sim.prints("main", "<join>MERGE</join>");
    assert_eq!(sim.run.status, Status::Running);
    sim.save_worktree("main_w1", Some("c2"), None);
    assert_eq!(sim.run.status, Status::Paused);
}

#[test]
fn work_that_does_not_fit_on_the_disk_is_committed_when_the_run_is_resumed() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.reply("main", "<fork next=\"S\" worktree=\"true\">W</fork>");
    sim.make_worktree("main_w1");
    sim.reply("main_w1", "<result>x</result>");
    sim.input(Input::Halt(Halt::DiskLow { free_bytes: 0 }));
    assert_eq!(sim.run.status, Status::Running, "a step still runs");
    sim.prints("main", "<join>MERGE</join>");
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    let is_save = |effect: &Effect| matches!(effect, Effect::SaveWorktree { .. });
    assert_eq!(pending(&sim.run).iter().filter(|effect| is_save(effect)).count(), 1);
    sim.save_worktree("main_w1", Some("c2"), None);
    assert_eq!(handed(&sim)[0]["result"], "x");
}

#[test]
fn worktree_is_not_made_while_nothing_new_may_start() {
    let mut sim = sim();
    sim.holds_git = true;
    sim.input(Input::Halt(Halt::Interrupted));
    sim.reply("main", "<fork next=\"START\" worktree=\"true\">W</fork>");
    assert!(sim.making.is_empty());
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    let is_make = |effect: &Effect| matches!(effect, Effect::MakeWorktree { .. });
    assert_eq!(pending(&sim.run).iter().filter(|effect| is_make(effect)).count(), 1);
    sim.make_worktree("main_w1");
    assert_eq!(sim.child("main_w1").cwd, "/worktrees/main_w1");
}

#[test]
fn worktrees_are_kept_in_journal_and_state_file() {
    let mut sim = sim();
    sim.holds_git = true;
    let named = "<fork next=\"START\" worktree=\"fix\" cd=\"sub\">S</fork>";
    let plain = "<fork next=\"START\" worktree=\"true\">W</fork>";
    sim.reply("main", "<goto>S</goto>");
    sim.prints("main", &format!("{named}{plain}{plain}{plain}"));
    for name in ["main_s1", "main_w2", "main_w3"] {
        sim.make_worktree(name);
    }
    sim.reply("main_w2", "<result>two</result>");
    sim.save_worktree("main_w2", Some("c2"), None);
    sim.reply("main_w3", "<result>three</result>");
    sim.exits("main_s1", "", Exit::Code(3));
    sim.save_worktree("main_s1", None, Some("git is gone"));
    check_journal("worktrees", &sim.journal);
    check_state("worktrees", &sim.run);
}
