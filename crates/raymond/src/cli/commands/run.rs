//! Commands that run workflows.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    process::ExitCode,
};

use raymond_engine::{
    EngineError, Loaded, RunEnd, load,
    observe::views::closed,
    run::{events::Observer, interrupts::Interrupts},
    store::{layout::StateDir, lock::RunLock, results::Results, scope::ScopeSource, user::UserDir},
    sys::clock,
};
use raymond_flow::{
    id::RunId,
    lint::Known,
    machine::{Halt, Limits, Run, Settings, Started, Status},
    source::Platform,
};

use super::{
    admit,
    background::{self, Detached},
    lint,
    place::{current_folder, state_dir},
    prepare::{LoadedProject, level},
    runs, trust,
};
use crate::{
    cli::{
        args::{Options, Start, WhichRun},
        mistyped::no_such_workflow,
    },
    failure::Failure,
    out, quote,
    report::{Next, summary_lines, warning, words::Level},
};

/// The largest input of a workflow: as much as one state can pass to another.
const INPUT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The input that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The exit code of a run that failed.
const FAILED: u8 = 1;

/// `raymond start WORKFLOW`
pub(in crate::cli) fn start(arguments: Start) -> Result<ExitCode, Failure> {
    let (detach, options) = (arguments.detach, arguments.options.clone());
    let is_typed = arguments.input.as_deref().is_some_and(|input| input != STANDARD_INPUT);
    let (mut project, started) = plan(arguments)?;
    let id = started.workflow_id.clone();
    if detach {
        let piped = started.input.as_deref().filter(|_| !is_typed);
        if project.state_dir.run(&id).journal.exists() {
            let next = runs::next(&id, &options.place);
            return Err(Failure::of_run(EngineError::Exists { id }, &project.state_dir, &next));
        }
        return background::detached(
            &project.state_dir,
            &id,
            Detached::New { input: piped },
            &options,
        );
    }
    remember(&project.state_dir);
    project.interrupts = Some(Interrupts::install());
    let mut observers = project.observers(&options, &id)?;
    let end = project.engine(options.overrides.warm)?.start(started, &mut observers);
    finish(end, observers, &project.state_dir, &id, &options)
}

/// The run that `raymond start` starts with these arguments, and its project.
pub(super) fn plan(arguments: Start) -> Result<(LoadedProject, Started), Failure> {
    let Start { workflow, id, input, variables, no_lint, options, .. } = arguments;
    let workflow = workflow.ok_or_else(|| {
        let message =
            "no workflow was named: a state file, a directory, a zip archive or a YAML file";
        Failure::usage(message.to_owned())
            .with_hint("raymond WORKFLOW, for instance: raymond ./hello")
    })?;
    if !workflow.exists() {
        return Err(no_such_workflow(&workflow));
    }
    let scope = ScopeSource::open(&workflow)?;
    let id = match id {
        Some(id) => RunId::for_new_run(&id).map_err(|error| {
            Failure::from(error).with_hint("choose another, for instance: --id my-run")
        })?,
        None => fresh_id(&scope.name)?,
    };
    let project = LoadedProject::admitted(&options.place)?;
    let (mut settings, mut limits) = (Settings::default(), Limits::default());
    for overrides in [&project.config.said, &options.overrides] {
        overrides.apply(&mut settings, &mut limits);
    }
    settings
        .agent
        .get_or_insert_with(|| project.agents.default_name().unwrap_or_default().to_owned());
    // A file that cannot be read here is reported when its state is entered.
    let opened = lint::open(&workflow, Platform::HERE).ok();
    let agents = project.agents.known();
    let graph = opened.as_ref().map(|opened| &opened.graph);
    admit::check_agents(graph, &agents, &settings, &limits)?;
    if let Some(opened) = opened.as_ref().filter(|_| !no_lint) {
        let variables = variables.iter().map(|(name, _)| name.clone()).collect();
        let known = Known { variables, coding_agents: Some(agents.clone()) };
        admit::check_lint(&workflow, opened, &known)?;
    }
    if !options.quiet {
        admit::warn_of_unlimited(graph, &agents, &settings, &limits);
    }
    let input = match input {
        Some(input) if input == STANDARD_INPUT => Some(read_input()?),
        None => admit::missing_input(&workflow, graph, &variables)?,
        input => input,
    };
    let started = Started {
        workflow_id: id,
        identity: String::new(),
        state_dir: String::new(),
        scope_dir: scope.path.to_string_lossy().into_owned(),
        entry: scope.entry,
        cwd: current_folder()?,
        started_at_ms: clock::now_ms(),
        input,
        metadata: variables.into_iter().collect::<BTreeMap<_, _>>(),
        settings,
        limits,
    };
    Ok((project, started))
}

