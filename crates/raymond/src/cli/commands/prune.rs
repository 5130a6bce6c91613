//! `raymond prune`: removes old runs.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use raymond_engine::{
    load,
    store::{
        journal::UNREADABLE,
        layout::StateDir,
        prune::{KeptWorktree, PruneWorktrees, PrunedWorktrees, StoredRun, stored_runs},
    },
};
use serde_json::json;

use super::{
    place::{state_dir, typed},
    runs,
};
use crate::{
    cli::{
        args::Place,
        upkeep::{Prune, PrunedStatus},
    },
    failure::Failure,
    line::excerpt,
    out,
    report::{Next, time, words::count},
};

/// The minimum age of a run without `--older-than`.
const OLDER_THAN: Duration = Duration::from_hours(7 * 24);

/// The most files of a worktree that are named.
const NAMED_MAX: usize = 5;

/// A run to remove, with its status.
struct Candidate {
    run: StoredRun,
    status: String,
    is_readable: bool,
}

/// `raymond prune`
pub(in crate::cli) fn prune(arguments: &Prune) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(&arguments.place)?;
    let is_dry = arguments.dry_run || !arguments.yes;
    let (code, found) = go(&state_dir, arguments, is_dry)?;
    let can_ask = is_dry && !arguments.dry_run && !arguments.json && out::can_ask();
    if found == 0 || !can_ask || !out::is_agreed("Remove them? [y/N] ") {
        return Ok(code);
    }
    go(&state_dir, arguments, false).map(|(code, _)| code)
}

/// Removes what the arguments select, or lists it. Returns how much that is.
fn go(state_dir: &StateDir, arguments: &Prune, is_dry: bool) -> Result<(ExitCode, usize), Failure> {
    if arguments.worktrees {
        return prune_worktrees(state_dir, arguments, is_dry);
    }
    let found = candidates(state_dir, arguments)?;
    let mut removed = Vec::new();
    let mut failure = None;
    let which = PruneWorktrees { only_joined: false, with_work: arguments.discard_work, is_dry };
    for candidate in found {
        if candidate.is_readable {
            // All of its worktrees go, or none: without its journal, nothing would name those that are left.
            let plan = PruneWorktrees { is_dry: true, ..which };
            let mut pruned = candidate.run.remove_worktrees(state_dir, plan)?;
            if !is_dry && pruned.kept.is_empty() {
                pruned = candidate.run.remove_worktrees(state_dir, which)?;
            } else if !pruned.kept.is_empty() {
                pruned.hidden.clear();
            }
            tell(&runs::next(&candidate.run.id, &arguments.place), &pruned, is_dry);
            if !pruned.kept.is_empty() {
                continue;
            }
        }
        let is_removed = is_dry
            || candidate.run.remove(state_dir).unwrap_or_else(|error| {
                failure.get_or_insert(Failure::from(error));
                false
            });
        if is_removed {
            removed.push(candidate);
        }
    }
    out::text(&if arguments.json { as_json(&removed, is_dry) } else { as_text(&removed) })?;
    if !arguments.json {
        summarize(&removed, is_dry, &arguments.place);
    }
    failure.map_or(Ok((ExitCode::SUCCESS, removed.len())), Err)
}

/// `raymond prune --worktrees`: the runs stay.
fn prune_worktrees(
    state_dir: &StateDir,
    arguments: &Prune,
    is_dry: bool,
) -> Result<(ExitCode, usize), Failure> {
    let stored = stored_runs(state_dir).map_err(|error| Failure::io("list the runs", &error))?;
    let which = PruneWorktrees { only_joined: true, with_work: arguments.discard_work, is_dry };
    let (mut total, mut runs) = (0, Vec::new());
    for run in stored.iter().filter(|run| run.has_journal) {
        let pruned = match run.remove_worktrees(state_dir, which) {
            Ok(pruned) => pruned,
            Err(error) => {
                out::note(&format!("run {} stays as it is: {error}", run.id));
                continue;
            }
        };
        tell(&runs::next(&run.id, &arguments.place), &pruned, is_dry);
        total += pruned.removed;
        let PrunedWorktrees { removed, hidden, kept } = pruned;
        let kept = kept.iter().map(|kept| {
            json!({ "agent": kept.agent, "path": kept.path, "branch": kept.branch, "why": kept.why })
        });
        let hidden = hidden.iter().map(|(agent, paths)| json!({ "agent": agent, "paths": paths }));
        runs.push(json!({
            "id": run.id.as_str(),
            "removed": removed,
            "hidden": hidden.collect::<Vec<_>>(),
            "kept": kept.collect::<Vec<_>>(),
        }));
    }
    if arguments.json {
        out::text(&format!("{}\n", out::escaped(&json!(runs).to_string())))?;
        return Ok((ExitCode::SUCCESS, total));
    }
    let worktrees = count(total as u64, "worktree");
    out::note(&if is_dry && total > 0 {
        format!("{worktrees}: nothing was removed yet; remove with --yes")
    } else {
        format!("{worktrees} removed")
    });
    Ok((ExitCode::SUCCESS, total))
}

