//! What programs see of a run, by `raymond status --json` and from the server: each struct once, with the meaning of its
//! fields. The schemas of `docs/api.openapi.json` and the types of the page are made from these, and from those of the
//! read model (`tests/documents.rs`).

use std::collections::BTreeMap;

use raymond_flow::{
    id::{AgentId, StateName},
    money::Usd,
    shown,
    view::{Account, Came, Shape, Shaped},
};
use serde::Serialize;
use serde_json::Value;

use super::row::Group;

/// The status of a run in a word.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct StatusWord(pub(super) String);

impl Shaped for StatusWord {
    fn shape() -> Shape {
        Shape::OneOf(&[
            "running",
            "died",
            "completed",
            "failed",
            "stopped",
            "paused",
            "cancelled",
            "unreadable",
            "foreign",
        ])
    }
}

impl Shaped for Group {
    fn shape() -> Shape {
        Shape::OneOf(&["needs_you", "running", "waiting", "ended"])
    }
}

shown! {
    /// A run in a list, and at the head of its whole view.
    #[derive(Default)]
    struct Row {
        /// The id of the run.
        run: String,
        /// Its status in a word: `died` if it should be running, but no orchestrator runs it.
        status: StatusWord,
        /// Where it stands in a list.
        group: Group,
        /// The path of its workflow.
        workflow: Option<String>,
        /// The last part of that.
        name: Option<String>,
        /// When it began.
        started_at: Option<u64>,
        /// When its last decision was made.
        last_at: Option<u64>,
        /// Since when it needs you or waits.
        waiting_since: Option<u64>,
        /// How many agents it has.
        agents: Option<usize>,
        /// How many steps have ended.
        steps: Option<u64>,
        /// How many states were entered.
        states_entered: Option<u64>,
        /// How many may be.
        max_iterations: Option<u64>,
        /// What it has cost.
        total_cost_usd: Option<Usd>,
        /// What it may cost.
        budget_usd: Option<Usd>,
        /// The agent with the latest activity, if one runs.
        now: Option<Now>,
        /// Why it needs you or waits, in a sentence.
        why: Option<String>,
        /// Why nothing new starts, in a sentence.
        halted: Option<String>,
        /// The same for programs.
        halt: Option<Value>,
        /// While all agents wait for the provider's usage limit.
        usage_limit: Option<Limited>,
        /// The coding agents for which others stand in.
        stopped_agents: Vec<Stopped>,
        /// How many uses of tools were not allowed.
        denied: u64,
        /// Its open questions, without attachments and markdown.
        asks: Vec<Ask>,
        /// The beginning of its result; in the view of the run, the whole of it.
        result: Option<String>,
        /// Why it cannot be read.
        error: Option<String>,
        added:
        /// The key of its project.
        project: String,
        /// The key of its workflow, if that can be started.
        workflow_key: Option<String>,
    }

    /// A usage limit.
    struct Limited {
        /// When it is lifted, in seconds since 1970.
        resets_at: Option<u64>,
    }

    /// A coding agent whose provider is not available.
    struct Stopped {
        /// Its name.
        coding_agent: String,
        /// When it is available again, in seconds since 1970.
        resets_at: Option<u64>,
    }

    /// What an agent is doing.
    struct Now {
        /// The agent.
        agent: AgentId,
        /// Its state.
        state: StateName,
        /// What it does, in a word.
        phase: &'static str,
        /// Since when.
        since: Option<u64>,
        /// What its coding agent did last.
        activity: Option<String>,
        /// When its turn printed last, to ten seconds.
        heard_at: Option<u64>,
    }

    /// A question to a person.
    struct Ask {
        /// Its id, as `main.1`.
        ask: String,
        /// The agent that asks.
        agent: AgentId,
        /// The state that asks.
        state: StateName,
        /// Its text; in a row, the beginning.
        question: String,
        /// Whether that is all of it.
        is_whole: bool,
        /// The answers to choose from.
        choices: Vec<Choice>,
        /// Where a free text leads.
        next: Option<StateName>,
        /// When it was asked.
        asked_at: u64,
        /// When it is answered by itself.
        deadline: Option<u64>,
        /// The answer then.
        default: Option<String>,
        added:
        /// The key of its project.
        project: String,
        /// Its run.
        run: String,
        /// The name of its workflow.
        name: Option<String>,
    }

    /// An answer to choose.
    struct Choice {
        /// What it says.
        label: String,
        /// The state to which it leads.
        to: StateName,
    }

    /// A run but for its agents: its row, and more.
    struct Run: Row {
        /// The position in the journal up to which this is true.
        offset: u64,
        /// Tells the run from any other with the same id.
        identity: String,
        /// The working directory of `main`.
        cwd: Option<String>,
        /// The first state.
        entry: Option<StateName>,
        /// The input of the first state.
        input: Option<String>,
        /// Variables for all prompts.
        metadata: BTreeMap<String, String>,
        /// As in `docs/events.md`.
        settings: Value,
        /// Likewise.
        limits: Value,
        /// The coding agents that took its turns, with their versions, as `claude 2.1.326`.
        coding_agents: Vec<String>,
        /// How much of their providers' limits its coding agents have reported as used.
        usage_windows: Vec<UsageWindow>,
        /// The length of a result of which only the beginning is there.
        result_bytes: Option<u64>,
        /// The process that runs it.
        orchestrator: Option<Orchestrator>,
        /// When it ended.
        ended_at: Option<u64>,
        /// How many agents have ever existed.
        agents_born: u64,
        /// The changes that make sense now: `stop`, `resume`, `cancel`, `limits`, `tell`.
        can: Vec<&'static str>,
        /// Why the rest of it cannot be read.
        problem: Option<String>,
        added:
        /// The command to type next.
        next: Option<String>,
    }

    /// What `raymond status --json` prints.
    struct StatusReport {
        /// The id of the run.
        run: String,
        /// Its status in a word, as in a row.
        status: StatusWord,
        /// The path of its workflow.
        workflow: String,
        /// The coding agents that took its turns, with their versions, as `claude 2.1.326`.
        coding_agents: Vec<String>,
        /// When it began.
        started_at: u64,
        /// When its last decision was made.
        last_at: Option<u64>,
        /// What it has cost.
        total_cost_usd: Usd,
        /// What it may cost.
        budget_usd: Option<Usd>,
        /// How many states were entered.
        states_entered: u64,
        /// How many may be.
        max_iterations: Option<u64>,
        /// Why nothing new starts, in a sentence.
        halted: Option<String>,
        /// While all agents wait for the provider's usage limit.
        usage_limit: Option<Limited>,
        /// The coding agents for which others stand in.
        stopped_agents: Vec<Stopped>,
        /// How much of their providers' limits its coding agents have reported as used.
        usage_windows: Vec<UsageWindow>,
        /// Its result.
        result: Option<String>,
        /// The agents that have not ended, by birth.
        agents: Vec<Agent>,
        added:
        /// The command to type next.
        next: Option<String>,
    }

    /// How much of a provider's limit is used.
    struct UsageWindow {
        /// The coding agent that reported it.
        coding_agent: String,
        /// The window, as the coding agent names it.
        window: String,
        /// The same for people.
        label: String,
        /// How much of it is used.
        used_percent: u32,
        /// When it begins again, in seconds since 1970.
        resets_at: Option<u64>,
    }

    /// The process that runs a run.
    struct Orchestrator {
        /// Its id.
        pid: u32,
        /// Since when it runs the run.
        since: u64,
    }

    /// An agent, also one that has ended.
    struct Agent {
        /// Its name.
        agent: AgentId,
        /// The agent that forked it.
        parent: Option<AgentId>,
        /// Birth order, from 0.
        born: u64,
        /// Its state, or its last one.
        state: Option<StateName>,
        /// What it does, in a word.
        phase: &'static str,
        /// Why it failed.
        error: Option<String>,
        /// The number of its running step.
        step: Option<u32>,
        /// Since when it does what it does.
        since: u64,
        /// When its turn printed last, to ten seconds.
        heard_at: Option<u64>,
        /// The tool that its coding agent uses.
        tool: Option<String>,
        /// What its coding agent did last.
        activity: Option<String>,
        /// What it has cost.
        cost_usd: Option<Usd>,
        /// How many steps it has started.
        steps: Option<u32>,
        /// The states of pending returns, the next one first.
        returns_to: Vec<StateName>,
        /// The variables that it was forked with.
        attributes: BTreeMap<String, String>,
        /// Where its children run.
        cwd: Option<String>,
        /// The session that its next prompt continues.
        session: Option<String>,
        /// Until when it waits before it tries again.
        waits_until: Option<u64>,
        /// Why.
        waits_why: Option<String>,
        /// Its last transition.
        came: Option<Came>,
        /// Whether it has ended.
        is_ended: bool,
        /// When.
        ended_at: Option<u64>,
        /// The beginning of its result.
        result: Option<String>,
        /// While it joins, how far the workers are that it waits for.
        workers: Option<Workers>,
        /// How many uses of tools were not allowed.
        denied: u64,
        /// The position in the journal up to which this is true.
        offset: u64,
        /// Its worktree.
        worktree: Option<Worktree>,
    }

    /// How far a join is.
    struct Workers {
        /// How many workers have ended.
        ended: usize,
        /// How many there are.
        all: usize,
    }

    /// The worktree of a worker.
    struct Worktree {
        /// Its directory.
        path: String,
        /// Its branch.
        branch: String,
        /// The commit from which it was made.
        base: String,
        /// The last commit of its branch.
        head: Option<String>,
        /// Why something is not committed.
        problem: Option<String>,
    }

    /// The bars of a timeline.
    struct Timeline {
        /// When it begins.
        from: u64,
        /// When it ends.
        to: u64,
        /// One for each agent.
        lanes: Vec<Lane>,
        /// How many agents have none.
        lanes_left_out: usize,
    }

    /// The steps of an agent.
    struct Lane {
        /// The agent.
        agent: AgentId,
        /// The agent that forked it.
        parent: Option<AgentId>,
        /// Birth order, from 0.
        born: Option<u64>,
        /// Whether it has ended.
        is_ended: bool,
        /// Its steps.
        bars: Vec<Bar>,
    }

    /// A step, or neighbours that would be too short to be seen.
    struct Bar {
        /// The first of them.
        step: String,
        /// How many.
        steps: u64,
        /// When the first began.
        from: u64,
        /// When the last ended.
        to: Option<u64>,
        /// The state of the first.
        state: StateName,
        /// `turn` or `script`.
        kind: &'static str,
        /// What they cost.
        cost_usd: Usd,
        /// What came of the first, in a word.
        end: Option<&'static str>,
    }

    /// What a run cost.
    struct Cost {
        /// All of it.
        total: Account,
        /// By state.
        by_state: Vec<NamedAccount>,
        /// By model.
        by_model: Vec<NamedAccount>,
        /// By version of the coding agent.
        by_version: Vec<NamedAccount>,
        /// By agent.
        by_agent: Vec<NamedAccount>,
    }

    /// The steps of one state, model, version or agent.
    struct NamedAccount: Account {
        /// Which.
        name: String,
    }
}