/// `raymond run WORKFLOW` and `raymond run ID`. A run with exactly that id comes before a file of that
/// name; a file comes before a prefix of an id.
pub(in crate::cli) fn run(arguments: Start) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(&arguments.options.place)?;
    let Some(word) = arguments.workflow.as_deref() else {
        return Err(Failure::usage("no workflow or run was named".to_owned()).with_hint(
            "start a workflow: raymond run PATH\nresume the latest run: raymond resume",
        ));
    };
    let name = word.to_str().filter(|name| runs::exists(&state_dir, name));
    let is_file = word.exists();
    if let (None, true) = (name, is_file) {
        return start(arguments);
    }
    let Start { id, input, variables, detach, no_lint, options, .. } = &arguments;
    let only_new = [
        (id.is_some(), "--id"),
        (input.is_some(), "--input"),
        (!variables.is_empty(), "--var"),
        (*detach, "--detach"),
        (*no_lint, "--no-lint"),
    ];
    let id = word.to_str().map(str::to_owned);
    // Neither: if it looks like a path, it is most likely mistyped.
    let is_path = word.components().count() > 1 || word.extension().is_some();
    if name.is_none() && (is_path || runs::ids(&state_dir)?.is_empty()) {
        return Err(no_such_workflow(word));
    }
    if let Some((_, option)) = only_new.iter().find(|(is_typed, _)| *is_typed) {
        let message = format!("`{}` is a run: {option} is for new ones", word.display());
        let hint = if is_file {
            format!(
                "start the workflow of that name: raymond start {}",
                quote::path(&std::path::Path::new(".").join(word))
            )
        } else {
            format!("resume the run without it: raymond resume {}", quote::path(word))
        };
        return Err(Failure::usage(message).with_hint(hint));
    }
    if is_file && !options.quiet {
        let text = format!(
            "`{}` is a run, and also a file or directory; to start that: raymond start {}",
            word.display(),
            quote::path(word)
        );
        out::people().line(&warning(&text));
    }
    resume(&WhichRun { id }, false, options)
}

/// The input from standard input.
fn read_input() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::io("read standard input", &error))?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let why = format!("standard input has more than {INPUT_BYTES_MAX} bytes");
        let hint = "give the name of a file as the input, and let the first state read it";
        return Err(Failure::usage(why).with_hint(hint));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage("standard input is not valid UTF-8".to_owned()))
}

/// `raymond resume [ID]`
pub(in crate::cli) fn resume(
    run: &WhichRun,
    detach: bool,
    options: &Options,
) -> Result<ExitCode, Failure> {
    let id = runs::find(&state_dir(&options.place)?, run, &options.place)?;
    let mut project = LoadedProject::admitted(&options.place)?;
    if detach {
        let what = Detached::Resumed { is_named: run.id.is_some() };
        return background::detached(&project.state_dir, &id, what, options);
    }
    remember(&project.state_dir);
    project.interrupts = Some(Interrupts::install());
    let mut observers = project.observers(options, &id)?;
    let change = |settings: &mut _, limits: &mut _| options.overrides.apply(settings, limits);
    let end = project.engine(options.overrides.warm)?.resume(&id, change, &mut observers);
    finish(end, observers, &project.state_dir, &id, options)
}

