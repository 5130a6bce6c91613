//! The workflow language of Raymond, and the machine that interprets it.
//!
//! A workflow is a flat set of state files: markdown prompts, which a coding agent carries out, and
//! scripts, which run directly. Each state ends by emitting one transition tag. This crate knows
//! what all of that means. It touches nothing: no files, processes, clock, environment or
//! randomness. What it needs comes in as an argument or through [`World`](world::World), and what
//! it wants done goes out as an [`Effect`](machine::Effect).
//!
//! # One step, from left to right
//!
//! ```text
//!            turn::prepare                                turn::conclude
//!  Effect ─► resolve ─► read ─► render ─► (child runs) ─► parse tag ─► judge ─► Input
//!  Prepare   scope      source  prompt     the engine     tag          policy     │
//!     ▲                                                                           ▼
//!     └──────── perform ◄──── apply ◄──── append (the engine) ◄──── decide ◄──────┘
//!                             machine                               machine
//! ```
//!
//! # Suggested reading order
//!
//! 1. [`tag`]: the transition tags that an agent may emit.
//! 2. [`source`] and [`scope`]: what a state file declares, and which file a name refers to.
//! 3. [`policy`]: what a state allows, and the verdict on an answer.
//! 4. [`prompt`]: the text that an agent is given.
//! 5. [`turn`]: the two halves of a step that put these together.
//! 6. [`machine`]: the run, its seven transitions, and decide / apply / replay.
//! 7. [`formats`]: the version of what is on disk and between machines.
//! 8. [`view`]: everything else that is shown of a run.
//!
//! For authors of workflows: [`graph`], the states and transitions that the files declare, [`lint`],
//! which reports problems in them, and [`diagram`], which draws them.
//!
//! # A whole workflow, in memory
//!
//! ```
//! use raymond_flow::{
//!     id::{RunId, SessionId, StateName, StepId},
//!     machine::{Effect, Limits, Record, Run, Settings, Spent, Started, Status},
//!     machine::{apply, decide, settle, start},
//!     turn::{Outcome, conclude, prepare},
//!     world::MemoryWorld,
//! };
//!
//! let world = MemoryWorld::new([
//!     ("START.md", "Say where to go."),
//!     ("DONE.md", "Say what came of it."),
//! ]);
//! let mut replies = ["<goto>DONE</goto>", "<result>all is well</result>"].into_iter();
//!
//! let decision = start(Started {
//!     workflow_id: RunId::new("example-1").unwrap(),
//!     scope_dir: "/workflows/example".into(),
//!     identity: String::new(),
//!     state_dir: String::new(),
//!     entry: StateName::new("START.md"),
//!     cwd: "/project".into(),
//!     started_at_ms: 0,
//!     input: None,
//!     metadata: Default::default(),
//!     settings: Settings::default(),
//!     limits: Limits::default(),
//! });
//! let Record::Started(started) = &decision.records[0] else { unreachable!() };
//! let mut run = Run::new(started);
//! let mut wanted = decision.effects;
//!
//! while let Some(effect) = wanted.pop() {
//!     let input = match effect {
//!         Effect::Prepare { agent } => {
//!             prepare(&run, &agent, &world, SessionId::new("a-new-id")).input
//!         }
//!         Effect::Launch { id, .. } => {
//!             let text = replies.next().unwrap().to_owned();
//!             conclude(&run, &id, Outcome::Reply { text }, Spent::default(), &world)
//!         }
//!         other => panic!("this workflow never wants {other:?}"),
//!     };
//!     let mut decision = decide(&run, input);
//!     while !decision.is_empty() {
//!         for record in &decision.records {
//!             apply(&mut run, record).unwrap();
//!         }
//!         wanted.extend(decision.effects);
//!         decision = settle(&run);
//!     }
//! }
//! assert_eq!(run.status, Status::Completed);
//! assert_eq!(run.result.as_ref().and_then(|it| it.as_text()), Some("all is well"));
//! ```

#![forbid(unsafe_code)]
// A new tag, record or phase must be led by the compiler to every place that tells its kind apart.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod coding_agent;
pub mod diagram;
pub mod formats;
pub mod graph;
pub mod id;
pub mod lint;
pub mod machine;
pub mod money;
pub mod one_file;
pub mod payload;
mod platform;
pub mod policy;
pub mod prompt;
pub mod scope;
pub mod source;
pub mod tag;
pub mod text;
pub mod turn;
pub mod view;
pub mod world;
