//! Many agents: names, counters, variables, and the limit of parallel turns.

use raymond_flow::{
    machine::{Phase, Status, replay},
    payload::Payload,
    turn::Outcome,
    world::MemoryWorld,
};

use crate::sim::{Sim, agent, started};

fn sim() -> Sim {
    Sim::new([
        ("START.md", "start"),
        ("WORKER.md", "work on {{item}}"),
        ("ANALYZE.md", "{{item}}"),
        ("PROCESS.sh", ""),
        ("FIX-IT.md", ""),
        ("STEP.md", ""),
        ("STEP1.md", ""),
        ("W.md", ""),
        ("W1_X.md", ""),
        ("X.md", ""),
    ])
}

#[test]
fn forked_agents_are_named_after_parent_state_and_counter() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\" item=\"1\">WORKER.md</fork>");
    sim.reply("main", "<fork next=\"START\" item=\"2\">WORKER</fork>");
    sim.reply("main", "<fork next=\"START\">ANALYZE.md</fork>");
    sim.reply("main_worker1", "<fork next=\"WORKER\">ANALYZE</fork>");
    sim.reply("main_worker1_analyz1", "<fork next=\"WORKER\">PROCESS</fork>");
    let expected = [
        "main",
        "main_worker1",
        "main_worker2",
        "main_analyz3",
        "main_worker1_analyz1",
        "main_worker1_analyz1_proces1",
    ];
    assert_eq!(sim.names(), expected);
    assert_eq!(sim.run.fork_counters[&agent("main")], 3);
}

#[test]
fn worker_knows_who_forked_it_whatever_its_name_could_mean() {
    let mut sim = Sim::new([("START.md", "s"), ("W.md", "w"), ("W1_X.md", "x"), ("X.md", "x")]);
    sim.reply("main", "<fork next=\"START\">W</fork>");
    // `main_w1_x2` could also be the second worker of `main_w1`.
    sim.reply("main", "<fork next=\"START\">W1_X</fork>");
    sim.reply("main_w1", "<fork next=\"W\">X</fork>");
    let parents: Vec<_> = sim
        .run
        .agents_by_birth()
        .iter()
        .map(|worker| (worker.id.to_string(), worker.parent.as_ref().map(ToString::to_string)))
        .collect();
    let expected = [
        ("main", None),
        ("main_w1", Some("main")),
        ("main_w1_x2", Some("main")),
        ("main_w1_x1", Some("main_w1")),
    ];
    let expected = expected.map(|(id, parent)| (id.to_owned(), parent.map(str::to_owned)));
    assert_eq!(parents, expected);
}

#[test]
fn forked_names_are_not_reused_after_a_worker_ends() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">WORKER</fork>");
    sim.reply("main_worker1", "<result>x</result>");
    sim.reply("main", "<fork next=\"START\">WORKER</fork>");
    assert_eq!(sim.names(), ["main", "main_worker2"]);
}

#[test]
fn forked_names_are_identifiers_whatever_the_state_is_called() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">FIX-IT</fork>");
    assert_eq!(sim.names(), ["main", "main_fix_it1"]);
}

#[test]
fn ambiguous_forked_names_are_skipped() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">STEP1</fork>");
    for _ in 0..10 {
        sim.reply("main", "<fork next=\"START\">STEP</fork>");
    }
    let names = sim.names();
    assert_eq!(names[1], "main_step11", "fork 1 to STEP1");
    assert_eq!(names[11], "main_step12", "fork 11 to STEP would be main_step11 again");
}

#[test]
fn forked_names_of_different_parents_do_not_collide() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">W</fork>");
    sim.reply("main", "<fork next=\"START\">W1_X</fork>");
    sim.reply("main_w1", "<fork next=\"W\">X</fork>");
    sim.reply("main_w1", "<fork next=\"W\">X</fork>");
    assert_eq!(sim.names(), ["main", "main_w1", "main_w1_x2", "main_w1_x1", "main_w1_x3"]);
}

