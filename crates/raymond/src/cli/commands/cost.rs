//! `raymond cost`: where the tokens of a run went.

use std::process::ExitCode;

use raymond_engine::observe::overview::Overview;
use raymond_flow::{
    id::{AgentId, StateName},
    machine::Tokens,
    view::{RunView, Spending},
};
use serde_json::{Value, json};

use super::{place::state_dir, runs};
use crate::{
    cli::args::{Place, WhichRun},
    failure::Failure,
    line::{Line, Style},
    out,
    report::items,
};

/// How many rows of a table are shown; `--json` has all.
const ROWS_MAX: usize = 20;

/// How the figures are made, for a reader who wants to know what they are worth.
const METHOD: [&str; 3] = [
    "Read again is what came from the cache; its cost is a share of the turn's own cost, at the ratio of list prices",
    "(input 1, cache write 1.25, cache read 0.1, output 5). A goto saves at most what reading its session again cost",
    "later; a reset makes the agent forget, and a fresh session reads its system prompt again, which is not subtracted.",
];

/// `raymond cost [ID]`
pub(in crate::cli) fn cost(
    run: &WhichRun,
    is_json: bool,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = runs::find(&state_dir, run, place)?;
    let view = Overview::load(id.clone(), state_dir.run(&id))?.split().0;
    if is_json {
        let value = json(id.as_str(), &view);
        out::data(&format!("{}\n", out::escaped(&format!("{value:#}"))))?;
    } else {
        out::lines(&page(id.as_str(), &view))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(id: &str, view: &RunView) -> Vec<Line> {
    let spendings = &view.turns;
    let total = &spendings.total;
    let head = Line::new().dim("run ").add(Style::Bold, id);
    let mut page = vec![head.plain(format!("  {}", total.account.cost_usd)).dim(format!(
        "  {} turns, {} of them in a session that had some before",
        total.account.steps, total.continued
    ))];
    if total.account.steps == 0 {
        page.push(
            Line::new().dim("No turn of a coding agent has ended, so there is nothing to show."),
        );
        return page;
    }
    let states =
        spendings.by_state.iter().map(|(state, spending)| (state.stem().to_owned(), spending));
    table(&mut page, "By state", states.collect());
    let frames = spendings.by_frame.iter();
    let frames = frames
        .map(|((agent, calls), spending)| (frame(agent, &items::of(view, agent), calls), spending));
    table(&mut page, "By frame", frames.collect());
    let carried = spendings.carried();
    let carried: Vec<_> = carried.iter().filter(|(_, one)| one.saves_usd.dollars() > 0.0).collect();
    if !carried.is_empty() {
        page.extend([Line::new(), Line::new().add(Style::Bold, "Cheaper as reset, by at most")]);
    }
    for (way, one) in carried.iter().take(ROWS_MAX) {
        let (from, to) = (way.from.stem(), way.to.stem());
        let line = Line::of(format!("  {:>8}", one.saves_usd.to_string())).plain("  goto ");
        let line = line.add(Style::Name, from).plain(" → ").add(Style::Name, to);
        let times =
            format!("  {} times, carries up to {} tokens", one.times, thousands(one.tokens));
        page.push(line.dim(times));
    }
    left_out(&mut page, carried.len());
    page.push(Line::new());
    page.extend(METHOD.map(|text| Line::new().dim(text)));
    page
}

/// A frame in words: the agent, what it is about, and the calls and functions that it was in.
fn frame(agent: &AgentId, item: &str, calls: &[StateName]) -> String {
    let about = if item.is_empty() { String::new() } else { format!("  {item}") };
    let mut frame = format!("{agent}{about}");
    for call in calls {
        frame.push_str(" › ");
        frame.push_str(call.stem());
    }
    frame
}

fn table(page: &mut Vec<Line>, title: &str, mut rows: Vec<(String, &Spending)>) {
    rows.sort_by_key(|(_, spending)| std::cmp::Reverse(spending.account.cost_usd));
    let count = rows.len();
    rows.truncate(ROWS_MAX);
    let cells: Vec<_> = rows.iter().map(|(_, spending)| cells(spending)).collect();
    let width = |text: &str| console::measure_text_width(text);
    let names = rows.iter().map(|(name, _)| width(name)).max().unwrap_or(0).max(title.len() - 2);
    let widths = HEADS.map(width);
    let widths: [usize; HEADS.len()] = std::array::from_fn(|column| {
        let cells = cells.iter().map(|cells| width(&cells[column]));
        cells.max().unwrap_or(0).max(widths[column])
    });
    let numbers = |cells: &[String]| -> String {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:>width$}"));
        cells.collect::<Vec<_>>().concat()
    };
    page.push(Line::new());
    let head = Line::new().add(Style::Bold, title).pad(2 + names);
    page.push(head.dim(numbers(&HEADS.map(str::to_owned))));
    for ((name, _), cells) in rows.iter().zip(&cells) {
        let line = Line::of("  ").add(Style::Name, name).pad(2 + names);
        page.push(line.plain(numbers(cells)));
    }
    left_out(page, count);
}

/// The columns of a table after the names.
const HEADS: [&str; 7] = ["turns", "cost", "input", "cache write", "read again", "for", "output"];

fn cells(spending: &Spending) -> [String; HEADS.len()] {
    let Spending { account, read_again_usd, .. } = spending;
    let Tokens { input, output, cache_read, cache_write } = account.tokens;
    [
        account.steps.to_string(),
        account.cost_usd.to_string(),
        thousands(input),
        thousands(cache_write),
        thousands(cache_read),
        read_again_usd.to_string(),
        thousands(output),
    ]
}

fn left_out(page: &mut Vec<Line>, count: usize) {
    if let Some(more) = count.checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        page.push(Line::new().dim(format!("  and {more} more: --json")));
    }
}

/// A number with commas.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn json(id: &str, view: &RunView) -> Value {
    let spendings = &view.turns;
    let states = spendings.by_state.iter().map(|(state, spending)| {
        let mut row = of(spending);
        row["state"] = json!(state);
        row
    });
    let frames = spendings.by_frame.iter().map(|((agent, calls), spending)| {
        let mut row = of(spending);
        row["agent"] = json!(agent);
        row["item"] = json!(Some(items::of(view, agent)).filter(|item| !item.is_empty()));
        row["calls"] = json!(calls);
        row
    });
    let gotos = spendings.carried().into_iter().map(|(way, one)| {
        json!({
            "from": way.from, "to": way.to, "times": one.times, "tokens": one.tokens,
            "saves_usd_at_most": one.saves_usd,
        })
    });
    json!({
        "run": id,
        "total": of(&spendings.total),
        "states": states.collect::<Vec<_>>(),
        "frames": frames.collect::<Vec<_>>(),
        "gotos": gotos.collect::<Vec<_>>(),
    })
}

fn of(spending: &Spending) -> Value {
    let Spending { account, continued, read_again_usd } = spending;
    let Tokens { input, output, cache_read, cache_write } = account.tokens;
    json!({
        "turns": account.steps, "continued": continued, "cost_usd": account.cost_usd,
        "input_tokens": input, "cache_write_tokens": cache_write, "cache_read_tokens": cache_read,
        "output_tokens": output, "read_again_usd": read_again_usd,
    })
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn numbers_have_commas() {
        let numbers = [0, 999, 1000, 1_234_567].map(thousands);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
