//! The user's key, and the seals that are made with it.
//!
//! What lies in a project is no authority: a repository can be cloned with it, and a coding agent that may edit files can
//! write it. So everything there that makes Raymond act has a seal that only this user's Raymond can have made: the lines of
//! journals, questions, answers, requests at the door, messages for running turns, the claims of steps. The key is in the
//! user's state directory, which lies in no project. A program that runs as this user without a sandbox can read it: a seal
//! protects from models that may edit, not from shells.

use std::{ffi::OsStr, fmt::Write as _, fs, io, path::Path, sync::OnceLock};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    store::user::UserDir,
    sys, trust,
    trust::{private, regular},
};

/// The file in the user's state directory.
const FILE: &str = "key";
const KEY_BYTES: usize = 32;
/// How many bytes of a seal are kept.
const SEAL_BYTES: usize = 16;
/// The length of a seal as text.
pub(crate) const SEAL_CHARS: usize = 2 * SEAL_BYTES;
/// The field of an object that has its seal.
const FIELD: &str = "seal";
/// How many names of a path a seal is bound to: the file, its directory, what that belongs to, and the run.
const NAMES: usize = 4;
/// The block of SHA-256.
const BLOCK_BYTES: usize = 64;

type Key = [u8; KEY_BYTES];

/// Makes the key if there is none. Without one nothing can be sealed, and every run is foreign.
pub fn prepare() -> io::Result<()> {
    key().map(drop).ok_or_else(|| {
        let place = UserDir::here().map(|user| user.file(FILE).display().to_string());
        let place = place.unwrap_or_else(|| "a state directory (HOME is not set)".to_owned());
        io::Error::other(format!(
            "the user's key cannot be made or used in {place}: {KEY_BYTES} bytes that no other user can read"
        ))
    })
}

