//! Reads the output of running turns in a process that does not own their run. Nothing is changed.

use std::collections::BTreeMap;

use raymond_flow::{id::StepId, machine::Turn};

use crate::{
    agent::{Activity, Agents},
    exec::step::StepFolder,
    observe::tails::{Tail, glance},
    store::layout::RunFiles,
};

/// How often the output of a turn is read to find its latest activity; this limits what is read of it.
const GLANCES_MAX: usize = 256;

/// Reads the outputs of turns, each from where the last call stopped.
#[derive(Debug)]
pub struct Watch {
    files: RunFiles,
    tails: BTreeMap<StepId, Option<Tail>>,
}

impl Watch {
    /// Watches the run with these files.
    pub fn new(files: RunFiles) -> Self {
        Self { files, tails: BTreeMap::new() }
    }

    /// What the turn of step `id` has done since the last call. Output that exceeds one read comes with
    /// later calls.
    pub fn activities(&mut self, id: &StepId, turn: &Turn, agents: &Agents) -> Vec<Activity> {
        let Ok(agent) = agents.for_turn(turn) else { return Vec::new() };
        let tail = self.tails.entry(id.clone()).or_default();
        glance(tail, &StepFolder::new(&self.files.steps, id), agent)
    }

    /// What the turn of step `id` did last.
    pub fn latest(&mut self, id: &StepId, turn: &Turn, agents: &Agents) -> Option<Activity> {
        let mut latest = None;
        for _ in 0..GLANCES_MAX {
            latest = self.activities(id, turn, agents).pop().or(latest);
            let tail = self.tails.get(id).and_then(Option::as_ref);
            if tail.is_none_or(Tail::is_at_end) {
                break;
            }
        }
        latest
    }

    /// When the turn of step `id` printed last, in milliseconds since 1970; `None` if its output was not read yet.
    pub fn heard_at(&self, id: &StepId) -> Option<u64> {
        self.tails.get(id)?.as_ref()?.grew_at_ms()
    }

    /// Forgets every step for which `is_running` does not hold.
    pub fn retain(&mut self, is_running: impl Fn(&StepId) -> bool) {
        self.tails.retain(|id, _| is_running(id));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use raymond_flow::{
        id::{RunId, SessionId},
        machine::SessionPlan,
    };

    use super::*;
    use crate::{
        store::layout::StateDir,
        testing::{Talkative, step_id, turn, words},
    };

    #[test]
    fn steps_are_watched_apart_and_forgotten_when_they_are_over() {
        let root = tempfile::tempdir().unwrap();
        let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
        let print = |number, text: &str| {
            let folder = StepFolder::new(&files.steps, &step_id(number));
            fs::create_dir_all(folder.path()).unwrap();
            fs::write(folder.stdout(), text).unwrap();
        };
        print(1, "a\nb\n");
        print(2, "c\n");
        let agents = Agents::new(vec![Box::new(Talkative)]);
        let turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
        let mut watch = Watch::new(files.clone());
        let of = |watch: &mut Watch, number| -> Vec<String> {
            let activities = watch.activities(&step_id(number), &turn, &agents);
            activities.into_iter().map(words).collect()
        };
        assert_eq!(of(&mut watch, 1), ["a", "b"]);
        assert_eq!(of(&mut watch, 2), ["c"]);
        assert_eq!(of(&mut watch, 1), [""; 0]);
        watch.retain(|id| *id != step_id(1));
        assert_eq!(of(&mut watch, 1), ["a", "b"], "it was forgotten");
        assert_eq!(of(&mut watch, 2), [""; 0]);
        assert_eq!(of(&mut watch, 3), [""; 0], "there is no such step");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_file_stays_open_however_many_turns_are_watched() {
        let root = tempfile::tempdir().unwrap();
        let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
        let open_below_root = || {
            let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
            links.filter(|path| path.starts_with(root.path())).count()
        };
        let agents = Agents::new(vec![Box::new(Talkative)]);
        let turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
        let mut watch = Watch::new(files.clone());
        for number in 1..=3 {
            let folder = StepFolder::new(&files.steps, &step_id(number));
            fs::create_dir_all(folder.path()).unwrap();
            fs::write(folder.stdout(), "said\n").unwrap();
            assert!(watch.latest(&step_id(number), &turn, &agents).is_some());
        }
        assert_eq!(open_below_root(), 0);
    }

    #[test]
    fn latest_is_the_last_thing_of_however_much_was_printed() {
        let root = tempfile::tempdir().unwrap();
        let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
        let folder = StepFolder::new(&files.steps, &step_id(1));
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.stdout(), "noise\n".repeat(200_000) + "last\nunfinished").unwrap();
        let agents = Agents::new(vec![Box::new(Talkative)]);
        let turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
        let mut watch = Watch::new(files);
        let latest = watch.latest(&step_id(1), &turn, &agents).map(words);
        assert_eq!(latest.as_deref(), Some("last"));
        assert_eq!(watch.latest(&step_id(1), &turn, &agents), None, "nothing is new");
        let printed = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        let stdout = fs::File::options().append(true).open(folder.stdout()).unwrap();
        stdout.set_modified(printed).unwrap();
        assert_eq!(watch.heard_at(&step_id(1)), Some(1_000_000));
        assert_eq!(watch.heard_at(&step_id(2)), None);
        let mut unknown = turn;
        unknown.settings.agent = Some("somebody".to_owned());
        assert_eq!(watch.latest(&step_id(1), &unknown, &agents), None);
    }
}
