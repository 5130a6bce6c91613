//! `raymond test`: the tests of a workflow, without a model.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use raymond_engine::{
    EngineError, load,
    observe::answers,
    run::interrupts::Interrupts,
    store::{
        journal::Journal,
        scope::{ScopeError, extract_with_tests, is_packed, subworkflows},
    },
    trust::{regular, seal},
};
use raymond_flow::{id::RunId, machine::Status};

use tempfile::TempDir;

use super::prepare::LoadedProject;
use crate::{
    cli::{args::Test, mistyped::no_such_path},
    failure::Failure,
    out, quote,
    testing::{BYTES_MAX, Case, Stage, Update, differences, junit, recorded, rehearse},
};

/// The directory of cases, beside the states.
const FOLDER: &str = "tests";

/// How many of the slowest cases are named at the end.
const SLOWEST_MAX: usize = 3;

/// `raymond test WORKFLOW`
pub(in crate::cli) fn test(arguments: &Test) -> Result<ExitCode, Failure> {
    if let Some(id) = &arguments.record {
        return record(id, arguments);
    }
    if !arguments.workflow.exists() {
        return Err(no_such_path(&arguments.workflow));
    }
    seal::use_passing_key();
    let packed = packed_tests(arguments)?;
    let folder = match &packed {
        Some(folder) => folder.path(),
        None => folder_of(&arguments.workflow),
    };
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let update = if arguments.update { Update::Write } else { Update::Compare };
    let (mut results, mut names) = (Vec::new(), Vec::new());
    let interrupts = Interrupts::install();
    for Found { workflow, folder, prefix, path } in found_cases(arguments, folder)? {
        let case = read_case(&folder, &path);
        let name = case.as_ref().map_or_else(
            |_| path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            |case| case.name.clone(),
        );
        let name = format!("{prefix}{name}");
        names.push(name.clone());
        if !name.contains(filter) {
            continue;
        }
        let started = Instant::now();
        let wrong = match case.and_then(|case| run(&workflow, &case, update, &interrupts)) {
            Ok(None) => return Ok(ExitCode::from(130)),
            Ok(Some(wrong)) => wrong,
            Err(failure) => vec![failure.to_string()],
        };
        let (word, seconds) =
            (if wrong.is_empty() { "ok" } else { "FAILED" }, started.elapsed().as_secs_f64());
        let shown = out::one_line(&name);
        out::text(&format!("{word:<6} {shown}  ({:.0} ms)\n", seconds * 1000.0))?;
        for difference in &wrong {
            out::text(&format!("    {}\n", out::hanging(difference)))?;
        }
        let shown = out::one_line(&path.to_string_lossy());
        if !wrong.is_empty() && !wrong.iter().any(|text| text.contains(&shown)) {
            out::text(&format!("    in {shown}\n"))?;
        }
        results.push((name, seconds, wrong));
    }
    if let Some(path) = &arguments.junit {
        let suite = arguments.workflow.display().to_string();
        fs::write(path, junit(&suite, &results))
            .map_err(|error| Failure::io(&format!("write {}", path.display()), &error))?;
    }
    if results.is_empty() {
        let names: Vec<_> = names.iter().map(|name| out::one_line(name)).collect();
        let tests = folder.join(FOLDER);
        let message = format!("no case of {} contains `{filter}`", tests.display());
        return Err(Failure::usage(message).with_hint(format!("its cases: {}", names.join(", "))));
    }
    let failed = results.iter().filter(|(_, _, wrong)| !wrong.is_empty()).count();
    let cases = if results.len() == 1 { "case" } else { "cases" };
    out::text(&format!("\n{} {cases}, {failed} failed\n", results.len()))?;
    out::text(&slowest(&results))?;
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// A file with a case.
struct Found {
    /// What it is about: the workflow, or a subworkflow of it.
    workflow: PathBuf,
    /// The directory with its `tests`.
    folder: PathBuf,
    /// The path of the subworkflow, before the names of its cases.
    prefix: String,
    path: PathBuf,
}

/// The cases in the `tests` of `folder`, then those of each subworkflow, if it has any.
fn found_cases(arguments: &Test, folder: &Path) -> Result<Vec<Found>, Failure> {
    let found = |workflow: &Path, folder: &Path, prefix: &str, paths: Vec<PathBuf>| {
        let (workflow, folder, prefix) =
            (workflow.to_owned(), folder.to_owned(), prefix.to_owned());
        paths.into_iter().map(move |path| Found {
            workflow: workflow.clone(),
            folder: folder.clone(),
            prefix: prefix.clone(),
            path,
        })
    };
    let inner = subworkflows(folder)
        .map_err(|error| Failure::io(&format!("list {}", folder.display()), &error))?;
    // The other states beside a state file belong to another workflow.
    let inner =
        inner.into_iter().filter(|_| arguments.workflow.is_dir() || is_packed(&arguments.workflow));
    let mut cases = Vec::new();
    for inner in inner {
        let place = folder.join(&inner);
        if place.join(FOLDER).is_dir() {
            cases.extend(found(&place, &place, &inner, case_files(&place.join(FOLDER))?));
        }
    }
    let tests = folder.join(FOLDER);
    if cases.is_empty() || tests.is_dir() {
        let own: Vec<_> = found(&arguments.workflow, folder, "", case_files(&tests)?).collect();
        cases.splice(0..0, own);
    }
    Ok(cases)
}

/// The slowest cases, on one line; nothing for a single case.
fn slowest(results: &[(String, f64, Vec<String>)]) -> String {
    if results.len() < 2 {
        return String::new();
    }
    let mut times: Vec<_> = results.iter().map(|(name, seconds, _)| (seconds, name)).collect();
    times.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let shown = times.iter().take(SLOWEST_MAX);
    let shown: Vec<_> = shown
        .map(|(seconds, name)| format!("{} ({:.0} ms)", out::one_line(name), *seconds * 1000.0))
        .collect();
    format!("slowest: {}\n", shown.join(", "))
}

/// An archive with tests, extracted to a temporary directory; `None` if it has none, and for a directory.
fn packed_tests(arguments: &Test) -> Result<Option<TempDir>, Failure> {
    let workflow = arguments.workflow.as_path();
    if !is_packed(workflow) {
        return Ok(None);
    }
    let io = |error: io::Error| Failure::io("create a directory for the tests", &error);
    let folder = tempfile::tempdir().map_err(io)?;
    extract_with_tests(workflow, folder.path())
        .map_err(|source| ScopeError::Archive { path: workflow.into(), source })?;
    let inner = subworkflows(folder.path()).map_err(io)?;
    let has_tests = |inner: &str| folder.path().join(inner).join(FOLDER).is_dir();
    if !has_tests("") && !inner.iter().any(|inner| has_tests(inner)) {
        return Ok(None);
    }
    if arguments.update {
        return Err(Failure::usage(
            "the tests are in an archive, which `--update` cannot change: unpack it, and pack it again"
                .to_owned(),
        ));
    }
    Ok(Some(folder))
}

fn read_case(folder: &Path, path: &Path) -> Result<Case, Failure> {
    let text = regular::within(folder, path).and_then(|real| regular::read_text(&real, BYTES_MAX));
    let text = text.map_err(|error| Failure::io(&format!("read {}", path.display()), &error))?;
    Case::read(path, &text).map_err(|error| Failure::usage(error.to_string()))
}

/// What is not as expected in a case; `None` if the user pressed Ctrl-C.
fn run(
    workflow: &Path,
    case: &Case,
    update: Update,
    interrupts: &Interrupts,
) -> Result<Option<Vec<String>>, Failure> {
    let stage = Stage {
        state_dir: None,
        cwd: None,
        is_hurried: true,
        interrupts: Some(interrupts.clone()),
        observers: Vec::new(),
    };
    let seen = rehearse(workflow, case, stage)?;
    if seen.is_interrupted {
        return Ok(None);
    }
    let wrong = differences(case, &seen, update);
    wrong.map(Some).map_err(|error| Failure::io("compare the snapshot", &error))
}

/// The cases in a directory, sorted by name.
fn case_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let workflow = quote::path(folder.parent().unwrap_or(folder));
    let hint = format!(
        "how to write one: raymond help authoring\nor turn a run into one: raymond test {workflow} --record ID"
    );
    let entries = fs::read_dir(folder).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => String::new(),
            _ => format!(": {error}"),
        };
        let message = format!("there are no tests in {}{why}", folder.display());
        Failure::usage(message).with_hint(hint.clone())
    })?;
    let mut paths: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        let folder = folder.display();
        let message = format!("there is no .yaml file in {folder}");
        return Err(Failure::usage(message).with_hint(hint));
    }
    Ok(paths)
}

/// The directory of the states; for a state file or an archive, the directory that contains it.
fn folder_of(workflow: &Path) -> &Path {
    match workflow.parent() {
        _ if workflow.is_dir() => workflow,
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// `raymond test WORKFLOW --record ID`
fn record(id: &str, arguments: &Test) -> Result<ExitCode, Failure> {
    let id = RunId::new(id)?;
    let project = LoadedProject::of(&arguments.place)?;
    let loaded = load(&project.state_dir, &id)?;
    if loaded.run.status == Status::Running {
        return Err(Failure::usage(format!("run `{id}` has not ended yet")));
    }
    let files = project.state_dir.run(&id);
    let entries = Journal::read(&files.journal).map_err(EngineError::from)?;
    let text = recorded(&loaded, &entries, |step, turn| {
        answers::outcome(&files, step, turn, &project.agents).ok().flatten()
    });
    let folder = folder_of(&arguments.workflow).join(FOLDER);
    let path = folder.join(format!("{id}.yaml"));
    let write = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        fs::File::create_new(&path)?.write_all(text.as_bytes())
    };
    write().map_err(|error| Failure::io(&format!("write {}", path.display()), &error))?;
    out::path(&path)?;
    Ok(ExitCode::SUCCESS)
}
