//! Version 1 of the records, the intent of a step and the parts of a state file.
//!
//! Frozen: a field may be added if it has a default, and nothing is renamed, removed or given another
//! meaning. The types of the same name in [`machine`] and [`policy`] say what each name means. All records of
//! one decision are atomic: the journal writes them as one line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::convert::{Convert, mirror};
use crate::{
    id::{AgentId, RunId, SessionId, StateName},
    machine::{self, Message, Tokens, UsageWindow},
    money::Usd,
    payload::Payload,
    policy,
    source::{self, Timeout},
    tag::TagKind,
};

mirror! {
    #[serde(rename_all = "snake_case")]
    enum machine::Record {
        Started(Box<Started>),
        Intended { agent: AgentId, step: Box<Step> },
        Queued { agent: AgentId },
        Called { agent: AgentId },
        Ended { agent: AgentId, number: u32, spent: Spent },
        Followed {
            agent: AgentId,
            transition: Transition,
            via: Via,
            #[serde(default, skip_serializing_if = "is_default")]
            session: Option<SessionId>,
            #[serde(default, skip_serializing_if = "is_default")]
            workers: Vec<AgentId>,
            #[serde(default, skip_serializing_if = "is_default")]
            discarded_returns: usize,
        },
        Joined { agent: AgentId, workers: Vec<Taken> },
        Placed { agent: AgentId },
        WorktreeMade { agent: AgentId, worktree: Box<Worktree>, cwd: String },
        WorktreeSaved { agent: AgentId, saved: SavedWork },
        Overridden {
            agent: AgentId,
            asked: Transition,
            source: Source,
            #[serde(default, skip_serializing_if = "is_default")]
            session: Option<SessionId>,
            by: Overrider,
            instead: Instead,
        },
        Asked {
            agent: AgentId,
            number: u32,
            question: Box<Question>,
            via: Via,
            #[serde(default, skip_serializing_if = "is_default")]
            session: Option<SessionId>,
        },
        Answered { agent: AgentId, number: u32, response: Box<Response> },
        Told { agent: AgentId, message: Message },
        Heard { agent: AgentId, messages: Vec<String> },
        Reminded { agent: AgentId, problem: String, work: Work },
        Evaluating { agent: AgentId, evaluation: Box<Evaluation> },
        Retried {
            agent: AgentId,
            why: String,
            counts_as: CountsAs,
            delay_ms: u64,
            #[serde(default, skip_serializing_if = "is_default")]
            left: Option<Left>,
        },
        Woke { agent: AgentId },
        Failed {
            agent: AgentId,
            error: String,
            #[serde(default, skip_serializing_if = "is_default")]
            class: Option<FailureClass>,
            work: Work,
            #[serde(default, skip_serializing_if = "is_default")]
            left: Option<Left>,
            #[serde(default, skip_serializing_if = "is_default")]
            loses_session: bool,
        },
        Halted { why: Halt },
        UsageLimited { resets_at: Option<u64> },
        AgentStopped {
            coding_agent: String,
            why: String,
            #[serde(default, skip_serializing_if = "is_default")]
            resets_at: Option<u64>,
        },
        UsageLimitLifted,
        Finished { status: Status },
        Resumed { settings: Settings, limits: Limits },
        LimitsChanged { limits: Limits },
        Rewound {
            from: RunId,
            #[serde(default, skip_serializing_if = "is_default")]
            step: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            sessions: BTreeMap<SessionId, SessionId>,
        },
    }

    struct machine::Taken {
        agent: AgentId,
        born: u64,
    }

    struct machine::Worktree {
        path: String,
        branch: String,
        repository: String,
        base: String,
        #[serde(default, skip_serializing_if = "is_default")]
        head: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        problem: Option<String>,
    }

    struct machine::SavedWork {
        #[serde(default, skip_serializing_if = "is_default")]
        head: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        problem: Option<String>,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Leave {
        Ended { payload: Payload },
        Failed {
            error: String,
            #[serde(default, skip_serializing_if = "is_default")]
            class: Option<FailureClass>,
            work: Work,
        },
    }

    struct machine::Started {
        workflow_id: RunId,
        scope_dir: String,
        entry: StateName,
        cwd: String,
        started_at_ms: u64,
        #[serde(default, skip_serializing_if = "is_default")]
        input: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        metadata: BTreeMap<String, String>,
        settings: Settings,
        limits: Limits,
        #[serde(default, skip_serializing_if = "is_default")]
        identity: String,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Via {
        Tag,
        Implicit,
        Evaluator,
        Visits,
        Answer,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Overrider {
        Limit(Limit),
        Match { pattern: String },
        Prompt { prompt: String },
        Visits { max_visits: u32 },
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Instead {
        Follow(Transition),
        Stop,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Limit {
        Budget { spent_usd: Usd, budget_usd: Usd },
        Iterations { max_iterations: u64 },
    }

    #[serde(rename_all = "lowercase")]
    enum machine::CountsAs {
        Retry,
        Loss,
        Nothing,
    }

    #[serde(rename_all = "snake_case")]
    enum machine::Halt {
        ScriptFailed { agent: AgentId },
        Limit(Limit),
        Interrupted,
        UsageLimit { resets_at: Option<u64> },
        DiskLow { free_bytes: u64 },
        Asks,
        Cancelled,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Status {
        Running,
        Completed,
        Failed,
        Stopped,
        Paused,
        Cancelled,
    }

    struct machine::UsageLimit {
        resets_at: Option<u64>,
    }

    struct machine::Settings {
        #[serde(default, skip_serializing_if = "is_default")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        effort: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        timeout: Option<Timeout>,
        #[serde(default, skip_serializing_if = "is_default")]
        agent: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        skip_permissions: bool,
        #[serde(default)]
        on_usage_limit: OnUsageLimit,
        #[serde(default, skip_serializing_if = "is_default")]
        usage_max: Option<u32>,
        #[serde(default, skip_serializing_if = "is_default")]
        on_ask: OnAsk,
        #[serde(default, skip_serializing_if = "is_default")]
        failover: Failover,
    }

    #[derive(Default)]
    struct machine::Failover {
        order: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        handoff: bool,
    }

    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    enum machine::OnAsk {
        #[default]
        Wait,
        Pause,
        Default,
        Fail,
    }

    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    enum machine::OnUsageLimit {
        #[default]
        Wait,
        Pause,
    }

    struct machine::Limits {
        budget_usd: Option<Usd>,
        max_iterations: Option<u64>,
        max_parallel: u32,
        max_reminders: u32,
        max_retries: u32,
        #[serde(default = "retry_for_default", skip_serializing_if = "is_retry_for_default")]
        retry_for_ms: u64,
        max_attempts: u32,
    }

    struct machine::Step {
        number: u32,
        state: StateName,
        #[serde(default, skip_serializing_if = "is_default")]
        digest: Option<String>,
        attempt: u32,
        action: Action,
    }

    #[expect(clippy::large_enum_variant, reason = "a step is always in a box")]
    #[serde(rename_all = "lowercase")]
    enum machine::Action {
        Script { timeout: Timeout },
        Turn(Turn),
    }

    struct machine::Turn {
        session: SessionPlan,
        settings: TurnSettings,
        #[serde(default, skip_serializing_if = "is_default")]
        policy: Policy,
        prompt_digest: String,
        #[serde(default, skip_serializing_if = "is_default")]
        recovers: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        spent_share: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        stand_in: Option<StandIn>,
        #[serde(default, skip_serializing_if = "is_default")]
        given: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        budget_usd: Option<Usd>,
    }

    struct machine::StandIn {
        of: String,
        #[serde(default, skip_serializing_if = "is_default")]
        handoff_from: Option<SessionId>,
    }

    struct machine::TurnSettings {
        #[serde(default, skip_serializing_if = "is_default")]
        agent: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        effort: Option<String>,
        timeout: Timeout,
        #[serde(default, skip_serializing_if = "is_default")]
        skip_permissions: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        tools: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "is_default")]
        permissions: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        granted: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        budget_usd: Option<Usd>,
        #[serde(default, skip_serializing_if = "is_default")]
        options: TurnOptions,
    }

    #[derive(Default)]
    #[serde(default)]
    struct source::TurnOptions {
        #[serde(skip_serializing_if = "is_default")]
        fallback_model: Vec<String>,
        #[serde(skip_serializing_if = "is_default")]
        max_turns: Option<u32>,
        #[serde(skip_serializing_if = "is_default")]
        system: Option<String>,
        #[serde(skip_serializing_if = "is_default")]
        mcp: Option<Vec<String>>,
        #[serde(skip_serializing_if = "is_default")]
        add_dirs: Vec<String>,
        #[serde(skip_serializing_if = "is_default")]
        schema: Option<String>,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::SessionPlan {
        Fresh { id: SessionId },
        Resume { id: SessionId },
        Branch {
            from: SessionId,
            id: SessionId,
            #[serde(default, skip_serializing_if = "is_default")]
            cwd: Option<String>,
        },
    }

    struct machine::Spent {
        cost_usd: Usd,
        #[serde(default, skip_serializing_if = "is_default")]
        tokens: Tokens,
        #[serde(default, skip_serializing_if = "is_default")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        version: Option<String>,
        duration_ms: u64,
        #[serde(default, skip_serializing_if = "is_default")]
        denied: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        session: Option<SessionId>,
        #[serde(default, skip_serializing_if = "is_default")]
        output: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        heard: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        windows: Vec<UsageWindow>,
        #[serde(default, skip_serializing_if = "is_default")]
        doubt: Option<String>,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Phase {
        Ready { work: Work },
        Queued { work: Work, ticket: u64 },
        Called { work: Work },
        Running { work: Work, step: Box<Step> },
        Waiting { work: Work, delay_ms: u64 },
        Joining { join: Join },
        Parked { work: Work },
        Moving { work: Work },
        Leaving { leave: Leave },
        Asking { number: u32, question: Box<Question> },
        Held { asked: Transition, source: Source, limit: Limit },
        Failed {
            error: String,
            #[serde(default, skip_serializing_if = "is_default")]
            class: Option<FailureClass>,
            work: Work,
            #[serde(default, skip_serializing_if = "is_default")]
            passed: bool,
        },
    }

    struct machine::Worker {
        agent: AgentId,
        state: StateName,
        #[serde(default, skip_serializing_if = "is_default")]
        limit: Option<u32>,
        standing: Standing,
    }

    #[serde(rename_all = "snake_case")]
    enum machine::Standing {
        Parked,
        UnderWay,
        Failed { order: u64 },
        Ended {
            order: u64,
            #[serde(default, skip_serializing_if = "is_default")]
            attributes: BTreeMap<String, String>,
            result: Payload,
        },
    }

    #[serde(rename_all = "snake_case")]
    enum machine::FailureClass {
        Transient {
            #[serde(default, skip_serializing_if = "is_default")]
            retry_after_ms: Option<u64>,
        },
        UsageLimit { resets_at: Option<u64> },
        Budget,
        Authentication,
        Billing,
        UnknownModel,
        SessionMissing,
        NotInstalled,
        Misconfigured,
        NotUnderstood,
        PromptTooLong,
        AnswerTooLong,
        Refused,
        MaxTurns,
        BadOutput,
        Killed,
        TimedOut,
        Other,
    }

    #[serde(rename_all = "lowercase")]
    enum machine::Work {
        Enter,
        Rejudge(Box<Answer>),
        Remind(Box<Reminder>),
        Evaluate(Box<Evaluation>),
        Follow { transition: Box<Transition>, source: Source },
    }

    #[derive(Default)]
    #[serde(default)]
    struct machine::Tries {
        starts: u32,
        reminders: u32,
        retries: u32,
        losses: u32,
        #[serde(default, skip_serializing_if = "is_default")]
        waited_ms: u64,
        #[serde(skip_serializing_if = "is_default")]
        left: Option<Left>,
        #[serde(skip_serializing_if = "is_default")]
        spent_usd: Usd,
    }

    struct machine::Left {
        plan: SessionPlan,
        prompt_digest: String,
        #[serde(default, skip_serializing_if = "is_default")]
        spent_share: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        given: Vec<String>,
    }

    struct machine::Answer {
        text: String,
        session: SessionId,
    }

    struct machine::Visit {
        session: SessionId,
        settings: TurnSettings,
        #[serde(default, skip_serializing_if = "is_default")]
        policy: Policy,
    }

    struct machine::Reminder {
        visit: Visit,
        text: String,
    }

    struct machine::Evaluation {
        visit: Visit,
        output: String,
        transition: Transition,
        source: Source,
        index: usize,
        #[serde(default, skip_serializing_if = "is_default")]
        reminder: Option<(SessionId, String)>,
    }

    #[derive(Default)]
    struct policy::Policy {
        #[serde(default, skip_serializing_if = "is_default")]
        allowed: Vec<AllowedTransition>,
        #[serde(default, skip_serializing_if = "is_default")]
        evaluators: Vec<Evaluator>,
    }

    struct policy::AllowedTransition {
        tag: TagKind,
        #[serde(default, skip_serializing_if = "is_default")]
        target: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        attributes: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "is_default")]
        declared: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        many: bool,
    }

    #[serde(rename_all = "lowercase")]
    enum policy::Evaluator {
        Match { pattern: String, then: AllowedTransition },
        Prompt {
            prompt: String,
            #[serde(default, skip_serializing_if = "is_default")]
            model: Option<String>,
        },
    }

    #[serde(rename_all = "lowercase")]
    enum policy::Transition {
        Goto {
            target: StateName,
            #[serde(default, skip_serializing_if = "is_default")]
            input: Option<String>,
        },
        Reset {
            target: StateName,
            #[serde(default, skip_serializing_if = "is_default")]
            cd: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            input: Option<String>,
        },
        Call {
            target: StateName,
            #[serde(rename = "return")]
            return_to: StateName,
            #[serde(default, skip_serializing_if = "is_default")]
            cd: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            input: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            arguments: BTreeMap<String, String>,
        },
        Function {
            target: StateName,
            #[serde(rename = "return")]
            return_to: StateName,
            #[serde(default, skip_serializing_if = "is_default")]
            cd: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            model: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            input: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            arguments: BTreeMap<String, String>,
        },
        Fork { next: StateName, workers: Vec<Forked> },
        Join(Join),
        Ask(Box<Question>),
        Result { payload: Payload },
    }

    struct policy::Forked {
        target: StateName,
        #[serde(default, skip_serializing_if = "is_default")]
        cd: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        attributes: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "is_default")]
        limit: Option<u32>,
        #[serde(default, skip_serializing_if = "is_default")]
        worktree: Option<Box<WorktreePlan>>,
        #[serde(default, skip_serializing_if = "is_default")]
        input: Option<String>,
    }

    struct policy::WorktreePlan {
        #[serde(default, skip_serializing_if = "is_default")]
        name: Option<String>,
        repository: String,
        #[serde(default, skip_serializing_if = "is_default")]
        inside: String,
        commit: String,
    }

    struct policy::Join {
        target: StateName,
        #[serde(default, skip_serializing_if = "is_default")]
        count: Option<u32>,
        #[serde(default, skip_serializing_if = "is_default")]
        failed: OnFailed,
        #[serde(default, skip_serializing_if = "is_default")]
        input: Option<String>,
    }

    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    enum policy::OnFailed {
        #[default]
        Hold,
        Pass,
    }

    struct policy::Question {
        text: String,
        #[serde(default, skip_serializing_if = "is_default")]
        next: Option<StateName>,
        #[serde(default, skip_serializing_if = "is_default")]
        choices: Vec<Choice>,
        #[serde(default, skip_serializing_if = "is_default")]
        attach: Vec<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        timeout: Option<Timeout>,
        #[serde(default, skip_serializing_if = "is_default")]
        default: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        deadline_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "is_default")]
        continues: Option<Box<Visit>>,
        #[serde(default, skip_serializing_if = "is_default")]
        grants: Option<String>,
    }

    struct policy::Choice {
        label: String,
        target: StateName,
    }

    struct machine::Response {
        result: String,
        #[serde(default, skip_serializing_if = "is_default")]
        comment: String,
        #[serde(default, skip_serializing_if = "is_default")]
        files: Option<String>,
        by: String,
        how: String,
        at_ms: u64,
        #[serde(default, skip_serializing_if = "is_default")]
        attachments: Vec<Attachment>,
    }

    struct machine::Attachment {
        path: String,
        bytes: u64,
        sha256: String,
    }

    #[serde(rename_all = "lowercase")]
    enum policy::Source {
        Tag,
        Implicit,
        Answer,
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn retry_for_default() -> u64 {
    machine::RETRY_FOR_MS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_retry_for_default(ms: &u64) -> bool {
    *ms == machine::RETRY_FOR_MS
}
