//! The host with steps in memory: the test gives the orders and gets the reports of a run that it decides about itself.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{io, path::Path, sync::mpsc, time::Duration};

use raymond_flow::{
    coding_agent::Capabilities,
    id::{AgentId, SessionId, StepId},
    machine::{
        Action, Again, Conclusion, Effect, FailureClass, Input, Phase, Record, Run, SessionPlan,
        Status, TurnFailure, apply, decide, settle, start,
    },
    payload::Payload,
    turn::prepare,
    world::MemoryWorld,
};

use super::{Hosted, Mapping, Order, OrderSender, Report};
use crate::{
    Engine, Runner,
    agent::{Agents, CodingAgent, SessionPart, TurnCommand, TurnEnd, TurnOutput, TurnRequest},
    exec::steps::memory::Fate,
    testing::{self, RESULT, Recorder, Stage, id, says, step_id},
};

const IDENTITY: &str = "5f";

/// Long enough that no deadline passes in a test that does not want it.
const LONG: Duration = Duration::from_hours(1);

/// A run that the test decides about, as an orchestrator on another machine does.
struct Far {
    run: Run,
    world: MemoryWorld,
    effects: Vec<Effect>,
}

impl Far {
    fn new(stage: &Stage, files: &[&str]) -> Self {
        let decision = start(stage.started.clone());
        let Record::Started(started) = &decision.records[0] else { panic!() };
        let run = Run::new(started);
        let world = MemoryWorld::new(files.iter().map(|name| (*name, "x")));
        let mut far = Self { run, world, effects: decision.effects };
        far.prepare();
        far
    }

    /// The step that is to be launched next.
    fn launch(&mut self) -> StepId {
        let Some(Effect::Launch { id, .. }) = self.effects.pop() else { panic!() };
        id
    }

    fn hosted(&self, id: &StepId, patience: Duration) -> Hosted {
        Hosted {
            id: id.clone(),
            run: Box::new(self.run.excerpt(&id.agent)),
            patience,
            mapping: None,
        }
    }

    fn input(&mut self, input: Input) {
        let mut decision = decide(&self.run, input);
        while !decision.is_empty() {
            for record in &decision.records {
                apply(&mut self.run, record).unwrap();
            }
            self.effects.append(&mut decision.effects);
            decision = settle(&self.run);
        }
    }

    fn prepare(&mut self) {
        while let Some(Effect::Prepare { agent }) = self.effects.last().cloned() {
            self.effects.pop();
            let fresh = SessionId::new("far");
            self.input(prepare(&self.run, &agent, &self.world, fresh).input);
        }
    }

    /// Takes a report and returns the inputs that it had.
    fn take(&mut self, report: Report) -> Vec<Input> {
        let Report::Ended { inputs, .. } = report else { panic!("{report:?}") };
        for input in &inputs {
            self.input(input.clone());
        }
        self.prepare();
        inputs
    }
}

/// Opens the host of the run on `stage`, and ends it when `test` has dropped its sender.
fn hosting(stage: &Stage, test: impl FnOnce(OrderSender, mpsc::Receiver<Report>) + Send) {
    hosting_by(&stage.engine(), &stage.folder.path().join("flow"), test);
}

fn hosting_by(
    engine: &Engine<'_>,
    flow: &Path,
    test: impl FnOnce(OrderSender, mpsc::Receiver<Report>) + Send,
) {
    let (host, orders) = engine.host(&id(), IDENTITY, flow).unwrap();
    let (sender, reports) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| test(orders, reports));
        let mut report = |report| drop(sender.send(report));
        host.run(&mut report, &mut Recorder::default()).unwrap();
        drop(sender);
    });
}

#[test]
fn run_that_is_decided_elsewhere_is_carried_out_step_by_step() {
    let files = ["START.sh", "NEXT.md"];
    let stage = Stage::new(
        &files,
        [("START.sh", vec![Fate::prints("<goto>NEXT</goto>")]), ("NEXT.md", vec![says(RESULT)])],
    );
    let mut far = Far::new(&stage, &files);
    hosting(&stage, |orders, reports| {
        while far.run.status == Status::Running {
            let id = far.launch();
            orders.send(Order::Start(far.hosted(&id, LONG)));
            far.take(reports.recv().unwrap());
        }
        assert_eq!(far.run.result.as_ref().and_then(Payload::as_text), Some("done"));
    });
    assert_eq!(stage.memory.asked(), ["launch main.1", "launch main.2", "close all"]);
}

