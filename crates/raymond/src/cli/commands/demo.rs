//! `raymond demo`: a workflow with most tags, live, without a key.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use raymond_engine::{
    observe::views::closed,
    run::{events::Observer, interrupts::Interrupts},
    trust::seal,
};
use tempfile::TempDir;

use crate::{
    failure::Failure,
    out,
    report::{Gatherer, JsonLines, Next, on_terminal, summary_lines, words::Level},
    testing::{Case, Stage, rehearse},
};

/// The workflow and its replies, the files in `demo/`.
const FILES: [(&str, &str); 12] = [
    ("START.md", include_str!("../../../demo/START.md")),
    ("PLAN.md", include_str!("../../../demo/PLAN.md")),
    ("ESTIMATE.md", include_str!("../../../demo/ESTIMATE.md")),
    ("ASSIGN.md", include_str!("../../../demo/ASSIGN.md")),
    ("DISPATCH.md", include_str!("../../../demo/DISPATCH.md")),
    ("WORK.md", include_str!("../../../demo/WORK.md")),
    ("CHECK.sh", include_str!("../../../demo/CHECK.sh")),
    ("CHECK.bat", include_str!("../../../demo/CHECK.bat")),
    ("REVIEW.md", include_str!("../../../demo/REVIEW.md")),
    ("REPORT.md", include_str!("../../../demo/REPORT.md")),
    ("SUMMARY.md", include_str!("../../../demo/SUMMARY.md")),
    ("tests/demo.yaml", include_str!("../../../demo/tests/demo.yaml")),
];

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How often Ctrl-C is looked for when the demo is over.
#[cfg(feature = "serve")]
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

const INTRODUCTION: &str = "\
This demo runs a real workflow on the real engine: ten states, a script,
calls and returns, a fork of three workers, a reminder and a retry. No model is asked: the replies were
written beforehand, and the costs are made up.
";

const AFTERWORD: &str = "
To run such a workflow on Claude Code, install that (npm install -g
@anthropic-ai/claude-code), log in by running `claude` once, and then:

    raymond new mine                       # a workflow to start from
    raymond mine --input 'what to do'      # run it
";

/// The demo on disk, for as long as it runs.
struct Demo {
    folder: TempDir,
    workflow: PathBuf,
    case: Case,
}

impl Demo {
    fn write() -> Result<Self, Failure> {
        let io = |what: &'static str| move |error: io::Error| Failure::io(what, &error);
        let folder = tempfile::Builder::new().prefix("raymond-demo-").tempdir();
        let folder = folder.map_err(io("create a directory for the demo"))?;
        let workflow = folder.path().join("demo");
        fs::create_dir_all(workflow.join("tests")).map_err(io("write the demo"))?;
        for (name, text) in FILES {
            fs::write(workflow.join(name), text).map_err(io("write the demo"))?;
        }
        let path = workflow.join("tests/demo.yaml");
        let text = fs::read_to_string(&path).map_err(io("read the demo"))?;
        let case = Case::read(&path, &text).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { folder, workflow, case })
    }
}

/// `raymond demo`
pub(in crate::cli) fn demo(is_json: bool) -> Result<ExitCode, Failure> {
    seal::use_passing_key();
    let interrupts = Interrupts::install();
    Ok(run(&Demo::write()?, interrupts, is_json, None)?.unwrap_or_else(|| INTERRUPTED.into()))
}

/// `raymond demo --web`: the same, and a server that shows it until Ctrl-C.
#[cfg(feature = "serve")]
pub(in crate::cli) fn demo_on_the_web() -> Result<ExitCode, Failure> {
    seal::use_passing_key();
    let interrupts = Interrupts::install();
    let demo = Demo::write()?;
    let state_dir = demo.folder.path().join(".raymond");
    super::serve::show(&state_dir, demo.folder.path())?;
    let Some(code) = run(&demo, interrupts.clone(), false, Some(&state_dir))? else {
        return Ok(INTERRUPTED.into());
    };
    out::note("The page stays until Ctrl-C.");
    // A press may have come when the run was about to end.
    while !interrupts.is_pressed() && !interrupts.were_given() {
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(code)
}

/// Runs the demo to its end. `None` if the user interrupted it.
fn run(
    demo: &Demo,
    interrupts: Interrupts,
    is_json: bool,
    state_dir: Option<&Path>,
) -> Result<Option<ExitCode>, Failure> {
    let gatherer = Gatherer::default();
    let teller: Box<dyn Observer> = if is_json {
        Box::new(JsonLines::new(None))
    } else {
        out::note(INTRODUCTION);
        on_terminal(Level::News, None)
    };
    let observers = vec![teller, Box::new(gatherer.clone())];
    let interrupts = Some(interrupts);
    let stage = Stage { state_dir, cwd: None, is_hurried: false, interrupts, observers };
    let seen = rehearse(&demo.workflow, &demo.case, stage)?;
    if seen.is_interrupted {
        return Ok(None);
    }
    let has_failed = u8::from(seen.run.result.is_none());
    if is_json {
        out::event(&closed(&seen.run));
        return Ok(Some(ExitCode::from(has_failed)));
    }
    let next = Next { id: seen.run.id.clone(), place: String::new() };
    let mut people = out::people();
    if let Some(watched) = &*gatherer.0.borrow() {
        let shows_result = !out::shows_data();
        for line in summary_lines(&seen.run, &watched.view, &next, Level::News, shows_result) {
            people.line(&line);
        }
    }
    out::data(&format!(
        "{}\n",
        seen.run.result.as_ref().map_or("(none)".to_owned(), ToString::to_string)
    ))?;
    out::note(AFTERWORD);
    Ok(Some(ExitCode::from(has_failed)))
}
