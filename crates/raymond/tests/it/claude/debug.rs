//! What `--debug` keeps of Claude.

use std::fs;

use serde_json::Value;

use super::env::{DONE, Desk};

#[test]
fn every_turn_of_a_kept_process_is_a_list_of_its_own_events() {
    let Some(desk) = Desk::or_skip([("START.md", "The task."), ("NEXT.md", "next")]) else {
        return;
    };
    desk.says("The task.", "<goto>NEXT</goto>").says("next", DONE);
    desk.start(&["--debug"]).completed("done");
    assert!(desk.was_warm("main.2"));
    let folder = fs::read_dir(desk.project.file(".raymond/debug")).unwrap();
    let folder = folder.flatten().next().unwrap().path();
    for (file, answer) in
        [("main_START_001.json", "<goto>NEXT</goto>"), ("main_NEXT_002.json", DONE)]
    {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let list: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(list[0]["type"], "raymond_step");
        let results: Vec<_> = list.iter().filter(|event| event["type"] == "result").collect();
        assert_eq!(results.len(), 1, "{text}");
        assert_eq!(results[0]["result"], answer);
        assert!(list.iter().any(|event| event["type"] == "assistant"), "{text}");
    }
}
