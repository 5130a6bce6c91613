//! `raymond new`.

use std::{fs, io, path::Path, process::ExitCode};

use crate::{
    cli::authoring::{New, Template},
    failure::Failure,
    out, quote,
};

/// A file of a template: its name and its text.
type TemplateFile = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../../templates/", $folder, "/", $name)))),+]
    };
}

/// Real files, so that editors and lint can check them.
fn files(template: Template) -> &'static [TemplateFile] {
    match template {
        Template::Linear => {
            files!("linear": "START.md", "CHECK.md", "SUMMARY.md", "tests/main.yaml", "tests/stuck.yaml")
        }
        Template::Review => files!(
            "review": "START.md", "TEST.sh", "TEST.bat", "FIX.md", "REVIEW.md", "DECIDE.md",
            "tests/main.yaml"
        ),
        Template::FanOut => files!(
            "fan-out": "START.md", "WORKER.md", "COLLECT.sh", "COLLECT.bat", "SUMMARY.md",
            "tests/main.yaml", "tests/failed.yaml"
        ),
        Template::Approval => files!(
            "approval": "START.md", "REVISE.md", "SHIP.md", "STOP.sh", "STOP.bat", "tests/main.yaml",
            "tests/nobody.yaml"
        ),
        Template::MapReview => files!(
            "map-review": "START.sh", "START.bat", "WAIT.sh", "WAIT.bat", "REVIEW.md", "REPORT.md",
            "tests/main.yaml"
        ),
        Template::Retry => files!(
            "retry": "START.sh", "START.bat", "CHECK.sh", "CHECK.bat", "FIX.md", "EXPLAIN.md",
            "tests/main.yaml", "tests/succeeds.yaml"
        ),
        Template::Worktrees => files!(
            "worktrees": "START.md", "SPREAD.sh", "SPREAD.bat", "WORK.md", "NEXT.sh", "NEXT.bat",
            "LAND.sh", "LAND.bat", "RESOLVE.md", "GATE.sh", "GATE.bat", "tests/main.yaml"
        ),
        Template::Polling => {
            files!("polling": "START.sh", "START.bat", "ACT.md", "tests/main.yaml")
        }
    }
}

/// `raymond new NAME`
pub(in crate::cli) fn new(arguments: &New) -> Result<ExitCode, Failure> {
    let folder = arguments.name.as_path();
    let create = format!("create {}", folder.display());
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::io(&create, &error))?;
    }
    // `create_dir` fails if the directory exists, so no file of the user is overwritten.
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} already exists", folder.display()))
                .with_hint("choose another name: existing files are not overwritten")
        }
        _ => Failure::io(&create, &error),
    })?;
    // A half-written workflow would prevent another try with the same name.
    fill(folder, files(arguments.template)).inspect_err(|_| drop(fs::remove_dir_all(folder)))?;
    for (name, _) in files(arguments.template) {
        out::path(&folder.join(name))?;
    }
    hint(arguments);
    Ok(ExitCode::SUCCESS)
}

fn fill(folder: &Path, files: &[TemplateFile]) -> Result<(), Failure> {
    let write = |path: &Path| format!("write {}", path.display());
    let tests = folder.join("tests");
    fs::create_dir(&tests).map_err(|error| Failure::io(&write(&tests), &error))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Failure::io(&write(&path), &error))?;
    }
    Ok(())
}

fn hint(arguments: &New) {
    let folder = quote::path(&arguments.name);
    let is_start = |name: &str| name.starts_with("START");
    let needs_input = |text: &str| text.contains("{{input}}") || text.contains("RAYMOND_INPUT");
    let mut files = files(arguments.template).iter();
    let has_input = files.any(|(name, text)| is_start(name) && needs_input(text));
    let input = if has_input { " --input 'TEXT'" } else { "" };
    if arguments.template == Template::Polling {
        out::note("\nIt waits for the file ready.txt; change START to what you wait for.");
    }
    out::note(&format!(
        "\nCheck it: raymond lint {folder}\n\
         Try it without a model: raymond test {folder}\n\
         Run it: raymond {folder}{input}"
    ));
}
