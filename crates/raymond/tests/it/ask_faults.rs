//! Questions, joins and workers while processes are killed: no question is lost or asked twice, no answer lost or
//! followed twice, no result of a worker lost or handed over twice.
//!
//! Killed are the orchestrator and the processes with which people answer; `faults` and `recovery` have the rest.
//! How much is tried, and with which seed, is told there, too.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use raymond_engine::store::lock::RunLock;

use crate::{
    env::{Project, Ran, kill, wait_until},
    faults::{
        CALLS_MAX, Hit, START, Traced, can_trace, is_chosen, say, sweep, sweep_calls, wants_all,
    },
    recovery::Chance,
};

const PATIENCE: Duration = Duration::from_mins(1);

/// Everything at once: `main` forks two workers, one of which waits for the place of the other, asks, and joins
/// them one by one; both workers ask. Scripts of builtins only, which log that they ran and what they got.
fn asking(settings: &str) -> Project {
    let ask = |choices: &str| {
        format!(
            "<ask choices=\"{choices}\" timeout=\"9h\" default=\"go\" attach=\"plan.md\">Go?</ask>"
        )
    };
    let fork = "<fork next=\"A\" limit=\"1\">W</fork>";
    let states = [
        ("START", "", format!("{fork}{fork}")),
        ("A", "", ask("go=B|stop=D")),
        ("B", HEARD, "<join count=\"1\">C</join>".to_owned()),
        ("C", HANDED, "<join>D</join>".to_owned()),
        ("D", HANDED, "<result>all done</result>".to_owned()),
        ("W", "", ask("go=V")),
        ("V", HEARD, "<result>w</result>".to_owned()),
    ];
    let project = Project::new([]);
    for (name, does, tag) in states {
        let script = format!("echo \"$RAYMOND_AGENT_ID {name}\" >> log; {does}echo '{tag}'");
        project.write(&format!("flow/{name}.sh"), &script);
    }
    project.write("plan.md", "plan");
    project.write(".raymond/config.toml", settings);
    project
}

/// Writes down with which comment the agent's question was answered.
const HEARD: &str = "echo \"$RAYMOND_AGENT_ID.1 $RAYMOND_COMMENT\" >> heard; ";
/// Writes down what a join handed over.
const HANDED: &str = "echo \"$RAYMOND_RESULT\" >> handed; ";

const STEPS: [&str; 9] = [
    "main A",
    "main B",
    "main C",
    "main D",
    "main START",
    "main_w1 V",
    "main_w1 W",
    "main_w2 V",
    "main_w2 W",
];

const QUESTIONS: [&str; 3] = ["main.1", "main_w1.1", "main_w2.1"];

/// Checks a completed run: every step, question, answer and result once. Returns the comment of each answer.
fn is_whole(project: &Project, context: &str) -> BTreeMap<String, String> {
    let once: BTreeMap<_, _> = STEPS.map(|step| (step.to_owned(), 1)).into();
    assert_eq!(project.counts(), once, "{context}");
    let journal = project.read(".raymond/workflows/r.journal");
    let records = ["{\"asked\":{", "{\"answered\":{", "\"via\":\"answer\"", "{\"joined\":{"];
    let counts = records.map(|record| journal.matches(record).count());
    assert_eq!(counts, [3, 3, 3, 2], "{context}: {records:?}");
    let heard = project.lines("heard");
    let heard: Vec<_> = heard.iter().map(|line| line.split_once(' ').unwrap()).collect();
    let heard_by = |id: &str| heard.iter().filter(|(own, _)| *own == id).count();
    assert_eq!(QUESTIONS.map(heard_by), [1; 3], "{context}: {heard:?}");
    let mut workers = Vec::new();
    for (line, count) in project.lines("handed").iter().zip([1, 1]) {
        let handed: Vec<serde_json::Value> = serde_json::from_str(line).unwrap();
        assert_eq!(handed.len(), count, "{context}: {line}");
        assert!(handed.iter().all(|worker| worker["result"] == "w"), "{context}: {line}");
        workers.extend(handed.iter().map(|worker| worker["agent"].as_str().unwrap().to_owned()));
    }
    workers.sort();
    assert_eq!(workers, ["main_w1", "main_w2"], "{context}");
    heard.into_iter().map(|(id, comment)| (id.to_owned(), comment.to_owned())).collect()
}

