//! `raymond new`.

use std::{fs, io, process::ExitCode};

use crate::{
    cli::authoring::{New, Template},
    failure::Failure,
    out,
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
        Template::Linear => files!("linear": "START.md", "CHECK.md", "tests/main.yaml"),
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
        Template::Polling => {
            files!("polling": "START.sh", "START.bat", "ACT.md", "tests/main.yaml")
        }
    }
}

/// `raymond new NAME`
pub(in crate::cli) fn new(arguments: &New) -> Result<ExitCode, Failure> {
    let folder = arguments.name.as_path();
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::io("create the directory", &error))?;
    }
    // `create_dir` fails if the directory exists, so no file of the user is overwritten.
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} already exists", folder.display()))
                .with_hint("choose another name: existing files are not overwritten".to_owned())
        }
        _ => Failure::io("create the directory", &error),
    })?;
    let tests = folder.join("tests");
    fs::create_dir(tests).map_err(|error| Failure::io("create the directory", &error))?;
    for (name, text) in files(arguments.template) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Failure::io("write a state", &error))?;
        out::path(&path)?;
    }
    hint(arguments);
    Ok(ExitCode::SUCCESS)
}

fn hint(arguments: &New) {
    let folder = out::one_line(&arguments.name.to_string_lossy());
    out::note(&format!(
        "\nhint: `raymond lint {folder}` checks it, `raymond diagram {folder}` draws it, \
         `raymond test {folder}` tries it without a model"
    ));
}
