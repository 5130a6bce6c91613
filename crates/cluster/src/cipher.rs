//! Keeps what a cluster stores unreadable for those who have not the key: payloads in Temporal's histories, and objects
//! of the store.
//!
//! A key file has one key a line. The first one seals; all of them open, so that a key can be replaced while runs go on.

use std::{io, path::Path, sync::Arc};

use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Generate as _},
};
use raymond_engine::trust::regular;

use crate::store::hash;

/// The beginning of everything that is sealed.
const MAGIC: &[u8] = b"raymond-sealed-1";
/// How many characters of the hash of a key name it.
const NAME_CHARS: usize = 16;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// How many bytes longer something is when it is sealed.
pub(crate) const OVERHEAD: usize = MAGIC.len() + NAME_CHARS + NONCE_BYTES + TAG_BYTES;
/// The largest key file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The keys of a cluster; without any, nothing is sealed.
#[derive(Clone, Default)]
pub(crate) struct Cipher(Arc<Vec<Key>>);

struct Key {
    name: String,
    cipher: XChaCha20Poly1305,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.name)).finish()
    }
}

/// Why something cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CipherError {
    /// The key file cannot be read.
    #[error("cannot read the key file {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A line of the key file is not a key.
    #[error("line {line} of the key file {path} is not a key of 64 hexadecimal digits")]
    Line {
        /// Its path.
        path: String,
        /// From 1.
        line: usize,
    },
    /// The key file has no key.
    #[error("the key file {path} has no key")]
    Empty {
        /// Its path.
        path: String,
    },
    /// The key is not among those that are known. It says what to do, because it also comes through errors of the SDK.
    #[error(
        "it is encrypted with the key {name}, which is not among the {known} keys of this program; name the key file of the cluster: --key-file FILE or RAYMOND_CLUSTER_KEY_FILE"
    )]
    Unknown {
        /// The name of the key.
        name: String,
        /// How many are known.
        known: usize,
    },
    /// Somebody changed it.
    #[error("it is encrypted and was changed or cut short")]
    Changed,
    /// The system gives no random numbers.
    #[error("it cannot be encrypted")]
    NotSealed,
}

impl CipherError {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } => Some("name another: --key-file FILE or RAYMOND_CLUSTER_KEY_FILE"),
            Self::Line { .. } | Self::Empty { .. } => {
                Some("make a key: openssl rand -hex 32 > FILE")
            }
            Self::Unknown { .. } | Self::Changed | Self::NotSealed => None,
        }
    }
}

impl Cipher {
    /// The keys in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, CipherError> {
        let name = || path.display().to_string();
        let text = regular::open_linked(path)
            .and_then(|file| regular::text_of(&file, path, FILE_BYTES_MAX));
        let text = text.map_err(|source| CipherError::File { path: name(), source })?;
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let keys: Result<Vec<_>, _> = lines
            .map(|(index, line)| {
                Key::parse(line).ok_or_else(|| CipherError::Line { path: name(), line: index + 1 })
            })
            .collect();
        let keys = keys?;
        if keys.is_empty() {
            return Err(CipherError::Empty { path: name() });
        }
        Ok(Self(Arc::new(keys)))
    }

    /// Whether anything is sealed.
    pub(crate) fn is_on(&self) -> bool {
        !self.0.is_empty()
    }

    /// Seals bytes with the first key; without keys they stay as they are.
    pub(crate) fn seal(&self, bytes: Vec<u8>) -> Result<Vec<u8>, CipherError> {
        let Some(key) = self.0.first() else { return Ok(bytes) };
        let nonce = XNonce::try_generate().map_err(|_| CipherError::NotSealed)?;
        let sealed = key.cipher.encrypt(&nonce, &bytes[..]).map_err(|_| CipherError::NotSealed)?;
        Ok([MAGIC, key.name.as_bytes(), nonce.as_slice(), &sealed].concat())
    }

    /// Opens bytes that were sealed with one of the keys. Others stay as they are: they were written before there was a
    /// key.
    pub(crate) fn open(&self, bytes: Vec<u8>) -> Result<Vec<u8>, CipherError> {
        let Some((name, sealed)) = key_name(&bytes) else { return Ok(bytes) };
        let key = self.0.iter().find(|key| key.name.as_bytes() == name);
        let unknown = || CipherError::Unknown {
            name: String::from_utf8_lossy(name).into_owned(),
            known: self.0.len(),
        };
        let key = key.ok_or_else(unknown)?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or(CipherError::Changed)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| CipherError::Changed)?;
        key.cipher.decrypt(&nonce, sealed).map_err(|_| CipherError::Changed)
    }

    /// Whether bytes are as this program would write them: sealed with the first key, or plain if there is none.
    pub(crate) fn is_current(&self, bytes: &[u8]) -> bool {
        let name = self.0.first().map(|key| key.name.as_bytes());
        name == key_name(bytes).map(|(name, _)| name)
    }
}

