//! The events that observers see of a run: for the console, debug files and other programs.
//!
//! One typed stream of owned values, which can be sent to other threads. Nothing is ever rebuilt from it.

use std::path::PathBuf;

use raymond_flow::{
    id::{AgentId, RunId, StateName, StepId},
    machine::{Agent, Record, Run, Session, Step},
    money::Usd,
    source::Diagnostic,
};

use crate::{agent::Activity, asks::PublishedQuestion, store::journal::Trimmed, sys::clock};

/// An event, and when it happened.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event.
    pub event: Event,
}

/// Something that an observer may show.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most events are records, the largest variant")]
pub enum Event {
    /// The run is open: it begins or is resumed. The first event, unless the journal had to be trimmed.
    Opened {
        /// The id of the run.
        id: RunId,
        /// The run; if it is resumed, as it was left.
        run: Box<Run>,
        /// Whether it is new.
        is_new: bool,
    },
    /// An unfinished end of the journal was moved to a file beside it.
    JournalTrimmed(Trimmed),
    /// A step was started, or found running.
    StepStarted {
        /// The id of the step.
        id: StepId,
        /// The intent of the step.
        step: Box<Step>,
        /// The directory with its output.
        folder: PathBuf,
        /// Whether an earlier orchestrator had started it.
        is_found: bool,
        /// The variables that Raymond set for it.
        environment: Vec<(String, String)>,
    },
    /// A coding agent is doing something.
    Activity {
        /// The step in which it does it.
        id: StepId,
        /// What it is doing.
        activity: Activity,
    },
    /// A step has ended. Every step that was started or found has exactly one such event.
    StepEnded {
        /// The id of the step.
        id: StepId,
        /// The intent of the step.
        step: Box<Step>,
        /// The directory with its output.
        folder: PathBuf,
        /// How it ended.
        end: StepEnd,
        /// How long it ran; 0 if that is unknown.
        duration_ms: u64,
    },
    /// A question to a person can be answered: it was published, or found published.
    Asked {
        /// The question.
        question: Box<PublishedQuestion>,
        /// Whether it was published now.
        is_new: bool,
    },
    /// Only people can bring the run on: agents wait for answers, and no other agent can continue.
    WaitsForPeople,
    /// A record was committed.
    Recorded {
        /// The record.
        record: Record,
        /// The agent that it is about, before the record.
        before: Option<Box<Before>>,
        /// The cost of the run before the record.
        total_cost_usd: Usd,
        /// How many steps were running before the record.
        running: usize,
    },
    /// Names in a prompt that are not variables.
    UnknownVariables {
        /// The agent that was given the prompt.
        agent: AgentId,
        /// The state of the prompt.
        state: StateName,
        /// The names.
        names: Vec<String>,
    },
    /// A warning about a state file.
    StateFileWarning(Diagnostic),
    /// A failure without consequences for the run.
    Trouble(String),
}

impl Event {
    /// The event for `record`, which is not applied to `run` yet.
    pub fn recorded(record: Record, run: &Run) -> Self {
        let before = record.agent().and_then(|id| run.agents.get(id));
        let before = before.map(|agent| Box::new(Before::of(agent)));
        let (total_cost_usd, running) = (run.total_cost_usd, run.running_steps());
        Self::Recorded { record, before, total_cost_usd, running }
    }

    /// The event with the current time.
    pub fn now(self) -> Seen {
        Seen { at_ms: clock::now_ms(), event: self }
    }
}

/// How a step ended, as far as observers need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal, a timeout or an interrupt; or its program could not be started.
    NoCode,
    /// Its answer needed no program.
    Answered,
    /// It was never started, and is forbidden to start.
    NotStarted,
    /// Its reaper was killed or its output is missing, so its exit code is unknown.
    Lost,
}

impl StepEnd {
    /// The exit code, if there was one.
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::NoCode | Self::Answered | Self::NotStarted | Self::Lost => None,
        }
    }
}

