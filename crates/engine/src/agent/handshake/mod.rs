//! Whether an installed coding agent behaves as Raymond expects: two turns of one session, with the command of a real turn,
//! against a `model` in this process. It costs nothing, needs no network and touches nothing of the user's: the coding
//! agent has a temporary home and a key that is none.

mod model;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, SessionId, StateName},
    machine::{Action, SessionPlan, Step, Turn, TurnSettings},
    money::Usd,
    policy::Policy,
    source::{Timeout, TurnOptions},
    text::beginning,
    turn::Outcome,
};
use uuid::Uuid;

use self::model::Model;
use crate::{
    agent::{Apart, CodingAgent, TurnCommand, TurnEnd, TurnOutput, TurnRequest, marks::Progress},
    exec::{processes::Tree, programs},
};

/// The words that the prompts ask about. The model says which of them it has read, so its answer to the second prompt
/// shows whether the session had the first one.
const WORDS: [&str; 2] = ["amaryllis-4711", "buttercup-4712"];
/// How often to check whether the program has ended.
const INTERVAL: Duration = Duration::from_millis(5);
/// A second turn that costs more than the first one and this part of it includes the first one: both have the same tokens.
const MORE_PART: u64 = 10;
/// How much of an unexpected answer is shown.
const EXCERPT_CHARS: usize = 120;
/// Variables that the coding agent inherits: what systems need to start a program and to find its libraries. No proxy: it
/// would be asked for the model on this machine.
const INHERITED: [&str; 9] = [
    "PATH",
    "PATHEXT",
    "SYSTEMROOT",
    "COMSPEC",
    "WINDIR",
    "SHELL",
    "LANG",
    "LD_LIBRARY_PATH",
    "USER",
];

/// What a coding agent does otherwise than Raymond expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It could not be started.
    NotStarted(String),
    /// It did not end by itself.
    NotEnded {
        /// After how many seconds it was killed.
        seconds: u64,
    },
    /// No answer was found in its output; this is what was found instead.
    NoAnswer(String),
    /// It answered the second prompt without knowing the first.
    NotResumed,
    /// A process that can be kept does not say in known words that its turn is over, so Raymond would wait for it.
    EndNotSeen,
    /// It says what turns cost, but no cost was found.
    NoCost,
    /// The second turn seems to have cost what both did.
    CostOfSession {
        /// The cost of the first turn.
        first: Usd,
        /// The cost of the second turn, which was the same.
        second: Usd,
    },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotStarted(why) => write!(f, "it cannot be started: {why}"),
            Self::NotEnded { seconds } => write!(f, "it did not end within {seconds} s"),
            Self::NoAnswer(instead) => write!(f, "its answer was not understood: {instead}"),
            Self::NotResumed => f.write_str("its session was not resumed"),
            Self::EndNotSeen => f.write_str("the end of its turn was not recognised"),
            Self::NoCost => f.write_str("its cost was not understood"),
            Self::CostOfSession { first, second } => {
                write!(f, "a turn of {first} in a resumed session was counted as {second}")
            }
        }
    }
}

impl Difference {
    /// Whether no turn can work. Otherwise its cost is wrong, or its process cannot be kept.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Self::EndNotSeen | Self::NoCost | Self::CostOfSession { .. })
    }
}

/// Has two turns with the coding agent, each of at most `limit`. `None` if it cannot be pointed to a model of our own; otherwise
/// what it does otherwise, which is nothing if it works. No process of it is left.
pub fn handshake(agent: &dyn CodingAgent, limit: Duration) -> io::Result<Option<Vec<Difference>>> {
    let model = Model::start(WORDS)?;
    let place = tempfile::Builder::new().prefix("raymond-doctor").tempdir()?;
    // Some coding agents name sessions after the real path of their directory.
    let root = place.path().canonicalize()?;
    let home = root.join("home");
    let Some(apart) = agent.apart(&home, &model.url()) else {
        return Ok(None);
    };
    let desk = Desk { model, apart, root, home, limit };
    desk.prepare()?;
    Ok(Some(desk.talk().unwrap_or_else(|fatal| vec![fatal])))
}

