//! The debug directory of whole runs, on steps in memory.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::os::unix::fs::PermissionsExt as _;

use raymond_flow::machine::{Limits, Settings, Status};

use super::*;
use crate::{
    exec::steps::memory::Fate,
    testing::{RESULT, Stage, fails, id, says},
};

/// Runs `stage` with debug files. Returns their directory and its log.
fn run(stage: &Stage) -> (PathBuf, String) {
    let debug = DebugFiles::new(&stage.state_dir().debug(), &id());
    let folder = debug.folder().to_owned();
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(debug), Box::new(stage.seen.clone())];
    stage.engine().start(stage.started.clone(), &mut observers).unwrap();
    let log = fs::read_to_string(folder.join("transitions.log")).unwrap();
    (folder, log)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The headlines of the entries, without their times.
fn headlines(log: &str) -> Vec<&str> {
    let headlines = log.lines().filter(|line| !line.starts_with("  ") && !line.is_empty());
    headlines.filter_map(|line| line.get("2026-01-01 00:00:00 ".len()..)).collect()
}

#[test]
fn every_step_has_its_output_and_an_entry() {
    let stage = Stage::new(
        &["START.md", "NEXT.md", "SUB.sh", "BACK.sh"],
        [
            ("START.md", vec![says("Hm."), fails("transient"), says("<goto>NEXT</goto>")]),
            ("NEXT.md", vec![says("<call return=\"BACK\">SUB</call>")]),
            ("SUB.sh", vec![Fate::prints("<result>sub</result>")]),
            ("BACK.sh", vec![Fate::prints("<result>all done</result>")]),
        ],
    );
    let (folder, log) = run(&stage);
    let files = [
        "main_BACK_006.stderr.txt",
        "main_BACK_006.stdout.txt",
        "main_NEXT_004.json",
        "main_START_001.json",
        "main_START_002.json",
        "main_START_003.json",
        "main_SUB_005.stderr.txt",
        "main_SUB_005.stdout.txt",
        "transitions.log",
    ];
    assert_eq!(names(&folder), files);
    assert_eq!(
        headlines(&log),
        [
            "[main] START.md -> START.md (reminder)",
            "[main] START.md -> START.md (retry)",
            "[main] START.md -> NEXT.md (goto)",
            "[main] NEXT.md -> SUB.sh (call)",
            "[main] SUB.sh -> BACK.sh (result)",
            "[main] BACK.sh -> (result, terminated)",
            "[run] (finished)",
        ]
    );
    for words in [
        "  problem: no transition tag was found\n",
        "  result: \"all done\"\n",
        "  stack_depth: 1\n",
        "  exit_code: 0\n",
        "  step: main_SUB_005\n",
        "  env: RAYMOND_RESULT=sub\n",
        "  status: completed\n",
        " (resumed)\n",
    ] {
        assert!(log.contains(words), "{words}\n{log}");
    }
    let stdout = fs::read_to_string(folder.join("main_BACK_006.stdout.txt")).unwrap();
    assert_eq!(stdout, "<result>all done</result>");
}

#[test]
fn output_of_a_turn_is_a_list_whatever_its_lines_are() {
    let printed =
        "{\"type\":\"x\",\"text\":\"a\\nb\"}\nnot json\n\n{\"result\":\"<result>x</result>\"}";
    let stage = Stage::new(&["START.md"], [("START.md", vec![Fate::prints(printed)])]);
    let (folder, _) = run(&stage);
    let text = fs::read_to_string(folder.join("main_START_001.json")).unwrap();
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(list[0]["type"], "raymond_step");
    assert_eq!((&list[0]["agent_id"], &list[0]["step_number"]), (&"main".into(), &1.into()));
    assert_eq!(list[1]["text"], "a\nb");
    assert_eq!(list[2], "not json");
    assert_eq!(list[3]["result"], "<result>x</result>");
    assert_eq!(list.len(), 4, "{text}");
}

#[test]
fn costs_in_the_log_add_up_to_the_total() {
    let stage = Stage::new(
        &["START.md", "NEXT.md"],
        [
            ("START.md", vec![says("Hm."), says("<goto>NEXT</goto>")]),
            ("NEXT.md", vec![says(RESULT)]),
        ],
    );
    let (_, log) = run(&stage);
    assert_eq!(log.matches("  cost: $0.5").count(), 3, "{log}");
    assert!(log.trim_end().ends_with("total_cost: $1.50"), "{log}");
}