/// `raymond recover`
pub(in crate::cli) fn recover(options: &Options) -> Result<ExitCode, Failure> {
    let mut project = LoadedProject::admitted(&options.place)?;
    let state_dir = project.state_dir.clone();
    let mut ids = Vec::new();
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let is_dead = load(&state_dir, &id)
            .is_ok_and(|loaded| loaded.run.status == Status::Running)
            && RunLock::holder(&state_dir.run(&id).lock).is_none();
        ids.extend(is_dead.then_some(id));
    }
    project.interrupts = Some(Interrupts::install());
    let mut worst = 0;
    if ids.is_empty() && !options.quiet {
        out::note("No run has to be recovered: none has died.");
        trust::note_foreign(&state_dir, &options.place)?;
    }
    for id in ids {
        let mut observers = project.observers(options, &id)?;
        let change = |settings: &mut _, limits: &mut _| options.overrides.apply(settings, limits);
        let end = project.engine(options.overrides.warm)?.resume(&id, change, &mut observers);
        drop(observers);
        let next = runs::next(&id, &options.place);
        if let (Ok(_), Ok(loaded)) = (&end, load(&state_dir, &id)) {
            tell_end(&loaded, &next, level(options), true);
        }
        // A run that cannot be resumed does not prevent the others from being resumed. A failure decides
        // the exit code.
        let code = match end {
            Ok(end) if end.is_interrupted => return Ok(ExitCode::from(exit_code(&end.run))),
            Ok(end) => exit_code(&end.run),
            Err(error) => {
                Failure::of_run(error, &state_dir, &next).show();
                FAILED
            }
        };
        worst = if code == FAILED || worst == 0 { code } else { worst };
    }
    Ok(ExitCode::from(worst))
}

/// Standard output has only data: the result of `main`.
fn finish(
    end: Result<RunEnd, EngineError>,
    observers: Vec<Box<dyn Observer>>,
    state_dir: &StateDir,
    id: &RunId,
    options: &Options,
) -> Result<ExitCode, Failure> {
    // Drop the live view first, so that it restores the terminal before anything else is printed.
    drop(observers);
    let next = runs::next(id, &options.place);
    let end = end.map_err(|error| Failure::of_run(error, state_dir, &next))?;
    if end.run.status == Status::Failed
        && let Some(mistakes) = lint::mistakes(&end.run)
    {
        out::note(&format!("\n{}", mistakes.trim_end()));
    }
    if let Ok(loaded) = load(state_dir, id) {
        tell_end(&loaded, &next, level(options), options.json || !out::shows_data());
    }
    match (&end.run.result, end.run.status) {
        _ if options.json => out::event(&closed(&end.run)),
        (Some(result), Status::Completed) => {
            let text = Results::of(&state_dir.run(id)).text(result);
            let text = text.map_err(|error| Failure::io("print the result", &error))?;
            let _ = out::data(&format!("{text}\n"))?;
        }
        _ => {}
    }
    Ok(ExitCode::from(exit_code(&end.run)))
}

/// Prints the summary of a run.
pub(super) fn tell_end(loaded: &Loaded, next: &Next, level: Level, shows_result: bool) {
    let mut people = out::people();
    for line in summary_lines(&loaded.run, &loaded.view, next, level, shows_result) {
        people.line(&line);
    }
}

pub(super) fn exit_code(run: &Run) -> u8 {
    match run.status {
        Status::Completed => 0,
        Status::Stopped => 3,
        Status::Paused if run.halt == Some(Halt::Interrupted) => 130,
        Status::Paused => 4,
        // There was no disk space to record how its last steps ended.
        Status::Running if matches!(run.halt, Some(Halt::DiskLow { .. })) => 4,
        Status::Failed | Status::Cancelled | Status::Running => FAILED,
    }
}

/// Leaves word of the project for `raymond serve`. If that fails, its runs are not listed there.
fn remember(state_dir: &StateDir) {
    if let Some(user_dir) = UserDir::here() {
        let _ = user_dir.remember(state_dir);
    }
}

pub(super) fn fresh_id(name: &str) -> Result<RunId, Failure> {
    let suffix = uuid::Uuid::new_v4().simple().to_string();
    Ok(RunId::derived(name, suffix.get(..8).unwrap_or_default())?)
}