/// Scripts, because turns would wait for each other.
fn scripts() -> Sim {
    Sim::new([("START.sh", ""), ("WORKER.sh", ""), ("STEP.sh", ""), ("STEP1.sh", "")])
}

#[test]
fn forked_names_stop_growing_with_the_generations() {
    let mut sim = scripts();
    let mut name = "main".to_owned();
    let mut seen = std::collections::BTreeSet::new();
    for generation in 1..=60 {
        sim.prints(&name, "<fork next=\"START\">WORKER</fork>");
        let newest = sim.names().pop().unwrap().to_owned();
        assert!(newest.len() <= 100 + "_worker1".len(), "{newest}");
        assert!(seen.insert(newest.clone()), "{newest}");
        if generation <= 12 {
            assert_eq!(newest, format!("main{}", "_worker1".repeat(generation)));
        }
        name = newest;
    }
}

#[test]
fn forked_names_below_a_hash_are_counted_and_unique() {
    let mut sim = scripts();
    let mut name = "main".to_owned();
    while name.len() <= 100 {
        sim.prints(&name, "<fork next=\"START\">WORKER</fork>");
        name = sim.names().pop().unwrap().to_owned();
    }
    // Fork 1 to STEP1 could be fork 11 to STEP, in either order.
    sim.prints(&name, "<fork next=\"START\">STEP1</fork>");
    for _ in 0..11 {
        sim.prints(&name, "<fork next=\"START\">STEP</fork>");
    }
    sim.prints(&name, "<fork next=\"START\">STEP1</fork>");
    let names = sim.names();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names.last().unwrap().starts_with("main_h"), "{names:?}");
    let step = names.iter().find(|name| name.ends_with("_step11")).unwrap();
    assert_eq!(step.len(), "main_h0123456789abcdef_step11".len());
    assert!(sim.run.fork_counters[&agent(&name)] >= 13);
}

#[test]
fn fork_attributes_are_variables_of_the_worker_for_its_whole_life() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\" item=\"a 'quoted' one\">WORKER</fork>");
    assert_eq!(sim.child("main_worker1").prompt(), "work on a 'quoted' one");
    sim.reply("main_worker1", "<reset>ANALYZE</reset>");
    assert_eq!(sim.child("main_worker1").prompt(), "a 'quoted' one");
    sim.reply("main_worker1", "<goto>PROCESS</goto>");
    assert_eq!(sim.child("main_worker1").environment()["item"], "a 'quoted' one");
}

#[test]
fn script_is_given_no_variable_that_no_tag_may_set_whatever_is_recorded() {
    for name in ["BASH_ENV", "LD_PRELOAD", "RAYMOND_RESULT", "not a name"] {
        let mut sim = sim();
        sim.reply("main", "<fork next=\"START\" item=\"/evil.sh\">WORKER</fork>");
        let journal = serde_json::to_string(&sim.journal).unwrap();
        let journal = journal.replace("\"item\"", &format!("\"{name}\""));
        sim.journal = serde_json::from_str(&journal).unwrap();
        sim.run = replay(sim.journal.iter().cloned()).unwrap();
        sim.reply("main_worker1", "<goto>PROCESS</goto>");
        let error = sim.error("main_worker1");
        assert!(error.contains(&format!("`{name}`")), "{error}");
    }
}

#[test]
fn fork_attributes_are_not_inherited_by_a_workers_workers() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\" item=\"x\">WORKER</fork>");
    sim.reply("main_worker1", "<fork next=\"WORKER\">PROCESS</fork>");
    assert_eq!(sim.child("main_worker1_proces1").environment().get("item"), None);
}

#[test]
fn fork_cd_moves_the_worker_only_and_is_no_variable() {
    let mut sim = sim();
    sim.world.directories.insert("/trees/a".to_owned());
    sim.reply("main", "<fork next=\"START\" cd=\"/trees/a\" item=\"x\">WORKER</fork>");
    assert_eq!(sim.child("main_worker1").cwd, "/trees/a");
    assert_eq!(sim.child("main").cwd, "/project");
    assert_eq!(sim.agent("main_worker1").fork_attributes.len(), 1);
    sim.reply("main_worker1", "<fork next=\"WORKER\">X</fork>");
    assert_eq!(sim.child("main_worker1_x1").cwd, "/trees/a");
}

