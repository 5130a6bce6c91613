//! All settings but those of coding agents, in one table: from it come the options of the command line, the environment variables, the
//! file that `raymond init` writes, what `raymond config` shows, and the table of the manual.

use std::str::FromStr;

use raymond_flow::{machine::OnAsk, money::Usd, source::Timeout, text::looks_like_an_option};

use super::Overrides;
use crate::notify::OCCASIONS;

/// A value as a file, a variable or an option has it.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    One(String),
    Many(Vec<String>),
    /// Neither a value nor a list of texts.
    Other,
}

/// Where a setting can be given besides files and the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nowhere.
    File,
    /// As an option of commands that start or resume a run.
    Run,
    /// Also as an option of `raymond limit`.
    Limit,
}

/// A setting.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// The value if it is not set.
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    pub(crate) scope: Scope,
    /// What its value is called on the command line, or all values with `|` between them; empty for a switch.
    pub(crate) value: &'static str,
    /// Whether this value in a project, in place of the user's own, could start a program, spend more than the user would, or answer for
    /// the user.
    pub(crate) gives_power: fn(own: &str, value: &str) -> bool,
    /// Sets it; the error says what is wrong with the value.
    pub(crate) set: fn(&mut Overrides, &Given) -> Result<(), String>,
}

impl Setting {
    const fn new(
        name: &'static str,
        default: &'static str,
        set: fn(&mut Overrides, &Given) -> Result<(), String>,
    ) -> Self {
        let gives_power = |_: &str, _: &str| false;
        Self { name, default, help: "", scope: Scope::File, value: "", gives_power, set }
    }

    const fn option(mut self, value: &'static str) -> Self {
        (self.scope, self.value) = (Scope::Run, value);
        self
    }

    const fn limit(mut self, value: &'static str) -> Self {
        (self.scope, self.value) = (Scope::Limit, value);
        self
    }

    const fn power(mut self, gives_power: fn(&str, &str) -> bool) -> Self {
        self.gives_power = gives_power;
        self
    }

    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// The setting with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether its value is a list, which only a file can have.
    pub(crate) fn is_list(&self) -> bool {
        self.default.starts_with('[')
    }

    /// Its environment variable.
    pub(crate) fn variable(&self) -> String {
        match self.name {
            "agents.claude.program" => "RAYMOND_CLAUDE".to_owned(),
            name => format!("RAYMOND_{}", name.replace('.', "_").to_uppercase()),
        }
    }
}