#[test]
fn step_that_was_started_before_is_found_and_not_started_again() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let mut far = Far::new(&stage, &["START.sh"]);
    let step = far.launch();
    for _ in 0..2 {
        hosting(&stage, |orders, reports| {
            orders.send(Order::Start(far.hosted(&step, LONG)));
            let Report::Ended { inputs, .. } = reports.recv().unwrap() else { panic!() };
            let [Input::Ended { conclusion, .. }] = &inputs[..] else { panic!("{inputs:?}") };
            assert!(matches!(conclusion, Conclusion::Follow { .. }), "{conclusion:?}");
        });
    }
    assert_eq!(stage.launches(), 1);
}

#[test]
fn step_that_was_never_started_is_forbidden_when_it_is_looked_for() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let mut far = Far::new(&stage, &["START.sh"]);
    let step = far.launch();
    hosting(&stage, |orders, reports| {
        orders.send(Order::Find(far.hosted(&step, LONG)));
        let inputs = far.take(reports.recv().unwrap());
        let [Input::Ended { conclusion: Conclusion::Again { why, .. }, .. }] = &inputs[..] else {
            panic!("{inputs:?}");
        };
        assert_eq!(*why, Again::NotStarted);
        assert_eq!(far.launch(), step_id(2), "its work is started under another id");
    });
    assert_eq!(stage.launches(), 0);
}

#[test]
fn step_is_ended_when_its_deadline_has_passed_and_not_while_it_is_moved() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::Runs])]);
    let mut far = Far::new(&stage, &["START.sh"]);
    let step = far.launch();
    hosting(&stage, |orders, reports| {
        // The first deadline is moved before it passes: both orders wait for the host together. The second has passed
        // when it is set.
        let patience = Duration::from_secs(3);
        orders.send(Order::Start(far.hosted(&step, patience)));
        orders.send(Order::Extend { id: step.clone(), patience: LONG });
        let early = reports.recv_timeout(patience + Duration::from_secs(1));
        assert!(early.is_err(), "ended although its deadline was moved: {early:?}");
        orders.send(Order::Extend { id: step.clone(), patience: Duration::ZERO });
        let inputs = far.take(reports.recv().unwrap());
        let [Input::Ended { conclusion: Conclusion::Again { why, .. }, .. }] = &inputs[..] else {
            panic!("{inputs:?}");
        };
        assert_eq!(*why, Again::Interrupted);
    });
}

#[test]
fn host_without_orders_keeps_its_steps_until_a_successor_takes_them_over() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::Runs])]);
    let mut far = Far::new(&stage, &["START.sh"]);
    let step = far.launch();
    let launches = stage.memory.launches();
    let (state_dir, runner) = (stage.state_dir(), Runner::memory(stage.memory.clone()));
    let flow = stage.folder.path().join("flow");
    let engine = stage.engine();
    let (host, orders) = engine.host(&id(), IDENTITY, &flow).unwrap();
    orders.send(Order::Start(far.hosted(&step, LONG)));
    drop(orders);
    let (far, step, flow) = (&far, &step, &*flow);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            launches.recv().unwrap();
            let agents = Agents::new(Vec::new());
            hosting_by(&testing::engine(state_dir, runner, &agents), flow, |orders, reports| {
                orders.send(Order::Start(far.hosted(step, LONG)));
                orders.send(Order::End(step.clone()));
                assert!(matches!(reports.recv().unwrap(), Report::Ended { .. }));
            });
        });
        let mut report = |report| panic!("the first host reports {report:?}");
        host.run(&mut report, &mut Recorder::default()).unwrap();
    });
    assert_eq!(stage.launches(), 1);
}

