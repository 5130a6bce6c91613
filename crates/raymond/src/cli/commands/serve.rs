//! `raymond serve` and `raymond open`: the runs of this user in a browser.

use std::{
    env,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use raymond_engine::{
    agent::Agents,
    exec::processes,
    observe::overview::Overview,
    store::{layout::StateDir, lock::RunLock, user::UserDir},
    trust::private,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, Run, Settings, Status},
    money::Usd,
};
use raymond_server::{Bound, Host, ServeError, ServerOptions, last_link};

use super::{
    background,
    place::{current_folder, state_dir, typed},
};
use crate::{
    cli::{
        args::Place,
        upkeep::{Open, Serve},
    },
    config::{Config, agents},
    failure::Failure,
    out,
    report::{Next, warning},
};

/// How long `raymond open` waits for the server to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// The page that sends the browser to the server.
const DOOR: &str = "open.html";

/// `raymond serve`
pub(in crate::cli) fn serve(arguments: &Serve) -> Result<ExitCode, Failure> {
    let user_dir = user_dir()?;
    let project = arguments.project.as_deref().map(state_dir_of).transpose()?;
    // The settings of the directory in which it is started.
    let here = match &project {
        Some(project) => project.clone(),
        None => state_dir(&Place { data_dir: None })?,
    };
    let config = Config::load(here.root())?;
    let cap = arguments.max_budget.or(config.all.serve_max_budget).filter(|cap| *cap > Usd::ZERO);
    let folder = |path: &PathBuf| {
        let path = std::fs::canonicalize(path);
        path.map_err(|error| Failure::io("find a directory of --root", &error))
    };
    let program = env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let bound = Bound::new(ServerOptions {
        user_dir: user_dir.clone(),
        project: project.clone(),
        roots: arguments.root.iter().map(folder).collect::<Result<_, _>>()?,
        address: arguments.listen,
        port: arguments.port,
        hosts: arguments.host.clone(),
        is_read_only: arguments.read_only,
        budget_max: cap,
        program,
        version: env!("RAYMOND_BUILD").to_owned(),
        host: Arc::new(Words),
    })
    .map_err(|error| refused(&error))?;
    tell(arguments, &bound)?;
    if arguments.recover {
        let dirs = project.map_or_else(|| user_dir.state_dirs(), |project| vec![project]);
        // Reading the journals of many runs takes a while, and the page need not wait for it.
        std::thread::spawn(move || dirs.iter().for_each(recover));
    }
    bound.serve().map_err(|error| refused(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the runs of one state directory in the background, for as long as this program runs. What the server keeps for
/// itself is in `folder`. Nothing can be changed through it.
pub(super) fn show(state_dir: &Path, folder: &Path) -> Result<(), Failure> {
    private::create_dir_all(state_dir)
        .map_err(|error| Failure::io("create the state directory", &error))?;
    let program = env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let bound = Bound::new(ServerOptions {
        user_dir: UserDir::new(folder.join("user")),
        project: Some(StateDir::new(state_dir)),
        roots: Vec::new(),
        address: None,
        port: None,
        hosts: Vec::new(),
        is_read_only: true,
        budget_max: None,
        program,
        version: env!("RAYMOND_BUILD").to_owned(),
        host: Arc::new(Words),
    })
    .map_err(|error| refused(&error))?;
    // With its token, even into a log: the token ends with this program, and `raymond open` does not know of it.
    out::note(&format!("Watch it in a browser: {}\n", bound.link()));
    // It ends with the program.
    std::thread::spawn(move || bound.serve());
    Ok(())
}

/// Says where the page is. The link with the token is for a person: in a file it would be a secret in a log.
fn tell(arguments: &Serve, bound: &Bound) -> Result<(), Failure> {
    if let Some(address) = arguments.listen.filter(|address| !address.is_loopback()) {
        let what = if arguments.read_only { "see" } else { "see, start, stop and answer" };
        let text = format!(
            "listening on {address}: anyone who can reach this machine and has the token can {what} runs, and without TLS \
             the token can be read on the way; put a reverse proxy with TLS before it"
        );
        out::people().line(&warning(&text));
    }
    if out::shows_data() {
        out::data(&format!("{}\n", bound.link()))?;
        out::note("Open this link in a browser, or type in another terminal: raymond open");
        out::note("Ctrl-C ends the server; runs go on.");
    } else {
        out::data(&format!("{}\n", bound.url()))?;
        out::note("The link with its token: raymond open --print");
    }
    Ok(())
}

/// Resumes every run whose orchestrator died, in the background.
fn recover(state_dir: &StateDir) {
    for id in state_dir.run_ids().unwrap_or_default() {
        let is_dead = RunLock::holder(&state_dir.run(&id).lock).is_none()
            && status(state_dir, &id) == Some(Status::Running);
        if !is_dead {
            continue;
        }
        out::note(&format!("Resuming run {id}, whose program had died."));
        if let Err(why) = background::resume(state_dir, &id) {
            out::people().line(&warning(&format!("run {id} was not resumed: {why}")));
        }
    }
}

/// The status of a run, however long its journal is.
fn status(state_dir: &StateDir, id: &RunId) -> Option<Status> {
    let mut overview = Overview::new(id.clone(), state_dir.run(id));
    overview.refresh();
    overview.run().map(|run| run.status)
}

/// `raymond open`
pub(in crate::cli) fn open(arguments: &Open) -> Result<ExitCode, Failure> {
    let user_dir = user_dir()?;
    let none = || {
        Failure::usage("no server is running".to_owned())
            .with_hint("start it in another terminal: raymond serve")
    };
    let link = last_link(&user_dir).ok_or_else(none)?;
    let address = link.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let address = address.parse().map_err(|_| none())?;
    TcpStream::connect_timeout(&address, CONNECT_PATIENCE).map_err(|_| none())?;
    if arguments.print {
        out::data(&format!("{link}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The link must not be an argument: every user can see the arguments of every process.
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>raymond</title>\
         <meta name=\"referrer\" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url={link}\">"
    );
    let path = user_dir.file(DOOR);
    private::write(&path, page).map_err(|error| Failure::io("write the link", &error))?;
    let is_open = browser(&path).status().is_ok_and(|status| status.success());
    if !is_open {
        return Err(Failure::usage("no browser could be opened".to_owned())
            .with_hint("print the link, and open it yourself: raymond open --print"));
    }
    out::note("Opened in the browser.");
    Ok(ExitCode::SUCCESS)
}

/// The command that opens a file in the user's browser.
fn browser(path: &Path) -> Command {
    let mut command = if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" })
    };
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    processes::set_apart(&mut command);
    command
}

fn user_dir() -> Result<UserDir, Failure> {
    UserDir::here().ok_or_else(|| {
        Failure::usage("there is no directory for what Raymond keeps for you".to_owned())
            .with_hint("set HOME or XDG_STATE_HOME to an absolute path")
    })
}

/// The state directory of the project in `folder`.
fn state_dir_of(folder: &Path) -> Result<StateDir, Failure> {
    let folder = Path::new(&current_folder()?).join(folder);
    let folder = std::fs::canonicalize(&folder)
        .map_err(|error| Failure::io(&format!("find {}", folder.display()), &error))?;
    let state_dir = if folder.file_name().is_some_and(|name| name == ".raymond") {
        StateDir::new(folder)
    } else {
        StateDir::of_project(&folder)
    };
    state_dir.check()?;
    Ok(state_dir)
}

fn refused(error: &ServeError) -> Failure {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = format!("{text}: {source}");
    }
    let hint = match error {
        ServeError::Listen { .. } => "choose another port: raymond serve --port N",
        ServeError::Token { .. } | ServeError::Io(_) => "see what is wrong: raymond doctor",
    };
    Failure::usage(text).with_hint(hint)
}

/// Settings and words, for the server.
struct Words;

impl Host for Words {
    fn agents(&self, state_dir: &StateDir) -> Agents {
        // A mistake in the settings does not prevent users from viewing runs.
        agents(&Config::load(state_dir.root()).unwrap_or_default())
    }

    fn budget(&self, state_dir: &StateDir) -> Option<Usd> {
        let (mut settings, mut limits) = (Settings::default(), Limits::default());
        if let Ok(config) = Config::load(state_dir.root()) {
            config.said.apply(&mut settings, &mut limits);
        }
        limits.budget_usd
    }

    fn next(&self, state_dir: &StateDir, run: &Run, status: &str) -> Option<String> {
        let place = typed(&Place { data_dir: Some(state_dir.root().to_owned()) });
        let next = Next { id: run.id.clone(), place };
        next.one(run, status)
    }
}
