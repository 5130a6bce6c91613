//! Worktrees of a run that another machine decides about, in a directory that all machines see.

use std::{path::Path, sync::atomic::AtomicBool};

use raymond_flow::{
    id::AgentId,
    machine::{Input, MadeWorktree, Run, SavedWork},
};

use super::{GitError, RunWorktrees, save::save};
use crate::store::layout::StateDir;

/// Makes or saves the worktree of `agent`, as `run` wants it; `None` if it wants neither. The worktree is in the
/// repository's own state directory, as that of a local run is.
pub fn work_for(run: &Run, agent: &AgentId) -> Option<Input> {
    let never = AtomicBool::new(false);
    if let Some(worktree) = run.worktrees.get(agent) {
        let problem = |error: GitError| SavedWork { head: None, problem: Some(error.to_string()) };
        let saved = save(&run.id, agent, worktree, &never).unwrap_or_else(problem);
        return Some(Input::WorktreeSaved { agent: agent.clone(), saved });
    }
    let plan = run.agents.get(agent)?.worktree_plan.as_ref()?;
    let files = StateDir::of_project(Path::new(&plan.repository)).run(&run.id);
    let made = RunWorktrees::new(&files, &run.id, &run.identity).make(agent, plan, &never);
    let made = made.map(|(worktree, cwd)| MadeWorktree { worktree: Box::new(worktree), cwd });
    Some(Input::WorktreeMade { agent: agent.clone(), made })
}
