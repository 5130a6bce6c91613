//! `raymond land`: merges the branches of workers that a run has left unlanded.

use std::{path::Path, process::ExitCode};

use raymond_engine::{
    load,
    worktree::{LandError, Landed, Landing, state},
};
use raymond_flow::{
    id::AgentId,
    machine::{Phase, Run, Worktree},
};

use super::{
    place::{state_dir, typed},
    runs,
};
use crate::{
    cli::{args::WhichRun, upkeep::Land},
    failure::Failure,
    line::excerpt,
    out, quote,
    report::words::{count, natural},
};

/// The most files with conflicts that are named.
const NAMED_MAX: usize = 5;

/// `raymond land [RUN] [AGENT…]`
pub(in crate::cli) fn land(arguments: &Land) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(&arguments.place)?;
    let which = WhichRun { id: arguments.run.clone() };
    let id = runs::find(&state_dir, &which, &arguments.place)?;
    let run = load(&state_dir, &id)?.run;
    let chosen = chosen(&run, &arguments.agents)?;
    let here = std::env::current_dir();
    let here = here.map_err(|error| Failure::io("find the current directory", &error))?;
    let landing = Landing::at(&here).map_err(|error| refused(&error))?;
    if chosen.is_empty() {
        out::note("nothing was landed");
        return Ok(ExitCode::SUCCESS);
    }
    let mut left = Vec::new();
    for (agent, worktree) in chosen {
        let message = format!("Land {agent} of run {id}");
        let landed = landing.land(worktree, &message, arguments.dry_run);
        let landed = landed.map_err(|error| Failure::of_error(&error))?;
        let problem = not_saved(worktree);
        if !matches!(landed, Landed::Merged { .. } | Landed::Already) {
            left.push(remedy(&landed, worktree));
        } else if problem.is_some() {
            left.push(look_at(worktree));
        }
        out::text(&format!("{agent}  {}\n", told(&landed, worktree, arguments.dry_run)))?;
        if let Some(problem) = problem {
            out::text(&format!("{agent}  not saved: {problem}\n"))?;
        }
    }
    let Some(first) = left.first() else {
        if !arguments.dry_run {
            let place = typed(&arguments.place);
            out::note(&format!(
                "remove worktrees whose work is landed: raymond prune --worktrees{place}"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let workers = count(left.len() as u64, "worker");
    let verb = if arguments.dry_run { "can" } else { "could" };
    let message = format!("not all work of {workers} {verb} be landed on {}", landing.branch());
    Err(Failure::of_work(message).with_hint(first.clone()))
}

/// Why something in a worktree is on no branch, if that is still so.
fn not_saved(worktree: &Worktree) -> Option<&str> {
    let problem = worktree.problem.as_deref()?;
    // Also if git cannot look at it, or must not: nothing was saved then.
    let has_work = state(worktree).map_or(true, |state| {
        // `raymond prune` removes the directory only together with its branch.
        let is_lost = state.has_branch && !state.has_directory;
        is_lost || !state.uncommitted.is_empty() || state.astray_commits + state.stashes > 0
    });
    has_work.then_some(problem)
}

/// Where to look for what was not saved.
fn look_at(worktree: &Worktree) -> String {
    let path = Path::new(&worktree.path);
    if path.exists() {
        format!("look at what is left in its worktree: cd {}", quote::path(path))
    } else {
        format!("look at what its branch has: git log {}", worktree.branch)
    }
}

/// What to do about a branch that was not landed.
fn remedy(landed: &Landed, worktree: &Worktree) -> String {
    let branch = &worktree.branch;
    match (landed, &worktree.head) {
        (Landed::Gone, Some(head)) => format!("bring the branch back: git branch {branch} {head}"),
        (Landed::Elsewhere, _) => {
            let repository = quote::path(Path::new(&worktree.repository));
            format!("land it in a checkout of its repository: cd {repository}")
        }
        _ => format!("merge by hand: git merge {branch}"),
    }
}

/// The worktrees to land: those that were named, else those of all workers that have ended.
fn chosen<'r>(run: &'r Run, named: &[String]) -> Result<Vec<(&'r AgentId, &'r Worktree)>, Failure> {
    if run.worktrees.is_empty() {
        let message = format!("no worker of run `{}` had a worktree", run.id);
        return Err(Failure::usage(message).with_hint("see how: raymond help protocol"));
    }
    for name in named {
        if !run.worktrees.contains_key(&AgentId::new(name)) {
            let message = format!("run `{}` has no worker `{name}` with a worktree", run.id);
            let known: Vec<_> = run.worktrees.keys().take(NAMED_MAX).map(AgentId::as_str).collect();
            return Err(
                Failure::usage(message).with_hint(format!("for example: {}", known.join(", ")))
            );
        }
    }
    let is_over = |agent: &AgentId| match run.agents.get(agent) {
        None => true,
        Some(agent) => {
            if let Phase::Failed { .. } = agent.phase {
                out::note(&format!("{} failed; land it anyway by its name", agent.id));
            } else {
                out::note(&format!("{} has not ended", agent.id));
            }
            false
        }
    };
    let is_chosen = |agent: &AgentId| {
        if named.is_empty() {
            is_over(agent)
        } else {
            named.iter().any(|name| name == agent.as_str())
        }
    };
    let mut chosen: Vec<_> = run.worktrees.iter().filter(|(agent, _)| is_chosen(agent)).collect();
    // In the order of forking.
    chosen.sort_by(|(one, _), (other, _)| natural(one.as_str(), other.as_str()));
    Ok(chosen)
}

fn told(landed: &Landed, worktree: &Worktree, is_dry: bool) -> String {
    match landed {
        Landed::Merged { commits } => {
            let commits = count(*commits, "commit");
            if is_dry { format!("can be landed: {commits}") } else { format!("landed: {commits}") }
        }
        Landed::Already => "has nothing that is not landed".to_owned(),
        Landed::Gone => format!("its branch {} is gone", worktree.branch),
        Landed::Elsewhere => format!("belongs to another repository: {}", worktree.repository),
        Landed::Conflicts { files } if files.is_empty() => "cannot be landed: conflicts".to_owned(),
        Landed::Conflicts { files } => {
            let more = if files.len() > NAMED_MAX { ", …" } else { "" };
            let files: Vec<_> = files.iter().take(NAMED_MAX).map(|file| excerpt(file)).collect();
            format!("not landed, conflicts in {}{more}", files.join(", "))
        }
        // All that git says, with its further lines below.
        Landed::Refused { why } => format!("not landed: {}", why.trim().replace('\n', "\n    ")),
    }
}

fn refused(error: &LandError) -> Failure {
    let hint = match error {
        LandError::NoCheckout { .. } => "change to the checkout into which to merge",
        LandError::Merging { .. } => "finish it (git commit), or abort it: git merge --abort",
        LandError::Dirty { .. } => "commit the changes, or put them aside: git stash",
        LandError::Detached { .. } => "check a branch out: git switch BRANCH",
        LandError::Git(_) => return Failure::of_error(error),
    };
    Failure::of_error(error).with_hint(hint)
}