#[test]
fn run_continues_until_the_last_agent_has_ended() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">WORKER</fork>");
    sim.reply("main", "<result>parent</result>");
    assert_eq!(sim.run.status, Status::Running);
    sim.reply("main_worker1", "<result>worker</result>");
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(
        sim.run.result.as_ref().and_then(Payload::as_text),
        Some("parent"),
        "the run's result is main's"
    );
}

#[test]
fn failed_agent_is_kept_with_its_error_while_the_others_continue() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">WORKER</fork>");
    sim.reply("main_worker1", "no tag");
    assert_eq!(sim.error("main_worker1"), "no transition tag was found");
    assert_eq!(sim.run.status, Status::Running);
    sim.reply("main", "<goto>W</goto>");
    sim.reply("main", "<result>fine</result>");
    assert_eq!(sim.run.status, Status::Failed);
    assert_eq!(sim.names(), ["main_worker1"]);
}

fn parallel(places: u32) -> Sim {
    let mut begin = started("START.md");
    begin.limits.max_parallel = places;
    Sim::with(begin, MemoryWorld::new([("START.md", ""), ("W.md", ""), ("S.sh", "")]))
}

#[test]
fn turns_beyond_the_limit_wait_in_order_and_scripts_do_not() {
    let mut sim = parallel(2);
    sim.reply("main", "<fork next=\"START\">W</fork>");
    for _ in 0..2 {
        sim.reply("main", "<fork next=\"START\">W</fork>");
    }
    // main runs, one worker runs, the others wait.
    let running: Vec<_> = sim.children.keys().map(|id| id.agent.as_str().to_owned()).collect();
    assert_eq!(running.len(), 2);
    assert_eq!(
        sim.run.agents.values().filter(|a| matches!(a.phase, Phase::Queued { .. })).count(),
        2
    );
    let tickets = sim.run.agents.values().filter_map(|a| match a.phase {
        Phase::Queued { ticket, .. } => Some((ticket, a.id.clone())),
        _ => None,
    });
    let (_, first) = tickets.min().unwrap();
    sim.reply("main_w1", "<goto>S</goto>");
    assert_eq!(sim.state("main_w1"), "S.sh", "a script needs no place");
    assert!(sim.children.keys().any(|id| id.agent == first), "the first in line goes first");
    assert_eq!(sim.children.len(), 3);
}

#[test]
fn slot_of_a_turn_that_cannot_start_goes_to_the_next() {
    let mut sim = parallel(1);
    sim.reply("main", "<fork next=\"S\">W</fork>");
    sim.prints("main", "<fork next=\"S\">W</fork>");
    assert_eq!(sim.children.len(), 2, "the script and one worker");
    sim.prints("main", "<fork next=\"S\">W</fork>");
    // The workers that wait find their state gone.
    sim.world.files.remove("W.md");
    sim.reply("main_w1", "<result>x</result>");
    assert_eq!(sim.error("main_w2"), "state `W.md` not found");
    assert_eq!(sim.error("main_w3"), "state `W.md` not found");
}

#[test]
fn queue_survives_a_crash() {
    let mut sim = parallel(1);
    for _ in 0..3 {
        sim.reply("main", "<fork next=\"S\">W</fork>");
        if sim.children.keys().any(|id| id.agent.as_str() == "main") {
            sim.prints("main", "<goto>START</goto>");
        }
        if !sim.children.keys().any(|id| id.agent.as_str() == "main") {
            break;
        }
    }
    sim.crash();
    while let Some(id) = sim.children.keys().next().cloned() {
        let text = "<result>x</result>";
        if sim.children[&id].step.state.as_str() == "S.sh" {
            sim.prints(id.agent.as_str(), text);
        } else {
            sim.end(id.agent.as_str(), Outcome::Reply { text: text.to_owned() }, 0.0);
        }
        sim.crash();
    }
    assert_eq!(sim.run.status, Status::Completed);
}
