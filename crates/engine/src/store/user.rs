//! What Raymond keeps for one user, outside of any project: which projects there are, and what all runs of the
//! user share.
//!
//! ```text
//! ~/.local/state/raymond/        only its owner can enter it
//!     projects/NAME-CHECKSUM     the path of one state directory
//!     key                        the secret with which journals, answers and requests are sealed: see `seal`
//!     trusted/                   the settings of projects as the user has trusted them
//!     usage-limits/              limits of providers that runs have reached: see `usage_limit`
//!     uploads/                   files that came through `raymond serve` and wait for their answer
//!     serve.token, serve.json    the token of `raymond serve`, and where it listens
//!     serve.lock                 held while the token is read or made
//! ```
//!
//! Without the key there is no run. Nothing else of a run depends on these files: if they cannot be written, the run goes on.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    store::layout::StateDir,
    trust,
    trust::{private, regular, seal::hex},
};

/// The longest path that is believed.
const PATH_BYTES_MAX: u64 = 64 * 1024;
/// The directory with what the user has trusted: a copy of each file, named by the sum of its path.
const TRUSTED: &str = "trusted";
/// How many projects are listed: more than a user has.
const PROJECTS_MAX: usize = 1_000;

/// The state directory of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDir {
    root: PathBuf,
}

impl UserDir {
    /// The directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory of the user who runs this program; `None` if the environment does not say where it is.
    pub fn here() -> Option<Self> {
        Self::of(|name| env::var_os(name))
    }

    fn of(get: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        // A relative path would mean another directory in every directory.
        let absolute = |name: &str| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = if cfg!(windows) {
            absolute("LOCALAPPDATA")
        } else {
            let home = || absolute("HOME").map(|home| home.join(".local/state"));
            absolute("XDG_STATE_HOME").or_else(home)
        };
        base.map(|base| Self::new(base.join("raymond")))
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of the file `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes the directory, and refuses one that another user could write to.
    pub fn create(&self) -> io::Result<()> {
        trust::check_folder(&self.root).map_err(io::Error::other)?;
        // A link that is there was declared trusted.
        if self.root.is_dir() { Ok(()) } else { private::create_dir_all(&self.root) }
    }

    /// Remembers that there are runs in `state_dir`. A run that starts calls this.
    pub fn remember(&self, state_dir: &StateDir) -> io::Result<()> {
        let path = state_dir.root();
        let Some(text) = path.to_str() else { return Ok(()) };
        let entry = self.projects().join(key(path));
        if entry.exists() {
            return Ok(());
        }
        self.create()?;
        private::create_dir_all(&self.projects())?;
        replace(&entry, text.as_bytes())
    }

    /// Remembers that the user trusts the file at `path` with these bytes, and no other version of it.
    pub fn trust(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.create()?;
        private::create_dir_all(&self.file(TRUSTED))?;
        replace(&self.trusted_copy(path), bytes)
    }

    /// The file at `path` as the user has trusted it, at most `bytes_max` long.
    pub fn trusted(&self, path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
        trust::check_folder(&self.root).ok()?;
        regular::read(&self.trusted_copy(path), bytes_max).ok()
    }

    fn trusted_copy(&self, path: &Path) -> PathBuf {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.file(TRUSTED).join(sum(path.as_os_str().as_encoded_bytes()))
    }

    /// The state directories in which runs were started, sorted by path. Those that are gone, or that other users
    /// can write to, are left out.
    pub fn state_dirs(&self) -> Vec<StateDir> {
        if trust::check_folder(&self.root).is_err() {
            return Vec::new();
        }
        let entries = fs::read_dir(self.projects()).into_iter().flatten().flatten();
        let path = |entry: fs::DirEntry| {
            let text = regular::read_text(&entry.path(), PATH_BYTES_MAX).ok()?;
            Some(PathBuf::from(text)).filter(|path| path.is_absolute() && path.is_dir())
        };
        let mut paths: Vec<_> = entries.take(PROJECTS_MAX).filter_map(path).collect();
        paths.sort();
        paths.dedup();
        let all = paths.into_iter().map(StateDir::new);
        all.filter(|state_dir| state_dir.check().is_ok()).collect()
    }

    fn projects(&self) -> PathBuf {
        self.file("projects")
    }
}

/// The SHA-256 of `bytes`, in hexadecimal digits.
fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Writes a file aside and gives it its name when it is complete.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("draft-{}", uuid::Uuid::new_v4().simple()));
    private::write(&draft, bytes)?;
    fs::rename(&draft, path).inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// A short name for a path that stays the same: its last part that says something, and a checksum of all of it.
pub fn key(path: &Path) -> String {
    let is_telling = |name: &str| !name.is_empty() && name != ".raymond";
    let parts = path.iter().rev().filter_map(|part| part.to_str());
    let name = parts.map(simplified).find(|name| is_telling(name)).unwrap_or_default();
    let name: String = name.chars().take(40).collect();
    format!("{name}-{:08x}", crc32fast::hash(path.as_os_str().as_encoded_bytes()))
}

/// Only what needs no escape in a URL or a file name; not hidden.
fn simplified(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name == ".raymond" {
        return name.to_owned();
    }
    let name: String = name.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    name.trim_matches(['.', '-']).to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn remembered_projects_are_listed_once_until_they_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let user = UserDir::new(folder.path().join("state"));
        let project = |name: &str| {
            let state_dir = StateDir::new(folder.path().join(name).join(".raymond"));
            private::create_dir_all(state_dir.root()).unwrap();
            state_dir
        };
        let (one, two) = (project("one"), project("two"));
        for state_dir in [&two, &one, &one] {
            user.remember(state_dir).unwrap();
        }
        assert_eq!(user.state_dirs(), [one.clone(), two.clone()]);
        fs::remove_dir_all(one.root()).unwrap();
        assert_eq!(user.state_dirs(), [two]);
    }

    #[test]
    fn key_names_the_project_and_tells_equal_names_apart() {
        let keys = ["/a/shop/.raymond", "/b/shop/.raymond", "/ä ö/.raymond", "/"];
        let keys = keys.map(|path| key(Path::new(path)));
        assert!(keys[0].starts_with("shop-") && keys[1].starts_with("shop-"), "{keys:?}");
        assert_ne!(keys[0], keys[1]);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(keys.iter().all(|key| key.chars().all(plain)), "{keys:?}");
    }

    #[cfg(unix)]
    #[test]
    fn list_that_other_users_can_write_to_is_not_believed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let user = UserDir::new(folder.path().join("state"));
        let state_dir = StateDir::new(folder.path().join(".raymond"));
        private::create_dir_all(state_dir.root()).unwrap();
        user.remember(&state_dir).unwrap();
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path().join("state"), open).unwrap();
        assert_eq!(user.state_dirs(), []);
        assert!(user.create().is_err());
    }
}