/// All of them, sorted by name.
pub(crate) static SETTINGS: &[Setting] = &[
    Setting::new("agent", "claude", |to, given| text(&mut to.agent, given, any))
        .option("NAME")
        .power(|own, value| own != value)
        .help("Coding agent for states that name none"),
    Setting::new("agents.claude.program", "claude", |to, given| {
        text(&mut to.claude_program, given, any)
    })
    .power(always)
    .help("Program of Claude Code"),
    Setting::new("ask", "wait", |to, given| one(&mut to.ask, given, on_ask))
        .option("wait|default|fail")
        .power(|_, value| value != "wait")
        .help("What to do when a person is asked: wait, default (answer by default) or fail"),
    Setting::new("budget", "10", |to, given| one(&mut to.limits.budget_usd, given, dollars))
        .limit("USD")
        .power(loosens)
        .help("Budget of all agents together in US dollars; 0 is no limit"),
    Setting::new("dangerously_skip_permissions", "false", |to, given| {
        one(&mut to.skip_permissions, given, switch)
    })
    .option("")
    .power(always)
    .help("Let coding agents use every tool without asking. Read `raymond help operations` first"),
    Setting::new("disk_reserve", "33554432", |to, given| one(&mut to.disk_reserve, given, number))
        .power(falls_below)
        .help("What must be free on the disk before a step starts, in bytes"),
    Setting::new("effort", "", |to, given| text(&mut to.effort, given, no_option))
        .option("EFFORT")
        .help("Effort for states that name none"),
    Setting::new("failover.handoff", "false", |to, given| {
        one(&mut to.failover_handoff, given, switch)
    })
    .power(always)
    .help("Let a turn that waits for its coding agent begin afresh with the next one, with a summary of its session"),
    Setting::new("failover.order", "[]", |to, given| {
        list(&mut to.failover_order, given, |_| Ok(()))
    })
    .power(always)
    .help("Coding agents that stand in for each other, the preferred one first"),
    Setting::new("keep_script_steps", "500", |to, given| {
        one(&mut to.keep_script_steps, given, number)
    })
    .help("Number of finished script steps of a run that keep their files; 0 keeps all"),
    Setting::new("max_iterations", "0", |to, given| {
        one(&mut to.limits.max_iterations, given, number)
    })
    .limit("N")
    .power(loosens)
    .help("Maximum number of states that all agents together enter; 0 is no limit"),
    Setting::new("max_parallel", "16", |to, given| {
        one(&mut to.limits.max_parallel, given, at_least_one)
    })
    .limit("N")
    .power(loosens)
    .help("Maximum number of coding agent turns that run at once"),
    Setting::new("model", "", |to, given| text(&mut to.model, given, no_option))
        .option("MODEL")
        .help("Model for states that name none"),
    Setting::new("no_wait", "false", |to, given| one(&mut to.no_wait, given, switch))
        .option("")
        .help("Pause the run and exit when a usage limit is reached, or when only questions to people are left"),
    Setting::new("notify.command", "[]", |to, given| {
        list(&mut to.notify_command, given, names_a_program)
    })
    .power(always)
    .help("Command that gets one JSON object on its standard input when a person is asked and when a run ends"),
    Setting::new("notify.on", "[\"ask\"]", |to, given| {
        list(&mut to.notify_on, given, are_occasions)
    })
    .power(always)
    .help("When that command is called: ask, failed, stopped, paused, completed"),
    Setting::new("reset_margin", "30", |to, given| one(&mut to.reset_margin, given, number))
        .help("Seconds after the announced time when a usage limit counts as lifted"),
    Setting::new("retries", "3", |to, given| one(&mut to.limits.max_retries, given, number))
        .limit("N")
        .power(exceeds)
        .help("Number of retries of a turn after a failure of an unknown kind; 0 retries nothing"),
    Setting::new("retry_for", "10m", |to, given| {
        one(&mut to.limits.retry_for_ms, given, |text| {
            time(text).map(|time| u64::from(time).saturating_mul(1000))
        })
    })
    .limit("TIME")
    .power(exceeds)
    .help("How long a turn is retried while the provider is overloaded or cannot be reached; 0 is not at all"),
    Setting::new("serve.max_budget", "50", |to, given| {
        one(&mut to.serve_max_budget, given, dollars)
    })
    .power(loosens)
    .help("Highest budget that a run can be given from the page, in US dollars; 0 is no limit"),
    Setting::new("timeout", "10m", |to, given| one(&mut to.timeout, given, time))
        .option("TIME")
        .power(outlasts)
        .help("How long a step may print nothing: seconds, or 10m, 2h; 0 is no limit"),
    Setting::new("usage_max", "0", |to, given| one(&mut to.usage_max, given, percent))
        .option("PERCENT")
        .power(loosens)
        .help("Percent of a usage limit (5-hour, weekly) from which on it counts as reached; 0 is never"),
    Setting::new("warm", "4", |to, given| one(&mut to.warm, given, number))
        .option("N")
        .power(exceeds)
        .help("Number of idle coding agent processes that are kept for further turns; 0 is none"),
];

fn always(_: &str, _: &str) -> bool {
    true
}