#[test]
fn halts_and_limits_are_told_with_their_reasons() {
    let mut stage = Stage::new(&["START.md", "NEXT.md"], []);
    stage.memory.change(|_| says("<goto>NEXT</goto>"));
    stage.started.limits.budget_usd = Usd::from_dollars(0.25);
    let (_, log) = run(&stage);
    let words = "the budget is used up: $0.50 of $0.25 are spent";
    assert!(log.contains(&format!("  override: the run stops: {words}\n")), "{log}");
    assert!(log.contains(&format!("[run] (halted)\n  why: {words}\n")), "{log}");
    assert!(headlines(&log).contains(&"[run] (finished)"), "{log}");
    let mut stage = Stage::new(&["START.sh"], []);
    stage.memory.change(|_| Fate::prints("<goto>START</goto>"));
    stage.started.limits.max_iterations = Some(2);
    let (_, log) = run(&stage);
    assert!(log.contains("2 states were entered"), "{log}");
    let failed = Fate::Ends(crate::exec::step::HowEnded::Code(3), String::new());
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![failed])]);
    let (_, log) = run(&stage);
    assert!(log.contains("[main] START.sh -> (failed)"), "{log}");
    assert!(log.contains("  why: a script of main failed"), "{log}");
    assert!(log.contains("  exit_code: 3"), "{log}");
    let stage = Stage::new(&["START.md"], [("START.md", vec![fails("usage_limit"), says(RESULT)])]);
    let (_, log) = run(&stage);
    assert!(log.contains("(usage limit)\n  wait: some minutes, then try again"), "{log}");
    assert!(headlines(&log).contains(&"[run] (usage limit lifted)"), "{log}");
}

#[test]
fn log_of_a_resumed_run_begins_with_its_cost_so_far() {
    let mut stage = Stage::new(
        &["START.md", "NEXT.md"],
        [("START.md", vec![says("<goto>NEXT</goto>")]), ("NEXT.md", vec![says(RESULT)])],
    );
    stage.started.limits.budget_usd = Usd::from_dollars(0.4);
    assert_eq!(stage.start().run.status, Status::Stopped);
    let mut debug = DebugFiles::new(&stage.state_dir().debug(), &id());
    let log = debug.folder().join("transitions.log");
    let raise = |_: &mut Settings, limits: &mut Limits| limits.budget_usd = Usd::from_dollars(2.0);
    let end = stage.engine().resume(&id(), raise, &mut debug).unwrap();
    assert_eq!(end.run.status, Status::Completed);
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("[run] (resumed)\n  total_cost: $0.50\n"), "{log}");
    assert_eq!(log.matches("  cost: $0.50").count(), 1, "only what is new: {log}");
    assert!(log.trim_end().ends_with("status: completed\n  total_cost: $1.00"), "{log}");
}

#[test]
fn steps_whose_files_would_have_the_same_name_keep_apart() {
    // The worker is called `main_b1`, so both steps are `main_b1_B_001`.
    let stage = Stage::new(
        &["b1_B.sh", "B.sh", "END.sh"],
        [
            ("b1_B.sh", vec![Fate::prints("<fork next=\"END\">B</fork>")]),
            ("B.sh", vec![Fate::prints("<result>the worker</result>")]),
            ("END.sh", vec![Fate::prints(RESULT)]),
        ],
    );
    let (folder, _) = run(&stage);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(read("main_b1_B_001.stdout.txt").contains("fork"));
    assert!(read("main_b1_B_001-2.stdout.txt").contains("the worker"));
}

#[test]
fn log_that_cannot_be_written_is_told_once_and_the_run_goes_on() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let debug = DebugFiles::new(&stage.state_dir().debug(), &id());
    // In the places of the files for the output.
    for name in ["main_START_001.stdout.txt", "main_START_001.stderr.txt"] {
        fs::create_dir(debug.folder().join(name)).unwrap();
    }
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(debug), Box::new(stage.seen.clone())];
    let end = stage.engine().start(stage.started.clone(), &mut observers).unwrap();
    assert_eq!(end.run.status, Status::Completed);
    let troubles = stage.seen.troubles();
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(troubles[0].contains("the --debug log is incomplete"), "{troubles:?}");
}

#[test]
fn directory_that_cannot_be_created_disables_debugging_and_nothing_else() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let place = stage.folder.path().join("taken");
    fs::write(&place, "").unwrap();
    let debug = DebugFiles::new(&place, &id());
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(debug), Box::new(stage.seen.clone())];
    let end = stage.engine().start(stage.started.clone(), &mut observers).unwrap();
    assert_eq!(end.run.status, Status::Completed);
    assert!(stage.seen.troubles()[0].starts_with("--debug is disabled: cannot create"));
}

#[test]
fn debug_files_are_their_owners_alone() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let (folder, _) = run(&stage);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(&folder), 0);
    for name in names(&folder) {
        assert_eq!(mode(&folder.join(&name)), 0, "{name}");
    }
}