#[test]
fn preparation_uses_the_directories_of_the_host() {
    let stage = Stage::new(&["START.sh"], []);
    let far = Far::new(&stage, &["START.sh"]);
    hosting(&stage, |orders, reports| {
        let run = Box::new(far.run.excerpt(&AgentId::main()));
        let (agent, fresh) = (AgentId::main(), SessionId::new("f"));
        orders.send(Order::Prepare { run, agent, fresh, mapping: None });
        let Report::Prepared(input) = reports.recv().unwrap() else { panic!() };
        assert!(matches!(*input, Input::Prepared { prepared: Ok(_), .. }), "{input:?}");
    });
}

/// A coding agent that has lost its sessions, and whose sessions can move or not.
struct Mover {
    can_move: bool,
}

impl CodingAgent for Mover {
    fn name(&self) -> &'static str {
        "mover"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    fn command(&self, _: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        let message = "no such session".to_owned();
        Err(TurnFailure { class: FailureClass::SessionMissing, message })
    }

    fn outcome(&self, _: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        panic!("no turn is started")
    }

    fn session_parts(&self, session: &SessionId, cwd: &str) -> Option<Vec<SessionPart>> {
        let path = format!("/{session}{cwd}").into();
        self.can_move.then(|| vec![SessionPart { name: "t".to_owned(), path }])
    }
}

#[test]
fn sessions_of_a_turn_are_located_and_those_that_cannot_move_are_not() {
    let stage = Stage::new(&["START.md"], []);
    let mut far = Far::new(&stage, &["START.md"]);
    let step = far.launch();
    let agent = far.run.agents.get_mut(&AgentId::main()).unwrap();
    "/w".clone_into(&mut agent.cwd);
    let Phase::Running { step: running, .. } = &mut agent.phase else { panic!() };
    let Action::Turn(turn) = &mut running.action else { panic!() };
    let (from, id) = (SessionId::new("from"), SessionId::new("own"));
    turn.session = SessionPlan::Branch { from, id, cwd: Some("/caller".to_owned()) };
    let paths = |agents: &Agents, mapping: Option<Mapping>| {
        let runner = Runner::memory(stage.memory.clone());
        let engine = testing::engine(stage.state_dir(), runner, agents);
        let mut paths = Vec::new();
        hosting_by(&engine, &stage.folder.path().join("flow"), |orders, reports| {
            let run = Box::new(far.run.excerpt(&AgentId::main()));
            orders.send(Order::Locate { id: step.clone(), run, mapping });
            let Report::Located { sessions, .. } = reports.recv().unwrap() else { panic!() };
            let parts = sessions.into_iter().flat_map(|place| place.parts);
            paths.extend(parts.map(|part| part.path.to_str().unwrap().to_owned()));
        });
        paths
    };
    let movers = Agents::new(vec![Box::new(Mover { can_move: true })]);
    assert_eq!(paths(&movers, None), ["/own/w", "/from/caller"]);
    let mapping = Mapping { logical: "/w".to_owned(), real: "/here".to_owned() };
    assert_eq!(paths(&movers, Some(mapping)), ["/own/here", "/from/caller"]);
    assert!(paths(&Agents::new(Vec::new()), None).is_empty());
}

#[test]
fn turn_without_its_session_says_what_to_do_if_sessions_cannot_move() {
    for can_move in [true, false] {
        let stage = Stage::new(&["START.md"], []);
        let mut far = Far::new(&stage, &["START.md"]);
        let step = far.launch();
        let agents = Agents::new(vec![Box::new(Mover { can_move })]);
        let runner = Runner::memory(stage.memory.clone());
        let engine = testing::engine(stage.state_dir(), runner, &agents);
        hosting_by(&engine, &stage.folder.path().join("flow"), |orders, reports| {
            orders.send(Order::Start(far.hosted(&step, LONG)));
            let Report::Ended { inputs, .. } = reports.recv().unwrap() else { panic!() };
            let text = format!("{inputs:?}");
            assert!(text.contains("no such session"), "{text}");
            assert_eq!(text.contains("in a directory that all workers share"), !can_move, "{text}");
        });
    }
}