/// Whether a limit is higher than the user's own; 0 is none.
fn loosens(own: &str, value: &str) -> bool {
    let limit = |text: &str| {
        let limit = text.trim_start_matches('$').parse().ok().filter(|most: &f64| *most > 0.0);
        limit.unwrap_or(f64::INFINITY)
    };
    limit(value) > limit(own)
}

/// Whether a number or a duration is above the user's own.
fn exceeds(own: &str, value: &str) -> bool {
    amount(value) > amount(own)
}

/// The same where 0 is no limit.
fn outlasts(own: &str, value: &str) -> bool {
    let limit = |text: &str| Some(amount(text)).filter(|most| *most > 0).unwrap_or(u64::MAX);
    limit(value) > limit(own)
}

/// Whether a number is below the user's own.
fn falls_below(own: &str, value: &str) -> bool {
    amount(value) < amount(own)
}

fn amount(text: &str) -> u64 {
    let number = text.parse().ok();
    number.or_else(|| time(text).ok().map(u64::from)).unwrap_or(u64::MAX)
}

type Parsed<T> = Result<T, &'static str>;

fn one<T>(slot: &mut Option<T>, given: &Given, parse: fn(&str) -> Parsed<T>) -> Result<(), String> {
    let Given::One(text) = given else { return Err("takes one value".to_owned()) };
    *slot = Some(parse(text)?);
    Ok(())
}

/// The same for a text; an empty one is as if it were not set.
fn text(
    slot: &mut Option<String>,
    given: &Given,
    check: fn(&str) -> Parsed<()>,
) -> Result<(), String> {
    let Given::One(text) = given else { return Err("takes one value".to_owned()) };
    check(text)?;
    *slot = Some(text.clone()).filter(|text| !text.is_empty());
    Ok(())
}

fn list(
    slot: &mut Option<Vec<String>>,
    given: &Given,
    check: fn(&[String]) -> Result<(), String>,
) -> Result<(), String> {
    let Given::Many(items) = given else { return Err("must be a list of strings".to_owned()) };
    check(items)?;
    *slot = Some(items.clone());
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "a check that passes everything")]
fn any(_: &str) -> Parsed<()> {
    Ok(())
}

/// Refuses a value that a coding agent would take for an option.
fn no_option(text: &str) -> Parsed<()> {
    if looks_like_an_option(text) { Err("begins with a dash, as an option does") } else { Ok(()) }
}

fn dollars(text: &str) -> Parsed<Usd> {
    text.parse().map_err(|_| "is not an amount of dollars; expected for instance 5 or 0.50")
}

fn number<T: FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| "is not a whole number")
}

fn at_least_one(text: &str) -> Parsed<u32> {
    text.parse().ok().filter(|number| *number > 0).ok_or("is not a number from 1 up")
}

fn percent(text: &str) -> Parsed<u32> {
    text.parse().ok().filter(|number| *number <= 100).ok_or("is not a number from 0 to 100")
}

fn switch(text: &str) -> Parsed<bool> {
    text.parse().map_err(|_| "is neither true nor false")
}

fn time(text: &str) -> Parsed<Timeout> {
    text.parse().map_err(|_| "is not a duration: seconds, or 10m, 2h")
}

fn on_ask(text: &str) -> Parsed<OnAsk> {
    match text {
        "wait" => Ok(OnAsk::Wait),
        "default" => Ok(OnAsk::Default),
        "fail" => Ok(OnAsk::Fail),
        _ => Err("is neither wait, default nor fail"),
    }
}

fn names_a_program(words: &[String]) -> Result<(), String> {
    let is_blank = words.first().is_some_and(|program| program.trim().is_empty());
    if is_blank { Err("names no program".to_owned()) } else { Ok(()) }
}

fn are_occasions(words: &[String]) -> Result<(), String> {
    match words.iter().find(|word| !OCCASIONS.contains(&word.as_str())) {
        Some(word) => Err(format!("does not know `{word}`; it knows: {}", OCCASIONS.join(", "))),
        None => Ok(()),
    }
}