/// The questions of the run that wait for an answer.
fn open(project: &Project) -> Vec<String> {
    let folder = |id: &str| project.file(&format!(".raymond/workflows/r/asks/{id}"));
    let is_open =
        |id: &&str| folder(id).join("question").exists() && !folder(id).join("answer").exists();
    QUESTIONS.iter().filter(|id| is_open(id)).map(|id| (*id).to_owned()).collect()
}

/// A person who answers every question, each time with a comment of its own.
struct Person<'p> {
    project: &'p Project,
    comments: u32,
    /// The answers that the program has confirmed.
    confirmed: BTreeMap<String, String>,
}

impl<'p> Person<'p> {
    fn new(project: &'p Project) -> Self {
        Self { project, comments: 0, confirmed: BTreeMap::new() }
    }

    /// Starts a process that answers question `id`.
    fn begin(&mut self, id: &str) -> Answering {
        self.comments += 1;
        let comment = format!("comment {}", self.comments);
        let child = self.project.spawn(&["answer", "r", id, "go", "--text", &comment]);
        Answering { child, id: id.to_owned(), comment }
    }

    /// Notes what became of an answer. A process that was killed may have confirmed it before.
    fn end(&mut self, answering: Answering, was_killed: bool) {
        let Answering { child, id, comment } = answering;
        let ran = Ran::of(&child.wait_with_output().unwrap());
        let is_confirmed = ran.stderr.contains(&format!("Question {id} is answered: go"));
        let is_refused = ran.stderr.contains("already answered by");
        assert!(is_confirmed || is_refused || was_killed, "{ran:?}");
        if is_confirmed {
            assert_eq!(self.confirmed.insert(id, comment), None, "two answers were confirmed");
        }
    }

    fn answer_all(&mut self) {
        for id in open(self.project) {
            let answering = self.begin(&id);
            self.end(answering, false);
        }
    }