/// What an observer may want to know of an agent before a record about it: cheap to copy, unlike an
/// [`Agent`].
#[derive(Clone, Debug)]
pub struct Before {
    /// The agent.
    pub agent: AgentId,
    /// The state that it was in.
    pub state: StateName,
    /// The session with which it entered that state.
    pub session: Session,
    /// The state that its result would have returned to; `None` without a caller.
    pub return_to: Option<StateName>,
    /// The number of callers that waited for it.
    pub stack_depth: usize,
    /// How often its work had been started.
    pub starts: u32,
    /// The coding agent of its running turn.
    pub coding_agent: Option<String>,
    /// What people have told it and no turn of it has heard.
    pub unheard: Vec<String>,
}

impl Before {
    fn of(agent: &Agent) -> Self {
        Self {
            agent: agent.id.clone(),
            state: agent.current_state.clone(),
            session: agent.session.clone(),
            return_to: agent.stack.last().map(|frame| frame.state.clone()),
            stack_depth: agent.stack.len(),
            starts: agent.tries.starts,
            coding_agent: agent.phase.step().and_then(Step::coding_agent).map(str::to_owned),
            unheard: agent.unheard().map(|message| message.text.clone()).collect(),
        }
    }
}

/// Watches a run.
pub trait Observer {
    /// Receives an event. Must not block and cannot fail: an observer never affects the run.
    fn see(&mut self, seen: &Seen);

    /// Whether it wants to see what coding agents do while they run.
    fn wants_activity(&self) -> bool {
        false
    }

    /// What it could not do since the last call, for the other observers to show.
    fn complaint(&mut self) -> Option<String> {
        None
    }
}

/// Several observers. A complaint of one of them is shown to all as [`Event::Trouble`].
impl Observer for Vec<Box<dyn Observer>> {
    fn see(&mut self, seen: &Seen) {
        for observer in self.iter_mut() {
            observer.see(seen);
        }
        let complaints: Vec<_> = self.iter_mut().filter_map(|who| who.complaint()).collect();
        for text in complaints {
            let trouble = Event::Trouble(text).now();
            for observer in self.iter_mut() {
                observer.see(&trouble);
            }
        }
    }

    fn wants_activity(&self) -> bool {
        self.iter().any(|observer| observer.wants_activity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Recorder;

    /// An observer that could not do something.
    struct Complaining(Vec<&'static str>);

    impl Observer for Complaining {
        fn see(&mut self, _seen: &Seen) {}

        fn complaint(&mut self) -> Option<String> {
            self.0.pop().map(str::to_owned)
        }
    }

    #[test]
    fn what_one_observer_could_not_do_is_shown_to_all_after_the_event_and_once() {
        let seen = Recorder::default();
        let complaining = Complaining(vec!["the disk is full"]);
        let mut all: Vec<Box<dyn Observer>> = vec![Box::new(complaining), Box::new(seen.clone())];
        all.see(&Event::Trouble("first".to_owned()).now());
        all.see(&Event::Trouble("second".to_owned()).now());
        assert_eq!(seen.troubles(), ["first", "the disk is full", "second"]);
    }

    #[test]
    fn activity_is_wanted_if_one_of_them_wants_it() {
        let observer = |is_curious| -> Box<dyn Observer> {
            let mut observer = Recorder::default();
            observer.is_curious = is_curious;
            Box::new(observer)
        };
        assert!(!vec![observer(false), observer(false)].wants_activity());
        assert!(vec![observer(false), observer(true)].wants_activity());
        assert!(!Vec::<Box<dyn Observer>>::new().wants_activity());
    }

    #[test]
    fn only_an_exit_code_is_one() {
        assert_eq!(StepEnd::Code(3).code(), Some(3));
        let others = [StepEnd::NoCode, StepEnd::Answered, StepEnd::NotStarted, StepEnd::Lost];
        assert_eq!(others.map(StepEnd::code), [None; 4]);
    }
}
