//! `raymond demo --web`: what a new user sees first, without a key.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use super::env::Desk;
use crate::env::Project;

/// Starts the demo; its port and its link.
fn start(project: &Project) -> (Child, u16, String) {
    fs::create_dir(project.file("tmp")).unwrap();
    let mut command = project.command(&["demo", "--web"]);
    command.env("TMPDIR", project.file("tmp")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let url = lines.by_ref().find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.split_once("http://")?;
        Some(format!("http://{}", address.trim()))
    });
    let url = url.expect("the demo says where its page is");
    // Its news are read to the end: a demo whose reader is gone would stop.
    std::thread::spawn(move || lines.for_each(drop));
    let (address, _) = url.split_once("/#k=").expect("the link has the token");
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    (child, port, url)
}

#[test]
fn demo_shows_agents_that_walk_through_the_graph_to_the_end() {
    let Some(mut desk) = Desk::with(Project::new([]), start) else { return };
    desk.until("document.querySelector('.group.running .row .cover')");
    desk.value("location.hash = document.querySelector('.row .cover').hash; 0");
    desk.until("document.querySelector('.graph .travellers')");
    desk.value(
        "window.walked = 0; new MutationObserver((changes) => { \
         for (const change of changes) window.walked += change.addedNodes.length; \
         }).observe(document.querySelector('.graph .travellers'), { childList: true }); 0",
    );
    desk.until("window.walked > 0");
    // Three workers at the same time, each with a dot of its own.
    desk.until("document.querySelectorAll('.graph .dot.running').length >= 3");
    desk.until_says(".run .status", "completed");
    desk.until_says(".result", "The shop has a search box.");
    desk.until("[...document.querySelectorAll('.node.prompt')].every((node) => node.querySelector('.visit'))");
    // Nothing can be changed there.
    assert_eq!(desk.count(".head .acts button"), 0);
    desk.is_sound();
}