/// The name of the key that sealed bytes, and what follows it; `None` if they are not sealed.
fn key_name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.strip_prefix(MAGIC)?.split_at_checked(NAME_CHARS)
}

impl Key {
    fn parse(line: &str) -> Option<Self> {
        if line.len() != 2 * KEY_BYTES || !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(line.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<_>> = (0..KEY_BYTES).map(byte).collect();
        let bytes = bytes?;
        let mut name = hash(&bytes);
        name.truncate(NAME_CHARS);
        Some(Self { name, cipher: XChaCha20Poly1305::new_from_slice(&bytes).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(keys: &str) -> Result<Cipher, CipherError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), keys).unwrap();
        Cipher::read(file.path())
    }

    fn key(digit: char) -> String {
        String::from(digit).repeat(64)
    }

    #[test]
    fn sealed_bytes_are_unreadable_and_open_with_any_of_the_keys() {
        let old = cipher(&key('1')).unwrap();
        let new = cipher(&format!("\n{}\n{}\n", key('2'), key('1'))).unwrap();
        let sealed = old.seal(b"secret".to_vec()).unwrap();
        assert_eq!(sealed.len(), b"secret".len() + OVERHEAD);
        assert!(!sealed.windows(6).any(|six| six == b"secret"));
        assert_ne!(sealed, old.seal(b"secret".to_vec()).unwrap(), "a nonce of its own");
        assert_eq!(new.open(sealed.clone()).unwrap(), b"secret");
        assert!(old.is_current(&sealed) && !new.is_current(&sealed));
        let sealed = new.seal(b"secret".to_vec()).unwrap();
        assert!(matches!(old.open(sealed), Err(CipherError::Unknown { known: 1, .. })));
    }

    #[test]
    fn without_a_key_nothing_is_sealed_and_nothing_sealed_is_opened() {
        let none = Cipher::default();
        assert_eq!(none.seal(b"plain".to_vec()).unwrap(), b"plain");
        let one = cipher(&key('1')).unwrap();
        assert_eq!(
            one.open(b"plain".to_vec()).unwrap(),
            b"plain",
            "written before there was a key"
        );
        assert!(none.is_current(b"plain") && !one.is_current(b"plain"));
        let error = none.open(one.seal(b"secret".to_vec()).unwrap()).unwrap_err();
        assert!(error.to_string().contains("RAYMOND_CLUSTER_KEY_FILE"), "{error}");
    }

    #[test]
    fn changed_bytes_are_refused() {
        let one = cipher(&key('1')).unwrap();
        let sealed = one.seal(b"secret".to_vec()).unwrap();
        for at in [MAGIC.len() + NAME_CHARS, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(matches!(one.open(changed), Err(CipherError::Changed)), "{at}");
        }
        let cut = sealed[..MAGIC.len() + NAME_CHARS + 3].to_vec();
        assert!(matches!(one.open(cut), Err(CipherError::Changed)));
    }

    #[test]
    fn file_that_is_not_a_key_file_says_where() {
        let line = |keys: &str| match cipher(keys) {
            Err(CipherError::Line { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        assert_eq!(line("abc"), 1);
        assert_eq!(line(&format!("{}\n{}", key('1'), key('g'))), 2);
        assert_eq!(line(&"é".repeat(32)), 1);
        assert_eq!(line(&"+1".repeat(32)), 1);
        assert_eq!(line(&"+1".repeat(32)), 1);
        assert!(matches!(cipher("\n \n"), Err(CipherError::Empty { .. })));
        assert!(matches!(Cipher::read(Path::new("/none")), Err(CipherError::File { .. })));
    }
}