/// A coding agent with its model and its temporary home.
struct Desk {
    model: Model,
    apart: Apart,
    root: PathBuf,
    home: PathBuf,
    limit: Duration,
}

impl Desk {
    fn cwd(&self) -> PathBuf {
        self.root.join("work")
    }

    fn prepare(&self) -> io::Result<()> {
        for folder in [self.cwd(), self.home.clone(), self.root.join("tmp")] {
            fs::create_dir_all(folder)?;
        }
        for (path, text) in &self.apart.files {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(path, text)?;
        }
        Ok(())
    }

    /// Has both turns. An error is a difference that leaves nothing to look at.
    fn talk(&self) -> Result<Vec<Difference>, Difference> {
        let agent = &*self.apart.agent;
        let own = SessionId::new(Uuid::new_v4().to_string());
        let (first, is_end_seen) = self.turn(0, SessionPlan::Fresh { id: own.clone() }, None)?;
        let first_calls = self.model.calls();
        // A coding agent that chooses its ids has said which one it is.
        let session = first.spent.session.clone().unwrap_or(own);
        let before = first.total.as_deref().filter(|_| agent.counts_by_session());
        let (second, _) = self.turn(1, SessionPlan::Resume { id: session }, before)?;
        let second_calls = self.model.calls() - first_calls;
        if !matches!(&second.outcome, Outcome::Reply { text } if text.contains(WORDS[0])) {
            return Err(Difference::NotResumed);
        }
        let (first, second) = (first.spent.cost_usd, second.spent.cost_usd);
        let is_more = second.less(first) > first.divided_by(MORE_PART);
        let cost = if !agent.capabilities().reports_cost {
            None
        } else if first == Usd::ZERO || second == Usd::ZERO {
            Some(Difference::NoCost)
        } else {
            // Some make a call of their own in a turn, such as for a title.
            let is_wrong = is_more && second_calls <= first_calls;
            is_wrong.then_some(Difference::CostOfSession { first, second })
        };
        let end = (!is_end_seen).then_some(Difference::EndNotSeen);
        Ok(end.into_iter().chain(cost).collect())
    }

    /// Carries out the turn with this number, which must answer with its word. Also returns whether a process that were kept
    /// would have said that the turn is over.
    fn turn(
        &self,
        number: usize,
        session: SessionPlan,
        before: Option<&str>,
    ) -> Result<(TurnEnd, bool), Difference> {
        let not_started = |error: io::Error| Difference::NotStarted(error.to_string());
        let folder = self.root.join(format!("turn{number}"));
        fs::create_dir_all(&folder).map_err(not_started)?;
        let command = self.command(number, session)?;
        let exit_code = self.run(&folder, &command)?;
        let stdout = folder.join("stdout");
        let output = TurnOutput {
            stdin: &folder.join("stdin"),
            stdout_bytes: fs::metadata(&stdout).map_or(0, |file| file.len()),
            stdout: &stdout,
            stderr: &folder.join("stderr"),
            exit_code,
            is_first: true,
            before: command.before.as_deref().or(before),
            told: &[],
        };
        let end = self.apart.agent.outcome(&output).map_err(not_started)?;
        let instead = match &end.outcome {
            Outcome::Reply { text } if text.contains(WORDS[number]) => {
                return Ok((end, is_end_seen(&command, &stdout)));
            }
            Outcome::Reply { text } => text.clone(),
            Outcome::Failed(failure) => failure.message.clone(),
            other => format!("{other:?}"),
        };
        Err(Difference::NoAnswer(beginning(&instead, EXCERPT_CHARS)))
    }