    /// Answers what is asked until `child` has ended.
    fn attend(&mut self, child: &mut Child) {
        while child.try_wait().unwrap().is_none() {
            self.answer_all();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Resumes the run until it is completed, as often as that takes, and checks it.
    fn finish(mut self, context: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut child = begin(self.project);
            self.attend(&mut child);
            let ran = Ran::of(&child.wait_with_output().unwrap());
            assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
            if ran.code == 0 {
                assert_eq!(ran.stdout, "all done\n", "{context}");
                break;
            }
            assert!(Instant::now() < deadline, "{context}: the run is not completed: {ran:?}");
            // An answer may have started an orchestrator in the background.
            self.answer_all();
        }
        let heard = is_whole(self.project, context);
        for (id, comment) in self.confirmed {
            assert_eq!(heard[&id], comment, "{context}: a confirmed answer to {id} was lost");
        }
        self.project.wait_until_quiet();
    }
}

/// A process that answers a question.
struct Answering {
    child: Child,
    id: String,
    comment: String,
}

/// Starts or resumes the run: one whose orchestrator was killed before it wrote anything never began.
fn begin(project: &Project) -> Child {
    let began = project.read(".raymond/workflows/r.journal").contains('\n');
    project.spawn(if began { &["run", "r"] } else { &START })
}

/// Those that an orchestrator makes in a run that asks.
const CALLS: [&str; 14] = [
    "write",
    "fdatasync",
    "fsync",
    "ftruncate",
    "rename",
    "renameat2",
    "mkdir",
    "unlink",
    "sendto",
    "recvfrom",
    "socket",
    "connect",
    "clone3",
    "flock",
];

#[test]
fn orchestrator_killed_at_every_call_asks_and_joins_once_and_follows_each_answer_once() {
    let faults = CALLS.map(|call| format!("{call}:signal=SIGKILL"));
    let faults: Vec<_> = faults.iter().map(String::as_str).collect();
    let make = || asking("ask = \"default\"\n");
    let check = |project: &Project, _: &Ran, context: &str| drop(is_whole(project, context));
    sweep_calls("asking orchestrator killed", make, Hit::Orchestrator, &faults, 12, check);
}

#[test]
fn orchestrator_killed_at_every_call_while_people_answer_loses_no_answer() {
    if !can_trace() {
        return;
    }
    let project = asking("");
    let trace = format!("trace={}", CALLS.join(","));
    let mut traced = Traced::start(&project, Hit::Orchestrator, &["-e", &trace]);
    Person::new(&project).attend(&mut traced.strace);
    let (ran, most) = traced.wait();
    ran.completed("all done");
    let points = CALLS.iter().flat_map(|call| {
        // Some it makes only where it answers by itself.
        let count = most.get(*call).copied().unwrap_or(0).min(CALLS_MAX);
        (1..=count).map(move |number| (*call, number, number == count))
    });
    let points = points.filter(|(call, number, _)| is_chosen(&format!("{call} {number}"), 10));
    sweep("orchestrator killed while people answer", points.collect(), |point| {
        let (call, number, is_last) = point;
        let context = format!("{call} number {number}");
        let project = asking("");
        let mut person = Person::new(&project);
        let inject = format!("inject={call}:signal=SIGKILL:when={number}");
        let options = ["-e", &format!("trace={call}"), "-e", &inject];
        let mut traced = Traced::start(&project, Hit::Orchestrator, &options);
        person.attend(&mut traced.strace);
        let (_, most) = traced.wait();
        person.finish(&context);
        let was_met = most.get(call).is_some_and(|count| *count >= number);
        let goes_on = wants_all() && is_last && was_met && number < CALLS_MAX;
        (was_met, goes_on.then_some((call, number + 1, true)))
    });
}

/// `raymond answer` under `strace` with these options, with a file and a comment.
fn traced_answer(project: &Project, options: &[&str]) -> Ran {
    let mut strace = Command::new("strace");
    strace.arg("-qq").arg("-o").arg(project.file("strace.log")).args(options);
    strace.arg(env!("CARGO_BIN_EXE_raymond"));
    strace.args(["answer", "r", "main.1", "go", "--file", "plan.md", "--text", "first"]);
    strace.current_dir(project.path()).envs(project.user()).stdin(Stdio::null());
    Ran::of(&strace.output().unwrap())
}

/// Kills the process that answers the question of `main` at every call that it makes. With an orchestrator that
/// waits, or with none.
fn sweep_answers(name: &str, is_live: bool) {
    if !can_trace() {
        return;
    }
    let asked = || {
        let project = asking("");
        let child = if is_live {
            Some(project.spawn(&START))
        } else {
            let ran = project.raymond(&["start", "flow", "--id", "r", "--no-wait"]);
            assert_eq!(ran.code, 4, "{ran:?}");
            None
        };
        wait_until("it asks", PATIENCE, || open(&project).contains(&"main.1".to_owned()));
        (project, child)
    };
    let calls = ["write", "fsync", "renameat2", "rename", "mkdir", "unlink", "sendto", "flock"];
    let calls = [&calls[..], &["openat", "connect", "socket", "clone3"]].concat();
    let (project, child) = asked();
    traced_answer(&project, &["-e", &format!("trace={}", calls.join(","))]);
    let log = project.read("strace.log");
    let mut person = Person::new(&project);
    if let Some(mut child) = child {
        person.attend(&mut child);
    }
    person.finish(name);
    let points = calls.iter().flat_map(|call| {
        let count = log.matches(&format!("{call}(")).count().min(CALLS_MAX);
        (1..=count).map(move |number| (*call, number))
    });
    let points = points.filter(|(call, number)| is_chosen(&format!("{call} {number}"), 10));
    sweep(name, points.collect(), |(call, number)| {
        let context = format!("{name}: {call} number {number}");
        let (project, child) = asked();
        let inject = format!("inject={call}:signal=SIGKILL:when={number}");
        let first = traced_answer(&project, &["-e", &inject]);
        let answer = project.read(".raymond/workflows/r/asks/main.1/answer");
        let mut person = Person::new(&project);
        // Either it counts with all that belongs to it, or nothing of it is seen.
        if answer.contains("first") {
            person.confirmed.insert("main.1".to_owned(), "first".to_owned());
            let given: serde_json::Value = serde_json::from_str(&answer).unwrap();
            let file = PathBuf::from(given["files"].as_str().unwrap()).join("plan.md");
            assert_eq!(fs::read(file).unwrap(), b"plan", "{context}: its file came with it");
        } else {
            assert!(!first.stderr.contains("is answered"), "{context}: {first:?}");
        }
        if let Some(mut child) = child {
            person.attend(&mut child);
        }
        person.finish(&context);
        (first.code != 0, None)
    });
}

#[test]
fn process_that_answers_killed_at_every_call_leaves_the_question_open_or_answered_once() {
    sweep_answers("answering process killed", false);
}

#[test]
fn process_that_answers_a_live_run_killed_at_every_call_leaves_the_question_open_or_answered_once()
{
    sweep_answers("process that answers a live run killed", true);
}

/// Kills the orchestrator, one that an answer has started in the background, or the process that answers, at random
/// moments, until `kills` are used up.
fn storm(seed: u64, kills: u32) {
    let mut chance = Chance(seed);
    let (mut done, mut rounds) = (0, 0);
    while done < kills {
        let project = asking("");
        let mut person = Person::new(&project);
        let mut orchestrator = begin(&project);
        let mut answering: Option<Answering> = None;
        while done < kills {
            if answering.is_none()
                && let Some(id) = open(&project).first()
            {
                answering = Some(person.begin(id));
            }
            std::thread::sleep(Duration::from_micros(chance.below(60_000)));
            let mut victims = Vec::new();
            if let Some(status) = orchestrator.try_wait().unwrap() {
                if status.success() {
                    break;
                }
                orchestrator = begin(&project);
            } else {
                victims.push(orchestrator.id());
            }
            if let Some(mut ended) = answering.take_if(|it| it.child.try_wait().unwrap().is_some())
            {
                let was_killed = ended.child.wait().unwrap().code().is_none();
                person.end(ended, was_killed);
            }
            victims.extend(answering.iter().map(|it| it.child.id()));
            let owner = RunLock::holder(&project.file(".raymond/workflows/r.lock"));
            victims.extend(owner.map(|owner| owner.pid).filter(|pid| *pid != 0));
            if !victims.is_empty() {
                let victim = chance.below(victims.len() as u64);
                kill(victims[usize::try_from(victim).unwrap()], libc::SIGKILL);
                done += 1;
            }
        }
        if let Some(it) = answering {
            person.end(it, true);
        }
        person.attend(&mut orchestrator);
        person.finish(&format!("seed {seed}, {done} kills"));
        rounds += 1;
    }
    say(&format!("storm: {done} kills in {rounds} runs with questions, seed {seed}"));
}

#[test]
fn killed_at_random_moments_with_questions_joins_and_workers_nothing_happens_twice_or_is_lost() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("RAYMOND_STORM").and_then(|kills| u32::try_from(kills).ok()).unwrap_or(100);
    storm(number("RAYMOND_STORM_SEED").unwrap_or(20_261_117), kills);
}
