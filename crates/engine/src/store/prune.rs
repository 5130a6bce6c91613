//! Lists the runs on disk, and removes them.
//!
//! Order: the journal is removed first, under the run's lock. A process that is killed in between leaves a
//! run without a journal: no command takes that for a run, and the next prune removes what is left.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::{Run, Status},
    text::excerpt,
};

use crate::{
    load,
    run::error::EngineError,
    store::{
        layout::{RunFiles, StateDir},
        lock::{LockError, RunLock},
    },
    worktree::{Removal, remove},
};

/// How old files without a journal must be to count as left over: a starting run has no journal yet.
const LEFTOVER_AGE: Duration = Duration::from_hours(1);

/// A run, or what is left of one.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its id.
    pub id: RunId,
    /// Whether it has a journal. Without one it is a leftover of a deleted run.
    pub has_journal: bool,
    /// How many files and directories it has.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// When one of its files, apart from its directory and its lock, was changed last.
    pub changed: SystemTime,
    /// Everything that belongs to it.
    paths: Vec<PathBuf>,
}

/// All runs below a state directory, the oldest first, including leftovers of deleted runs.
pub fn stored_runs(state_dir: &StateDir) -> io::Result<Vec<StoredRun>> {
    let mut paths: BTreeMap<RunId, Vec<PathBuf>> = BTreeMap::new();
    for path in entries(&state_dir.workflows())? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // An id has no dot: all files of a run are named `ID` or `ID.something`.
        let id = name.split('.').next().and_then(|id| RunId::new(id).ok());
        if let Some(id) = id {
            paths.entry(id).or_default().push(path);
        }
    }
    for path in entries(&state_dir.debug())? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(paths) = debug_owner(name).and_then(|id| paths.get_mut(&id)) {
            paths.push(path);
        }
    }
    let stored = paths.into_iter().map(|(id, paths)| {
        let files = state_dir.run(&id);
        let mut run = StoredRun {
            has_journal: paths.contains(&files.journal),
            id,
            files: 0,
            bytes: 0,
            changed: SystemTime::UNIX_EPOCH,
            paths,
        };
        for path in &run.paths {
            // Who only looks at a run takes its lock, too. Before it has a journal, the lock is all that it has.
            if !run.has_journal || *path != files.lock {
                let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
                run.changed = run.changed.max(changed.unwrap_or(SystemTime::UNIX_EPOCH));
            }
            let (entries, bytes) = usage(path);
            run.files += entries;
            run.bytes += bytes;
        }
        run
    });
    let mut stored: Vec<_> = stored.collect();
    stored.retain(|run| run.has_journal || run.age() >= LEFTOVER_AGE);
    stored.sort_by_key(|run| run.changed);
    Ok(stored)
}

impl StoredRun {
    /// The time since its last change.
    pub fn age(&self) -> Duration {
        self.changed.elapsed().unwrap_or_default()
    }

    /// Removes it. Returns false if a process owns it, or if it has changed since it was listed.
    pub fn remove(&self, state_dir: &StateDir) -> Result<bool, EngineError> {
        let files = state_dir.run(&self.id);
        state_dir.check_run(&files)?;
        let journal_changed = modified(&files.journal);
        let lock = match RunLock::take(&files.lock) {
            Ok(lock) => lock,
            Err(LockError::Owned { .. }) => return Ok(false),
            Err(source) => return Err(EngineError::Lock { id: self.id.clone(), source }),
        };
        if modified(&files.journal) != journal_changed
            || journal_changed.is_some_and(|changed| changed > self.changed)
        {
            return Ok(false);
        }
        let removed = self.remove_files(&files);
        removed.map_err(|(path, source)| EngineError::Io { what: "remove", path, source })?;
        // Empty, unless worktrees stay.
        let _ = fs::remove_dir(&files.worktrees);
        drop(lock);
        Ok(true)
    }

