//! Usage limits that runs of this user have reached, as files that every run looks at before it starts a turn.
//!
//! ```text
//! ~/.local/state/raymond/usage-limits/AGENT-CHECKSUM     one for each account of a coding agent
//! ```
//!
//! A run that reaches a limit writes it here; all others, in every project, wait instead of starting a turn that would be
//! refused. Nothing of a run depends on these files: one that is missing, damaged, over, or that another user could have
//! written is ignored, and one that cannot be written only concerns the run that has reached the limit.

use std::{fs, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    store::{user, user::UserDir},
    trust,
    trust::{private, regular},
};

/// The directory of the files.
const FOLDER: &str = "usage-limits";
/// The largest file that is believed.
const BYTES_MAX: u64 = 4096;
/// The longest time that a limit is believed to last. Providers count by hours, weeks and months; a time that is farther
/// away is a mistake that must not hold up every run.
const LONGEST: Duration = Duration::from_hours(32 * 24);

/// A usage limit in effect. Fields may be added with defaults, nothing else changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedLimit {
    /// When the provider lifts it, in seconds since 1970; `None` if it did not say.
    pub(crate) resets_at: Option<u64>,
    /// Until when no run starts a turn, in milliseconds since 1970.
    pub(crate) until_ms: u64,
}

impl SharedLimit {
    fn is_in_effect(&self, now_ms: u64) -> bool {
        let longest_ms = u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX);
        (now_ms.saturating_add(1)..=now_ms.saturating_add(longest_ms)).contains(&self.until_ms)
    }
}

/// The limits of all accounts of this user.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLimits {
    user_dir: Option<UserDir>,
}

impl SharedLimits {
    /// The limits in the user's directory; without one, nothing is shared.
    pub(crate) fn new(user_dir: Option<UserDir>) -> Self {
        Self { user_dir }
    }

    /// The limit of an account that is in effect at `now_ms`.
    pub(crate) fn of(&self, account: &str, now_ms: u64) -> Option<SharedLimit> {
        let user_dir = self.user_dir.as_ref()?;
        for folder in [user_dir.root(), &user_dir.file(FOLDER)] {
            trust::check_folder(folder).ok()?;
        }
        let path = self.path(account)?;
        let file = regular::open(&path).ok()?;
        trust::check_file(&path, &file).ok()?;
        let text = regular::text_of(&file, &path, BYTES_MAX).ok()?;
        let limit: SharedLimit = serde_json::from_str(&text).ok()?;
        limit.is_in_effect(now_ms).then_some(limit)
    }

    /// Tells all runs of a limit that an account has reached. A limit without a time does not replace one with a time.
    /// Returns whether they are told.
    pub(crate) fn reached(&self, account: &str, limit: SharedLimit, now_ms: u64) -> bool {
        let (Some(user_dir), Some(path)) = (&self.user_dir, self.path(account)) else {
            return false;
        };
        let known = self.of(account, now_ms);
        if limit.resets_at.is_none() && known.is_some_and(|known| known.resets_at.is_some()) {
            return true;
        }
        let write = || {
            user_dir.create()?;
            private::create_dir_all(&user_dir.file(FOLDER))?;
            user::replace(&path, serde_json::to_string(&limit)?.as_bytes())
        };
        limit.is_in_effect(now_ms) && write().is_ok()
    }

    /// Tells all runs that the limit of an account is lifted.
    pub(crate) fn lifted(&self, account: &str) {
        if let Some(path) = self.path(account) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, account: &str) -> Option<PathBuf> {
        Some(self.user_dir.as_ref()?.file(FOLDER).join(account))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const NOW_MS: u64 = 1_794_864_760_537;
    const HOUR_MS: u64 = 3_600_000;
    const LIMIT: SharedLimit =
        SharedLimit { resets_at: Some(NOW_MS / 1000 + 3600), until_ms: NOW_MS + HOUR_MS };

    fn limits(folder: &TempDir) -> SharedLimits {
        SharedLimits::new(Some(UserDir::new(folder.path().join("state"))))
    }

    #[test]
    fn limit_holds_for_its_account_until_it_is_over_or_lifted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(limits(&folder).of("claude-1", NOW_MS), None);
        assert!(limits(&folder).reached("claude-1", LIMIT, NOW_MS));
        let of = |account, after_ms| limits(&folder).of(account, NOW_MS + after_ms);
        assert_eq!([of("claude-1", 0), of("claude-1", HOUR_MS - 1)], [Some(LIMIT); 2]);
        assert_eq!([of("claude-1", HOUR_MS), of("claude-2", 0)], [None; 2]);
        limits(&folder).lifted("claude-1");
        assert_eq!(of("claude-1", 0), None);
    }

    #[test]
    fn latest_limit_counts_unless_only_the_earlier_one_has_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let unknown = SharedLimit { resets_at: None, until_ms: NOW_MS + 2 * HOUR_MS };
        let sooner = SharedLimit { resets_at: Some(7), until_ms: NOW_MS + 1000 };
        for (limit, counts) in
            [(unknown, unknown), (LIMIT, LIMIT), (unknown, LIMIT), (sooner, sooner)]
        {
            assert!(limits(&folder).reached("claude", limit, NOW_MS));
            assert_eq!(limits(&folder).of("claude", NOW_MS), Some(counts));
        }
    }

    #[test]
    fn limit_that_cannot_be_true_is_neither_told_nor_believed() {
        let folder = tempfile::tempdir().unwrap();
        for until_ms in [0, NOW_MS, NOW_MS + 33 * 24 * HOUR_MS, u64::MAX] {
            let limit = SharedLimit { until_ms, ..LIMIT };
            assert!(!limits(&folder).reached("claude", limit, NOW_MS), "{until_ms}");
        }
        assert!(limits(&folder).reached("claude", LIMIT, NOW_MS));
        let path = limits(&folder).path("claude").unwrap();
        let long = format!("{{\"resets_at\":1,\"until_ms\":{}}}", u64::MAX);
        let padded = " ".repeat(5000) + &fs::read_to_string(&path).unwrap();
        for damaged in ["", "{}", "{\"resets_at\":1,\"until_ms\":", &long, &padded] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(limits(&folder).of("claude", NOW_MS), None, "{damaged}");
        }
        // A newer version may say more.
        let more = format!("{{\"until_ms\":{},\"model\":\"x\"}}", NOW_MS + 1);
        fs::write(&path, more).unwrap();
        assert!(limits(&folder).of("claude", NOW_MS).is_some());
    }

    #[test]
    fn nothing_is_shared_without_a_directory_of_the_user() {
        assert!(!SharedLimits::default().reached("claude", LIMIT, NOW_MS));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state"), "a file where the directory should be").unwrap();
        assert!(!limits(&folder).reached("claude", LIMIT, NOW_MS));
        assert_eq!(limits(&folder).of("claude", NOW_MS), None);
    }

    #[cfg(unix)]
    #[test]
    fn limit_that_another_user_could_have_written_is_ignored() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        assert!(limits(&folder).reached("claude", LIMIT, NOW_MS));
        let path = limits(&folder).path("claude").unwrap();
        let state = folder.path().join("state");
        for (path, mode, closed) in
            [(&path, 0o666, 0o600), (&state.join(FOLDER), 0o777, 0o700), (&state, 0o777, 0o700)]
        {
            let set = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            set(mode);
            assert_eq!(limits(&folder).of("claude", NOW_MS), None, "{}", path.display());
            set(closed);
            assert_eq!(limits(&folder).of("claude", NOW_MS), Some(LIMIT));
        }
    }
}
