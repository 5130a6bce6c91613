//! `raymond cluster`, which is another program, and the hidden commands by which that program uses this one:
//! `__plan` for the run that a command line starts, `__host` for the steps of a run on this machine.

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead as _, Read as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use raymond_engine::{
    exec::{
        host::{LINE_BYTES_MAX, OrderSender, Plan, Report},
        programs,
    },
    run::events::{Event, Observer, Seen},
    store::scope,
    trust::private,
};
use raymond_flow::id::RunId;

use super::{manual, prepare::LoadedProject, run};
use crate::{
    cli::args::{Place, Start},
    failure::Failure,
    out,
};

/// The program that runs workflows on many machines. It is separate because its dependencies are ten times those of
/// this program.
const PROGRAM: &str = "raymond-cluster";
/// Tells that program where this one is.
const RAYMOND: &str = "RAYMOND_PROGRAM";

/// `raymond cluster …`
pub(in crate::cli) fn cluster(words: &[OsString]) -> Result<ExitCode, Failure> {
    let own = env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let found = beside(&own).or_else(|| programs::find(PROGRAM));
    let asks_for_help = words.first().is_some_and(|word| word == "--help" || word == "-h");
    if found.is_none() && asks_for_help {
        return manual::help(&["cluster".to_owned()]);
    }
    let program = found.ok_or_else(|| {
        Failure::usage(format!("`{PROGRAM}` is not installed")).with_hint(format!(
            "put it beside {} or on the search path; from the sources: \
             cargo install --path crates/cluster",
            own.display()
        ))
    })?;
    let mut command = Command::new(&program);
    let status = command.args(words).env(RAYMOND, &own).status();
    let failed = |error| Failure::io(&format!("run {}", program.display()), &error);
    let code = status.map_err(failed)?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// The program in the directory of this one.
fn beside(own: &Path) -> Option<PathBuf> {
    programs::find(own.with_file_name(PROGRAM).to_str()?)
}

/// `raymond __plan --bundle FILE WORKFLOW`
pub(in crate::cli) fn plan(bundle: &Path, start: Start) -> Result<ExitCode, Failure> {
    let (project, started) = run::plan(start)?;
    let bytes = scope::bundle(Path::new(&started.scope_dir))?;
    let written = private::write(bundle, bytes);
    written.map_err(|error| Failure::io(&format!("write {}", bundle.display()), &error))?;
    let state_dir = project.state_dir.root().to_owned();
    let plan = Plan { started, coding_agents: project.agents.known(), state_dir };
    let json = serde_json::to_string(&plan).map_err(|error| Failure::of_error(&error))?;
    out::data(&format!("{json}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond __host ID IDENTITY BUNDLE`
pub(in crate::cli) fn host(
    id: &str,
    identity: &str,
    bundle: &Path,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let id = RunId::new(id)?;
    let project = LoadedProject::admitted(place)?;
    // Which worker gets the next turn of a session is not known, so no process is kept for it.
    let engine = project.engine(Some(0))?;
    let failed = |error| Failure::of_error(&error);
    let (host, orders) = engine.host(&id, identity, bundle).map_err(failed)?;
    say(&Report::Open);
    let reader = thread::Builder::new().spawn(move || read_orders(&orders));
    reader.map_err(|error| Failure::io("start a thread", &error))?;
    host.run(&mut |report| say(&report), &mut Troubles).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives the host the orders on standard input, until that ends.
fn read_orders(orders: &OrderSender) {
    let mut stdin = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match stdin.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match serde_json::from_slice(&line) {
            Ok(order) => drop(orders.send(order)),
            Err(error) => say(&Report::Trouble(format!("an order cannot be read: {error}"))),
        }
    }
}

/// Writes a line for the worker. If it is gone, its successor asks again.
fn say(report: &Report) {
    if let Ok(json) = serde_json::to_string(report) {
        let _ = out::data(&(json + "\n"));
    }
}

/// Passes troubles to the worker.
struct Troubles;

impl Observer for Troubles {
    fn see(&mut self, seen: &Seen) {
        if let Event::Trouble(text) = &seen.event {
            say(&Report::Trouble(text.clone()));
        }
    }
}
