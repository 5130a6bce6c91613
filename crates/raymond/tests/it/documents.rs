//! The documents: every command in them is run, and the output that they quote is compared.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    env::{Project, Ran},
    printed,
};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap()
}

/// The texts of all fenced blocks of this kind.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    let mut parts = text.split("```");
    let mut blocks = Vec::new();
    // Text outside and inside of fences alternates, starting outside.
    while let (Some(_), Some(inside)) = (parts.next(), parts.next()) {
        if let Some(block) = inside.strip_prefix(&format!("{kind}\n")) {
            blocks.push(block.to_owned());
        }
    }
    blocks
}

/// Runs the commands of all `console` blocks of a document, one after the other in one directory.
fn run_commands(name: &str) -> usize {
    let project = Project::new([]);
    let program = Path::new(env!("CARGO_BIN_EXE_raymond"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for block in blocks(&document(name), "console") {
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let command = line.replace("cargo run --release --", "raymond");
            // It would run this test.
            if command.starts_with("scripts/test") {
                continue;
            }
            let mut shell = Command::new("bash");
            shell.args(["-c", &command]).current_dir(project.path()).envs(project.user());
            shell.env("PATH", &path).stdin(Stdio::null());
            let ran = Ran::of(&shell.output().unwrap());
            assert_eq!(ran.code, 0, "{name}: {command}\n{}{}", ran.stdout, ran.stderr);
            if let Some((_, promise)) = line.split_once("# prints: ") {
                assert_eq!(ran.stdout.trim_end(), promise, "{name}: {command}");
            }
            count += 1;
        }
    }
    count
}

#[test]
fn commands_of_the_readme_work() {
    assert!(run_commands("README.md") >= 5);
}

#[test]
fn every_command_that_a_document_names_can_be_pasted() {
    let mut names: Vec<_> = fs::read_dir(workspace().join("docs")).unwrap().flatten().collect();
    names.retain(|file| file.path().extension().is_some_and(|kind| kind == "md"));
    let names = names.iter().map(|file| format!("docs/{}", file.file_name().display()));
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md"];
    let mut count = 0;
    for name in names.chain(others.map(str::to_owned)) {
        let text = document(&name);
        // What is outside of fenced blocks, and there between backticks.
        let prose = text.split("```").step_by(2).collect::<String>();
        let spans = prose.split('`').skip(1).step_by(2);
        for span in spans.filter(|span| span.starts_with("raymond ")) {
            for command in span.replace('\n', " ").split(" | ") {
                let words = printed::words(command);
                words.unwrap_or_else(|why| panic!("{name}: {span}: {why}"));
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn recording_in_the_readme_is_what_the_demo_prints() {
    let recording = blocks(&document("README.md"), "text").into_iter().next().unwrap();
    let said = Project::new([]).raymond(&["demo"]).stderr;
    // Agents work side by side, so only each one's own lines have an order.
    for agent in ["main", "main_work1", "main_work2", "main_work3"] {
        // How long it took is different each time, and so is the width of the column of names.
        let of = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let lines = lines.filter(|words| words.get(2) == Some(&agent));
            lines.map(|words| [&words[..1], &words[2..]].concat().join(" ")).collect()
        };
        assert_eq!(of(&recording), of(&said), "of {agent}");
    }
}

#[test]
fn documents_name_only_files_that_exist() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/agents.md",
        "docs/operations.md",
        "docs/authoring.md",
    ] {
        let text = document(name);
        let folder = workspace().join(name).parent().unwrap().to_owned();
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap().split('#').next().unwrap();
            if !target.is_empty() && !target.starts_with("http") {
                assert!(folder.join(target).exists(), "{name} names {target}");
            }
        }
    }
}

#[test]
fn samples_of_journal_and_state_file_are_those_of_the_program() {
    let text = document("docs/journal.md");
    let fixture = |name: &str| document(&format!("crates/engine/tests/fixtures/v1/{name}"));
    let [journal] = &blocks(&text, "jsonl")[..] else { panic!("one journal") };
    let [state] = &blocks(&text, "json")[..] else { panic!("one state file") };
    assert_eq!(*journal, fixture("chained.journal"));
    assert_eq!(*state, fixture("chained.state.json"));
    let project = Project::new([]);
    fs::create_dir(project.file(".raymond/workflows")).unwrap();
    project.write(".raymond/workflows/sample.journal", journal);
    // Another user's Raymond wrote it.
    project.raymond(&["run", "sample"]).failed(1, "was not written by your Raymond");
    assert_eq!(project.raymond(&["trust", "--yes"]).code, 0);
    project.raymond(&["run", "sample"]).completed("done");
}

#[test]
fn every_record_and_every_field_of_a_state_file_is_described() {
    let text = document("docs/journal.md");
    let format = document("crates/flow/src/machine/record.rs");
    let (_, records) = format.split_once("pub enum Record {").unwrap();
    let (records, _) = records.split_once("\n}\n").unwrap();
    let variants = records.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|c: char| c.is_uppercase()));
    let variants = variants.filter_map(|line| line.split(|c: char| !c.is_alphanumeric()).next());
    let names: Vec<_> = variants.map(snake_case).collect();
    assert!(names.len() > 15, "{names:?}");
    let state: serde_json::Value = serde_json::from_str(&blocks(&text, "json")[0]).unwrap();
    for name in names.iter().chain(state.as_object().unwrap().keys()) {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}