    /// Removes its worktrees and their branches, and with `only_joined` only those of workers that were joined or cannot be any more.
    /// Those with work that is nowhere else stay, unless `with_work` says that it may be lost; returns them. Does
    /// nothing to the worktrees of a run that a process owns, but for joined workers. With `is_dry`, only tells.
    pub fn remove_worktrees(
        &self,
        state_dir: &StateDir,
        PruneWorktrees { only_joined, with_work, is_dry }: PruneWorktrees,
    ) -> Result<PrunedWorktrees, EngineError> {
        let files = state_dir.run(&self.id);
        state_dir.check_run(&files)?;
        let lock = match RunLock::take(&files.lock) {
            Ok(lock) => Some(lock),
            Err(LockError::Owned { .. }) => None,
            Err(source) => return Err(EngineError::Lock { id: self.id.clone(), source }),
        };
        let run = load(state_dir, &self.id)?.run;
        let is_over = lock.is_some() && run.status != Status::Running;
        let mut pruned = PrunedWorktrees::default();
        for (agent, worktree) in &run.worktrees {
            let is_joined = is_joined(&run, agent) || (is_over && !run.status.can_resume());
            if !is_joined && (only_joined || !is_over) {
                continue;
            }
            let kept = match remove(worktree, &files.worktrees, with_work, is_dry) {
                Ok(Removal::Removed { hidden }) => {
                    pruned.removed += 1;
                    if !hidden.is_empty() {
                        pruned.hidden.push((agent.clone(), hidden));
                    }
                    continue;
                }
                Ok(Removal::WasGone) => continue,
                Ok(Removal::Kept { uncommitted, unmerged_commits, stashes }) => {
                    unsaved(&uncommitted, unmerged_commits, stashes)
                }
                Err(error) => error.to_string(),
            };
            pruned.kept.push(KeptWorktree {
                agent: agent.clone(),
                path: worktree.path.clone(),
                branch: worktree.branch.clone(),
                why: kept,
            });
        }
        Ok(pruned)
    }

    fn remove_files(&self, files: &RunFiles) -> Result<(), (PathBuf, io::Error)> {
        let others =
            self.paths.iter().filter(|path| **path != files.journal && **path != files.lock);
        let order = [&files.journal].into_iter().chain(others).chain([&files.lock]);
        for path in order {
            let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
            let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err((path.clone(), error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Which worktrees of a run are removed.
#[derive(Clone, Copy, Debug)]
pub struct PruneWorktrees {
    /// Only those of workers that were joined, or cannot be any more.
    pub only_joined: bool,
    /// Also those with work that is nowhere else.
    pub with_work: bool,
    /// Only tell what would be removed.
    pub is_dry: bool,
}

/// What became of the worktrees of a run.
#[derive(Clone, Debug, Default)]
pub struct PrunedWorktrees {
    /// How many were removed.
    pub removed: usize,
    /// What was in those that were removed and that git was told not to look at, by worker.
    pub hidden: Vec<(AgentId, Vec<String>)>,
    /// Those that stay.
    pub kept: Vec<KeptWorktree>,
}

/// A worktree that stays.
#[derive(Clone, Debug)]
pub struct KeptWorktree {
    /// Its worker.
    pub agent: AgentId,
    /// Its directory.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// Why it stays.
    pub why: String,
}

/// Whether a worker has ended, or its failure was handed over, and no join can take it any more.
fn is_joined(run: &Run, agent: &AgentId) -> bool {
    let is_gone = run.agents.get(agent).is_none_or(|agent| agent.phase.is_passed());
    let mut crews = run.crews.values().flat_map(|crew| crew.workers().values());
    is_gone && crews.all(|worker| worker.agent != *agent)
}

fn unsaved(uncommitted: &[String], unmerged_commits: u64, stashes: u64) -> String {
    let files = uncommitted.first().map(|first| {
        let more = uncommitted.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("`{}`{more} with changes that are not committed", excerpt(first))
    });
    let commits = match unmerged_commits {
        0 => None,
        1 => Some("1 commit that is on no other branch".to_owned()),
        number => Some(format!("{number} commits that are on no other branch")),
    };
    let stashes = (stashes > 0).then(|| "a stash that is on no branch (git stash list)".to_owned());
    let parts = files.into_iter().chain(commits).chain(stashes);
    format!("it has {}", parts.collect::<Vec<_>>().join(", and "))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The entries of a directory; none if it does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The run that a debug directory `ID_YYYYMMDD_HHMMSS` belongs to, whatever follows in its name.
fn debug_owner(name: &str) -> Option<RunId> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    name.match_indices('_').find_map(|(at, _)| {
        let (id, rest) = (name.get(..at)?, name.get(at + 1..)?);
        let (date, time) = (rest.get(..8)?, rest.get(9..15)?);
        let is_stamp = is_digits(date) && is_digits(time) && rest.get(8..9) == Some("_");
        is_stamp.then(|| RunId::new(id).ok()).flatten()
    })
}

/// How many files and bytes are at `path` and below, links not followed.
fn usage(path: &Path) -> (u64, u64) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return (0, 0);
    };
    let (mut files, mut bytes) = (1, metadata.len());
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let (inner_files, inner_bytes) = usage(&entry.path());
            files += inner_files;
            bytes += inner_bytes;
        }
    }
    (files, bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    fn stored(root: &Path, names: &[&str]) -> Vec<StoredRun> {
        for name in names {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        stored_runs(&StateDir::new(root)).unwrap()
    }

    #[test]
    fn everything_of_a_run_belongs_to_it_and_nothing_of_a_run_with_a_longer_id() {
        let root = tempfile::tempdir().unwrap();
        let runs = stored(
            root.path(),
            &[
                "workflows/a.journal",
                "workflows/a.journal.trimmed-7-1",
                "workflows/a/steps/main.1/exit",
                "workflows/a-b.journal",
                "debug/a_20260101_101010/transitions.log",
                "debug/a_20260101_101010-2/transitions.log",
                "debug/a_x_20260101_101010/transitions.log",
            ],
        );
        let run = runs.iter().find(|run| run.id.as_str() == "a").unwrap();
        assert_eq!((run.has_journal, runs.len(), run.paths.len()), (true, 2, 5));
        assert!(run.remove(&StateDir::new(root.path())).unwrap());
        let left = stored(root.path(), &[]);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].id.as_str(), "a-b");
        let debug: Vec<_> = entries(&root.path().join("debug")).unwrap();
        assert_eq!(debug, [root.path().join("debug/a_x_20260101_101010")]);
    }

    #[test]
    fn run_that_a_process_owns_or_that_has_changed_is_not_removed() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(root.path());
        let runs = stored(root.path(), &["workflows/a.journal"]);
        let lock = RunLock::take(&state_dir.run(&runs[0].id).lock).unwrap();
        assert!(!runs[0].remove(&state_dir).unwrap());
        drop(lock);
        let journal = fs::File::options().append(true).open(state_dir.run(&runs[0].id).journal);
        journal.unwrap().set_modified(SystemTime::now() + Duration::from_mins(1)).unwrap();
        assert!(!runs[0].remove(&state_dir).unwrap());
        assert!(stored(root.path(), &[])[0].remove(&state_dir).unwrap());
    }

