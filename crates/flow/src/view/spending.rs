//! Where the tokens of a run went: by frame and state, what was read again, and what each `goto` carries along.
//!
//! A journal says what a turn cost and how many tokens of each kind it used, over all its model requests. What follows
//! from that is computed, not measured:
//!
//! * The cost of a turn is divided among its tokens in the ratio of list prices: written by the model 5, written to the
//!   cache 1.25, read without the cache 1, read from the cache 0.1. The parts add up to what was paid.
//! * What a session contains is the sum of what its turns read without the cache and wrote to it; a branch begins with
//!   what the session has that it starts from.
//! * What a `goto` carries is that sum when it is followed. Of what a later turn reads from the cache, the carried part is
//!   in proportion to what the session has at the end of that turn.
//! * That part is what a `reset` would save at most. A fresh session reads the system prompt and the tools again, which
//!   the records do not tell apart, and the agent may have to find out again what it forgot. What a turn writes to the
//!   cache again, because the cache has expired, is not counted.

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, SessionId, StateName},
    machine::{SessionPlan, Spent, Tokens},
    money::Usd,
};

use super::Account;

/// What tokens of each kind cost, in units of one that is read without the cache.
const WRITTEN: f64 = 5.0;
const CACHED: f64 = 1.25;
const CACHE_READ: f64 = 0.1;

/// What some turns cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// Their number, cost and tokens.
    pub account: Account,
    /// How many of them continued or branched a session.
    pub continued: u64,
    /// The part of the cost for what was read from the cache: what earlier requests had already read.
    pub read_again_usd: Usd,
}

/// A `goto` from one state to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// The state that was left.
    pub from: StateName,
    /// The state that was entered.
    pub to: StateName,
}

/// What a `goto` carries along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// How often it was followed.
    pub times: u64,
    /// The most tokens that it carried.
    pub tokens: u64,
    /// What it cost to read them again in all turns after it: what a `reset` would save at most, if it alone were one.
    pub saves_usd: Usd,
}

/// Where the tokens went.
#[derive(Clone, Debug, Default)]
pub struct Spendings {
    /// All turns.
    pub total: Spending,
    /// By state.
    pub by_state: BTreeMap<StateName, Spending>,
    /// By frame: an agent, and the calls and functions that it was in.
    pub by_frame: BTreeMap<(AgentId, Vec<StateName>), Spending>,
    carried: BTreeMap<Way, Carried>,
    sessions: BTreeMap<SessionId, Context>,
}

/// What a session contains.
#[derive(Clone, Debug, Default)]
struct Context {
    tokens: u64,
    /// For each `goto`, what the session contained when it was last followed.
    marks: BTreeMap<Way, u64>,
}

impl Spendings {
    /// What each `goto` carries, the dearest first. Only those outside of calls and functions: a `reset` inside would
    /// discard the return.
    pub fn carried(&self) -> Vec<(&Way, &Carried)> {
        let mut carried: Vec<_> = self.carried.iter().collect();
        carried.sort_by_key(|(_, one)| std::cmp::Reverse((one.saves_usd, one.tokens)));
        carried
    }

    /// Adds a turn of an agent in a state, within these calls and functions, that has ended.
    pub(super) fn add(
        &mut self,
        (agent, calls): (&AgentId, &[StateName]),
        state: &StateName,
        plan: &SessionPlan,
        spent: &Spent,
    ) {
        let mut context = match plan {
            SessionPlan::Fresh { .. } => Context::default(),
            SessionPlan::Resume { id } | SessionPlan::Branch { from: id, .. } => {
                self.sessions.get(id).cloned().unwrap_or_default()
            }
        };
        let Tokens { input, cache_write, .. } = spent.tokens;
        let is_fresh = matches!(plan, SessionPlan::Fresh { .. });
        context.tokens = context.tokens.saturating_add(input).saturating_add(cache_write);
        let read_usd = read_again(spent);
        let frame = (agent.clone(), calls.to_vec());
        let (by_state, by_frame) = (&mut self.by_state, &mut self.by_frame);
        let places =
            [by_state.entry(state.clone()).or_default(), by_frame.entry(frame).or_default()];
        for spending in places.into_iter().chain([&mut self.total]) {
            spending.account.add(spent);
            spending.continued += u64::from(!is_fresh);
            spending.read_again_usd += Usd::from_dollars(read_usd).unwrap_or_default();
        }
        for (way, mark) in &context.marks {
            let saves = Usd::from_dollars(read_usd * ratio(*mark, context.tokens));
            self.carried.entry(way.clone()).or_default().saves_usd += saves.unwrap_or_default();
        }
        let session = spent.session.as_ref().unwrap_or_else(|| plan.id());
        self.sessions.insert(session.clone(), context);
    }

    /// A `goto` outside of calls and functions was followed, in this session.
    pub(super) fn carry(&mut self, session: &SessionId, from: &StateName, to: &StateName) {
        let Some(context) = self.sessions.get_mut(session) else { return };
        let way = Way { from: from.clone(), to: to.clone() };
        let carried = self.carried.entry(way.clone()).or_default();
        carried.times += 1;
        carried.tokens = carried.tokens.max(context.tokens);
        context.marks.insert(way, context.tokens);
    }
}

/// The part of the cost that was paid for reading from the cache.
fn read_again(spent: &Spent) -> f64 {
    let Tokens { input, output, cache_read, cache_write } = spent.tokens;
    let read = number(cache_read) * CACHE_READ;
    let all = number(input) + number(output) * WRITTEN + number(cache_write) * CACHED + read;
    if read > 0.0 { spent.cost_usd.dollars() * read / all } else { 0.0 }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { number(part) / number(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "exact far beyond the tokens of any run")]
fn number(tokens: u64) -> f64 {
    tokens as f64
}