/// Says which files go that are in no commit, which worktrees stay, why, and what can be done about them.
fn tell(next: &Next, pruned: &PrunedWorktrees, is_dry: bool) {
    let run = &next.id;
    for (agent, hidden) in &pruned.hidden {
        let more = if hidden.len() > NAMED_MAX {
            format!(" and {} more", hidden.len() - NAMED_MAX)
        } else {
            String::new()
        };
        let named: Vec<_> = hidden.iter().take(NAMED_MAX).map(|path| excerpt(path)).collect();
        let verb = if is_dry { "go" } else { "went" };
        out::note(&format!(
            "with the worktree of {agent} in run {run} {verb} files that git ignores or passes over: {}{more}",
            named.join(", ")
        ));
    }
    for KeptWorktree { agent, path, branch, why } in &pruned.kept {
        out::note(&format!(
            "worktree of {agent} in run {run} stays: {why}\n  {path}, branch {branch}"
        ));
    }
    if !pruned.kept.is_empty() {
        out::note(&format!(
            "land the work: {}\nor remove it for good, with --discard-work",
            next.command("land")
        ));
    }
}

/// The runs that `arguments` select, the oldest first.
fn candidates(state_dir: &StateDir, arguments: &Prune) -> Result<Vec<Candidate>, Failure> {
    let stored = stored_runs(state_dir).map_err(|error| Failure::io("list the runs", &error))?;
    let by_default = if arguments.max_size.is_some() { Duration::ZERO } else { OLDER_THAN };
    let older_than = arguments.older_than.map_or(by_default, |age| age.0);
    let mut excess = match arguments.max_size {
        Some(size) => stored.iter().map(|run| run.bytes).sum::<u64>().saturating_sub(size.0),
        None => u64::MAX,
    };
    let mut found = Vec::new();
    for run in stored {
        if excess == 0 {
            break;
        }
        if run.age() < older_than {
            continue;
        }
        if let Some((status, is_readable)) = status(state_dir, &run, &arguments.status) {
            if arguments.max_size.is_some() {
                excess = excess.saturating_sub(run.bytes);
            }
            found.push(Candidate { run, status, is_readable });
        }
    }
    Ok(found)
}

/// The status of a run in one word and whether it can be read, if runs with that status are selected.
fn status(state_dir: &StateDir, run: &StoredRun, meant: &[PrunedStatus]) -> Option<(String, bool)> {
    if !run.has_journal {
        return meant.is_empty().then(|| ("left over".to_owned(), false));
    }
    let loaded = load(state_dir, &run.id);
    let is_readable = loaded.is_ok();
    let (status, word) = match loaded {
        Ok(loaded) => (PrunedStatus::of(loaded.run.status)?, loaded.run.status.to_string()),
        Err(error) if error.status() == UNREADABLE => {
            (PrunedStatus::Unreadable, UNREADABLE.to_owned())
        }
        Err(error) => (PrunedStatus::Foreign, error.status().to_owned()),
    };
    let is_meant = if meant.is_empty() {
        matches!(status, PrunedStatus::Completed | PrunedStatus::Cancelled)
    } else {
        meant.contains(&status)
    };
    is_meant.then_some((word, is_readable))
}

fn as_text(found: &[Candidate]) -> String {
    let width = found.iter().map(|candidate| candidate.run.id.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for Candidate { run, status, .. } in found {
        let (age, size) = (time::duration(run.age()), size(run.bytes));
        let _ = writeln!(text, "{:<width$}  {status:<10}  {age:>9}  {size:>9}", run.id.as_str());
    }
    text
}

fn as_json(found: &[Candidate], is_dry: bool) -> String {
    let runs: Vec<_> = found
        .iter()
        .map(|Candidate { run, status, .. }| {
            json!({
                "id": run.id.as_str(),
                "status": status,
                "age_seconds": run.age().as_secs(),
                "files": run.files,
                "bytes": run.bytes,
                "removed": !is_dry,
            })
        })
        .collect();
    format!("{}\n", out::escaped(&json!(runs).to_string()))
}

fn summarize(found: &[Candidate], is_dry: bool, place: &Place) {
    let total = size(found.iter().map(|candidate| candidate.run.bytes).sum());
    let runs = if found.len() == 1 { "1 run".to_owned() } else { format!("{} runs", found.len()) };
    out::note(&match (found.is_empty(), is_dry) {
        (true, _) => format!(
            "No run is old enough and has ended. List younger ones: raymond prune --older-than 1h --dry-run{}",
            typed(place)
        ),
        (_, true) => format!("{runs}, {total}: nothing was removed yet; remove them with --yes"),
        (_, false) => format!("{runs} removed, {total} freed"),
    });
}

/// A size for display.
pub(super) fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut rest = bytes;
    let mut shown = format!("{bytes} B");
    for unit in units {
        if rest < 1000 {
            break;
        }
        shown = format!("{}.{} {unit}", rest / 1000, rest % 1000 / 100);
        rest /= 1000;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [999, 1000, 12_345, 244_000_000, 3_200_000_000].map(size);
        assert_eq!(sizes, ["999 B", "1.0 kB", "12.3 kB", "244.0 MB", "3.2 GB"]);
    }
}