    #[test]
    fn leftovers_of_a_deleted_run_are_found_when_they_are_old_enough() {
        let root = tempfile::tempdir().unwrap();
        assert!(stored(root.path(), &["workflows/a.lock"]).is_empty());
        let lock = fs::File::options().append(true).open(root.path().join("workflows/a.lock"));
        lock.unwrap().set_modified(SystemTime::now() - 2 * LEFTOVER_AGE).unwrap();
        assert!(!stored(root.path(), &[])[0].has_journal);
    }

    #[test]
    fn runs_are_listed_the_oldest_first_with_their_size() {
        let root = tempfile::tempdir().unwrap();
        let names = ["workflows/new.journal", "workflows/old.journal", "workflows/old/steps/a/b"];
        stored(root.path(), &names);
        for name in ["workflows/old.journal", "workflows/old"] {
            let file = fs::File::open(root.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(5)).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("/", root.path().join("workflows/old/steps/link")).unwrap();
        let runs = stored(root.path(), &[]);
        let ids: Vec<_> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["old", "new"]);
        assert!(runs[0].age() > Duration::from_hours(4) && runs[1].age() < LEFTOVER_AGE);
        // The journal, `old`, `steps`, `a`, `b` and the link, which leads nowhere here.
        assert_eq!((runs[0].files, runs[1].files), (5 + u64::from(cfg!(unix)), 1));
        assert_eq!(runs[1].bytes, 4);
    }

    #[test]
    fn state_directory_without_runs_has_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(stored(root.path(), &[]).is_empty());
        assert!(stored(root.path(), &["workflows/not an id/x", "debug/x"]).is_empty());
    }

    /// A process that is killed, or fails, in the middle must leave nothing that looks like a run.
    #[cfg(target_os = "linux")]
    #[test]
    fn removal_that_fails_in_the_middle_has_removed_the_journal() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(root.path());
        let names = ["workflows/a.journal", "workflows/a.state", "workflows/a.lock"];
        let mut run = stored(root.path(), &names).remove(0);
        // A file that not even root can remove.
        run.paths.insert(0, PathBuf::from("/proc/version"));
        let error = run.remove(&state_dir).unwrap_err();
        let EngineError::Io { what: "remove", path, .. } = &error else { panic!("{error}") };
        assert_eq!(*path, PathBuf::from("/proc/version"));
        assert!(!root.path().join(names[0]).exists());
        assert!(root.path().join(names[1]).exists());
        let left = stored(root.path(), &[]);
        assert!(left.is_empty(), "it is no run, and not old enough for a leftover");
    }
}