    /// The command of the turn with this number, as in a run.
    fn command(&self, number: usize, session: SessionPlan) -> Result<TurnCommand, Difference> {
        let turn = turn(session);
        let request = TurnRequest {
            agent: &AgentId::main(),
            step: &step(number, &turn),
            turn: &turn,
            cwd: &self.cwd(),
            prompt: &format!("Say the words that you know: {}.", WORDS[number]),
            continuation: "",
            earlier: &[],
            folder: None,
            state_dir: &self.cwd(),
            scope: Path::new("/nowhere"),
            follows_a_model: number > 0,
        };
        let command = self.apart.agent.command(&request);
        command.map_err(|failure| Difference::NoAnswer(failure.message))
    }

    /// Runs the program of a turn until it ends, and returns its exit code.
    fn run(&self, folder: &Path, given: &TurnCommand) -> Result<Option<i32>, Difference> {
        let not_started = |error: io::Error| Difference::NotStarted(error.to_string());
        let stdin = folder.join("stdin");
        fs::write(&stdin, &given.stdin).map_err(not_started)?;
        let name = given.program.first().map_or("", String::as_str);
        let program = programs::find(name).ok_or_else(|| io::ErrorKind::NotFound.into());
        // It is started in another directory.
        let program = program.and_then(std::path::absolute).map_err(not_started)?;
        let mut command = Command::new(program);
        command.args(given.program.iter().skip(1)).current_dir(self.cwd()).env_clear();
        let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(inherited).env("TERM", "dumb");
        for name in ["HOME", "USERPROFILE"] {
            command.env(name, &self.home);
        }
        for name in ["TMPDIR", "TMP", "TEMP"] {
            command.env(name, self.root.join("tmp"));
        }
        command.envs(self.apart.environment.iter().cloned());
        command.envs(given.environment.iter().cloned());
        command.stdin(Stdio::piped());
        command.stdout(File::create(folder.join("stdout")).map_err(not_started)?);
        command.stderr(File::create(folder.join("stderr")).map_err(not_started)?);
        self.wait(&mut command, given.stdin.clone())
    }

    /// Gives a program its input, waits for its end, and kills what is left of it.
    fn wait(&self, command: &mut Command, stdin: String) -> Result<Option<i32>, Difference> {
        let not_started = |error: io::Error| Difference::NotStarted(error.to_string());
        let (mut child, tree) = Tree::spawn(command).map_err(not_started)?;
        // As in a run: a pipe, which Claude Code reads otherwise than a file, and a thread, because it may not read at all.
        if let Some(mut pipe) = child.stdin.take() {
            let _ = thread::Builder::new().spawn(move || pipe.write_all(stdin.as_bytes()));
        }
        let started = Instant::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status.code()),
                Ok(None) if started.elapsed() >= self.limit => {
                    break Err(Difference::NotEnded { seconds: self.limit.as_secs() });
                }
                Ok(None) => thread::sleep(INTERVAL),
                Err(error) => break Err(not_started(error)),
            }
        };
        tree.end(false);
        let _ = child.wait();
        ended
    }
}

/// Whether the output has the lines by which Raymond recognises that a process that it keeps has finished this turn.
fn is_end_seen(command: &TurnCommand, stdout: &Path) -> bool {
    command.marks.is_none()
        || Progress::new(command.marks.clone(), stdout).is_ok_and(|mut progress| {
            progress.look(Instant::now());
            progress.is_finished()
        })
}

/// A turn that asks for nothing in particular.
fn turn(session: SessionPlan) -> Turn {
    let settings = TurnSettings {
        agent: None,
        model: None,
        effort: None,
        timeout: Timeout::DEFAULT,
        skip_permissions: false,
        tools: None,
        permissions: None,
        granted: Vec::new(),
        budget_usd: None,
        options: TurnOptions::default(),
    };
    Turn {
        session,
        settings,
        policy: Policy::default(),
        prompt_digest: String::new(),
        recovers: false,
        given: Vec::new(),
        spent_share: false,
        stand_in: None,
        budget_usd: None,
    }
}

fn step(number: usize, turn: &Turn) -> Step {
    Step {
        number: u32::try_from(number + 1).unwrap_or(1),
        state: StateName::new("DOCTOR.md"),
        digest: None,
        attempt: 1,
        action: Action::Turn(turn.clone()),
    }
}

#[cfg(test)]
mod tests;