/// The seal of `parts`, in this order and no other, for one purpose: a seal for another one does not fit.
pub(crate) fn seal(purpose: &str, parts: &[&[u8]]) -> String {
    let Some(key) = key() else { return String::new() };
    let mac = mac(key, purpose, parts);
    hex(&mac[..SEAL_BYTES])
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether `seal` is the seal of these parts.
pub(crate) fn is_sealed(purpose: &str, parts: &[&[u8]], found: &str) -> bool {
    let made = seal(purpose, parts);
    // Without a shortcut, whose time would tell how much of a guess is right.
    let difference = made.bytes().zip(found.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    !made.is_empty() && made.len() == found.len() && difference == 0
}

/// `value` as a JSON object with a seal for this purpose and `place`, where it lies.
pub(crate) fn to_json(purpose: &str, place: &Path, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    let seal = seal_of(purpose, place, &value)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert(FIELD.to_owned(), seal.into());
    }
    Ok(serde_json::to_vec_pretty(&value)?)
}

/// The value of a JSON object that lies at `place`. Without its seal, it is `InvalidData`.
pub(crate) fn from_json<T: DeserializeOwned>(
    purpose: &str,
    place: &Path,
    bytes: &[u8],
) -> io::Result<T> {
    let mut value: Value = serde_json::from_slice(bytes)?;
    let found = value.as_object_mut().and_then(|fields| fields.remove(FIELD));
    let found = found.as_ref().and_then(Value::as_str).unwrap_or_default();
    if found.is_empty() || found != seal_of(purpose, place, &value)? {
        let message = "it has no seal: your Raymond did not write it";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(serde_json::from_value(value)?)
}

/// The seal of a value. It is bound to the last names of its path, not to all of it: a project can be moved.
fn seal_of(purpose: &str, place: &Path, value: &Value) -> io::Result<String> {
    let names = place.iter().rev().take(NAMES).map(OsStr::as_encoded_bytes);
    let json = serde_json::to_vec(value)?;
    let parts: Vec<&[u8]> = names.chain([json.as_slice()]).collect();
    Ok(seal(purpose, &parts))
}

/// HMAC-SHA-256 over the purpose and the parts, each with its length before it.
fn mac(key: &Key, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let mut inner = Sha256::new_with_prefix(padded(0x36));
    for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
        inner.update((part.len() as u64).to_le_bytes());
        inner.update(part);
    }
    let mut outer = Sha256::new_with_prefix(padded(0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// The key of this process: that of the user who runs it, unless it has one of its own.
static KEY: OnceLock<Option<Key>> = OnceLock::new();

/// Uses a key that ends with this process, for runs that nobody resumes: nothing of the user is read or made.
pub fn use_passing_key() {
    let _ = KEY.set(Some(random()));
}

fn random() -> Key {
    let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(uuid::Uuid::into_bytes);
    let mut key = [0; KEY_BYTES];
    key.iter_mut().zip(halves.as_flattened()).for_each(|(byte, random)| *byte = *random);
    key
}

fn key() -> Option<&'static Key> {
    KEY.get_or_init(|| {
        if cfg!(test) {
            return Some([7; KEY_BYTES]);
        }
        let user = UserDir::here()?;
        user.create().ok()?;
        let path = user.file(FILE);
        read(&path).or_else(|| make(&path).ok().and_then(|()| read(&path)))
    })
    .as_ref()
}

/// The key at `path`, if no other user can read it.
fn read(path: &Path) -> Option<Key> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !sys::is_of_user_alone(&metadata) && !trust::is_trusted(path) {
        return None;
    }
    regular::read(path, KEY_BYTES as u64).ok()?.try_into().ok()
}

/// Makes a key, unless another process is first.
fn make(path: &Path) -> io::Result<()> {
    let draft = path.with_extension(format!("draft-{}", uuid::Uuid::new_v4().simple()));
    // Durable before anything is sealed with it: without the key that made them, all runs are foreign.
    private::write_durably(&draft, &random())?;
    match private::name_new(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => {
            let _ = fs::remove_file(draft);
            path.parent().map_or(Ok(()), sys::sync_folder)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn mac_depends_on_the_key_the_purpose_and_where_each_part_ends() {
        let key = [3; KEY_BYTES];
        let own = mac(&key, "a", &[b"b"]);
        assert_eq!(own, mac(&key, "a", &[b"b"]));
        assert_ne!(own, mac(&key, "a", &[b"b", b""]));
        assert_ne!(mac(&key, "a", &[b"bc"]), mac(&key, "ab", &[b"c"]));
        assert_ne!(own, mac(&[1; KEY_BYTES], "a", &[b"b"]));
    }

    #[test]
    fn seal_fits_only_what_it_was_made_for() {
        let made = seal("answer", &[b"run", b"yes"]);
        assert_eq!(made.len(), SEAL_CHARS);
        assert!(is_sealed("answer", &[b"run", b"yes"], &made));
        assert!(!is_sealed("answer", &[b"run", b"no"], &made));
        assert!(!is_sealed("answer", &[b"runy", b"es"], &made));
        assert!(!is_sealed("request", &[b"run", b"yes"], &made));
        for other in ["", "0", &format!("{made}0")] {
            assert!(!is_sealed("answer", &[b"run", b"yes"], other), "{other}");
        }
    }

    #[test]
    fn object_is_read_only_where_it_was_sealed_and_as_it_was() {
        let place = Path::new("/p/.raymond/workflows/r/asks/main.1/answer");
        let json = to_json("answer", place, &serde_json::json!({ "b": 1.5, "a": "x" })).unwrap();
        let read = |place: &str, json: &[u8]| from_json::<Value>("answer", Path::new(place), json);
        let moved = "/moved/.raymond/workflows/r/asks/main.1/answer";
        assert_eq!(read(moved, &json).unwrap()["a"], "x");
        for other in ["/p/r/asks/main.2/answer", "/p/other/asks/main.1/answer"] {
            assert_eq!(read(other, &json).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let text = String::from_utf8(json).unwrap();
        for forged in [text.replace("\"x\"", "\"y\""), "{\"a\":\"x\",\"b\":1.5}".to_owned()] {
            assert!(read(moved, forged.as_bytes()).is_err(), "{forged}");
        }
    }

    #[test]
    fn key_is_made_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(read(&path).is_none());
        make(&path).unwrap();
        let first = read(&path).unwrap();
        make(&path).unwrap();
        assert_eq!(read(&path), Some(first));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(read(&path).is_none(), "others can read it");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(&path, "short").unwrap();
        assert!(read(&path).is_none(), "a damaged key is none");
    }
}
