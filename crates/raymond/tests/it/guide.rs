//! `docs/authoring.md` is correct: its files are written, and its commands are run.

use std::{fs, os::unix::fs::symlink, path::Path};

use crate::env::{Project, WithAgent as _};

/// A coding agent for the guide.
const AGENT: &str = "#!/bin/bash\ncat > /dev/null\n\
    if [ -e answered ]; then r='<result>bonjour</result>'; else r='I wrote it.'; touch answered; fi\n\
    printf '{\"result\": \"%s\", \"cost_usd\": 0.01}\\n' \"$r\"\n";

/// The fenced blocks of a document: the line before each, its language and its text.
fn blocks(document: &str) -> Vec<(String, String, String)> {
    let mut blocks = Vec::new();
    let mut before = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((before.clone(), language.to_owned(), text.join("\n") + "\n"));
        } else if !line.trim().is_empty() {
            line.clone_into(&mut before);
        }
    }
    blocks
}

#[test]
fn guide_for_authors_works_as_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/authoring.md");
    let guide = fs::read_to_string(path).unwrap();
    let project = Project::new([]);
    project.write("agent", AGENT);
    symlink(env!("CARGO_BIN_EXE_raymond"), project.file("raymond")).unwrap();
    let mut commands = 0;
    for (before, language, text) in blocks(&guide) {
        let file = before.strip_prefix('`').and_then(|line| line.strip_suffix("`:"));
        match (language.as_str(), file) {
            ("console", _) => {
                for line in text.lines() {
                    run(&project, line.strip_prefix("$ ").unwrap());
                    commands += 1;
                }
            }
            (_, Some(file)) => {
                fs::create_dir_all(project.file(file).parent().unwrap()).unwrap();
                project.write(file, &text);
            }
            _ => {}
        }
    }
    assert!(commands > 20, "{commands} commands were found");
}

#[track_caller]
fn run(project: &Project, command: &str) {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = std::process::Command::new("bash")
        .args(["-c", command])
        .current_dir(project.path())
        .envs(project.user())
        .env("PATH", format!("{}:{path}", project.path().display()))
        .agent(format!("bash {}", project.file("agent").display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}\n{said}\n{errors}");
    if command.starts_with("raymond lint") && !command.contains("--") {
        assert_eq!(said, "", "the guide should be a good example: {command}");
    }
}
