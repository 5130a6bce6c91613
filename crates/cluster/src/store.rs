//! Where bundles and large payloads are kept for all machines: an object store, in which the name of an object is the
//! hash of its bytes, before they are sealed.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    path::Path,
};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::cipher::{Cipher, CipherError, OVERHEAD};

/// The largest object: a bundle may have 64 MB.
pub(crate) const OBJECT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How often a request to an S3 server is repeated. Whoever needs the object repeats it after that.
const RETRIES_MAX: usize = 3;
/// After this time a request to an S3 server is not repeated.
const RETRY_MAX: Duration = Duration::from_secs(15);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// How long a connection to an S3 server may take, how long it may be silent, and how long a request may take.
const TIMEOUTS: [(ClientConfigKey, &str); 3] = [
    (ClientConfigKey::ConnectTimeout, "5 seconds"),
    (ClientConfigKey::ReadTimeout, "20 seconds"),
    (ClientConfigKey::Timeout, "5 minutes"),
];
/// What is written to a store to see that it can be used.
const PROBE: &[u8] = b"raymond";

/// An object store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    cipher: Cipher,
}

/// Why an object cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Not a URL that is understood.
    #[error("`{url}` is not a store: {why}")]
    Url {
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// The store failed.
    #[error("the store failed: {0}")]
    Failed(#[from] object_store::Error),
    /// An object cannot be sealed or opened.
    #[error("object {hash} of the store: {source}")]
    Sealed {
        /// Its name.
        hash: String,
        /// Why.
        source: CipherError,
    },
    /// An object is not what its name says.
    #[error("object {hash} of the store is damaged")]
    Damaged {
        /// Its name.
        hash: String,
    },
    /// An object is larger than any that is written.
    #[error(
        "object {hash} of the store has {bytes} bytes, more than the {OBJECT_BYTES_MAX} that are read"
    )]
    TooLarge {
        /// Its name.
        hash: String,
        /// Its size.
        bytes: u64,
    },
}

impl StoreError {
    /// Whether the same request may succeed later, without anybody changing the settings: the store is down, or busy.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Failed(object_store::Error::Generic { .. }))
    }

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        use object_store::Error as E;
        match self {
            Self::Url { .. } => {
                Some("name a store: --store file:///shared/raymond or --store s3://BUCKET/PREFIX")
            }
            Self::Failed(E::PermissionDenied { .. } | E::Unauthenticated { .. }) => Some(
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may read and write below the prefix",
            ),
            Self::Failed(E::Generic { store: "S3", .. }) => Some(
                "is the store up? Check the bucket, AWS_REGION, AWS_ENDPOINT_URL (for http:// also AWS_ALLOW_HTTP=true) and the credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
            ),
            Self::Sealed { source, .. } => source.hint(),
            Self::Failed(_) | Self::Damaged { .. } | Self::TooLarge { .. } => None,
        }
    }
}

impl Store {
    /// The store at a URL such as `file:///shared/raymond` or `s3://BUCKET/PREFIX`. The directory of a `file://` URL is
    /// created. What is stored is sealed, if there are keys.
    pub(crate) fn open(url: &str, cipher: Cipher) -> Result<Self, StoreError> {
        let wrong = |why: String| StoreError::Url { url: url.to_owned(), why };
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        let failed = |error: object_store::Error| wrong(error.to_string());
        match parsed.scheme() {
            "file" => {
                let folder =
                    parsed.to_file_path().map_err(|()| wrong("no absolute path".to_owned()))?;
                std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
                let (objects, prefix) = object_store::parse_url(&parsed).map_err(failed)?;
                Ok(Self { objects: Arc::from(objects), prefix, cipher })
            }
            "s3" => {
                let prefix = Path::from_url_path(parsed.path());
                let prefix = prefix.map_err(|error| wrong(error.to_string()))?;
                Ok(Self { objects: s3(url).map_err(failed)?, prefix, cipher })
            }
            _ => Err(wrong("only file:// and s3:// are known".to_owned())),
        }
    }

    pub(crate) fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    /// Reads an object, and writes it unless it is there, so that wrong settings and keys are noticed before something
    /// depends on them.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let hash = hash(PROBE);
        match self.read(&hash).await {
            // Sealed with an older key, or before there was one: whoever has not the present key shall notice it.
            Ok(sealed) if !self.cipher.is_current(&sealed) => {
                self.unseal(&hash, sealed)?;
                self.write(&hash, PROBE.to_vec()).await
            }
            Ok(sealed) => self.unseal(&hash, sealed).map(drop),
            Err(StoreError::Failed(object_store::Error::NotFound { .. })) => {
                self.write(&hash, PROBE.to_vec()).await
            }
            Err(error) => Err(error),
        }
    }

    /// Stores bytes under their hash, unless they are there already.
    pub(crate) async fn put(&self, bytes: Vec<u8>) -> Result<String, StoreError> {
        let hash = hash(&bytes);
        let size = bytes.len() + if self.cipher.is_on() { OVERHEAD } else { 0 };
        match self.objects.head(&self.path(&hash)).await {
            Ok(found) if usize::try_from(found.size) == Ok(size) => return Ok(hash),
            // A part of it, or something else: whoever has the right bytes repairs it.
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.write(&hash, bytes).await?;
        Ok(hash)
    }

    /// The bytes with this hash.
    pub(crate) async fn get(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let sealed = self.read(hash).await?;
        self.unseal(hash, sealed)
    }

    async fn write(&self, hash: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let failed = |source| StoreError::Sealed { hash: hash.to_owned(), source };
        let sealed = self.cipher.seal(bytes).map_err(failed)?;
        self.objects.put(&self.path(hash), PutPayload::from(sealed)).await?;
        Ok(())
    }

    async fn read(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let found = self.objects.get(&self.path(hash)).await?;
        let bytes = found.meta.size;
        if bytes > OBJECT_BYTES_MAX {
            return Err(StoreError::TooLarge { hash: hash.to_owned(), bytes });
        }
        Ok(found.bytes().await?.to_vec())
    }

    fn unseal(&self, hash: &str, sealed: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let failed = |source| StoreError::Sealed { hash: hash.to_owned(), source };
        let bytes = self.cipher.open(sealed).map_err(failed)?;
        if self::hash(&bytes) != hash {
            return Err(StoreError::Damaged { hash: hash.to_owned() });
        }
        Ok(bytes)
    }

    fn path(&self, hash: &str) -> Path {
        self.prefix.clone().join(hash)
    }
}

/// The bucket of an `s3://` URL, with credentials, region and endpoint from the variables that AWS's tools read.
fn s3(url: &str) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    // The HTTP client takes its TLS from the provider of the process. Another part may have installed one: the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let backoff = BackoffConfig { max_backoff: BACKOFF_MAX, ..BackoffConfig::default() };
    let retry = RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_MAX };
    let mut builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
    for (key, value) in TIMEOUTS {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    // A workflow fetches bundles in a runtime of its own. A connection that is kept would outlive it, and be dead.
    let kept = AmazonS3ConfigKey::Client(ClientConfigKey::PoolMaxIdlePerHost);
    Ok(Arc::new(builder.with_config(kept, "0").build()?))
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &std::path::Path) -> Store {
        Store::open(&format!("file://{}/deeper", folder.display()), Cipher::default()).unwrap()
    }

    #[tokio::test]
    async fn what_is_stored_is_read_back_by_its_hash_and_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let first = store.put(b"one".to_vec()).await.unwrap();
        assert_eq!(store.put(b"one".to_vec()).await.unwrap(), first);
        assert_ne!(store.put(b"two".to_vec()).await.unwrap(), first);
        assert_eq!(store.get(&first).await.unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path().join("deeper")).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn object_that_is_missing_or_damaged_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let hash = store.put(b"one".to_vec()).await.unwrap();
        std::fs::write(folder.path().join("deeper").join(&hash), "other").unwrap();
        assert!(matches!(store.get(&hash).await, Err(StoreError::Damaged { .. })));
        assert!(matches!(store.get("none").await, Err(StoreError::Failed(_))));
    }

    #[tokio::test]
    async fn object_that_was_cut_short_is_repaired_by_storing_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let hash = store.put(b"one".to_vec()).await.unwrap();
        std::fs::write(folder.path().join("deeper").join(&hash), "o").unwrap();
        assert_eq!(store.put(b"one".to_vec()).await.unwrap(), hash);
        assert_eq!(store.get(&hash).await.unwrap(), b"one");
    }

    #[tokio::test]
    async fn directory_that_cannot_be_written_is_noticed_by_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.check().await.unwrap();
        // A file where the directory was.
        std::fs::remove_dir_all(folder.path().join("deeper")).unwrap();
        std::fs::write(folder.path().join("deeper"), "").unwrap();
        assert!(store.check().await.is_err());
    }

    #[tokio::test]
    async fn store_with_keys_is_sealed_and_refuses_those_without() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let url = format!("file://{}/store", folder.path().display());
        let with = |keys: &[char]| {
            let lines = keys.iter().map(|digit| String::from(*digit).repeat(64) + "\n");
            std::fs::write(&file, lines.collect::<String>()).unwrap();
            Store::open(&url, Cipher::read(&file).unwrap()).unwrap()
        };
        let plain = Store::open(&url, Cipher::default()).unwrap();
        plain.check().await.unwrap();
        let before = plain.put(b"before".to_vec()).await.unwrap();
        let old = with(&['1']);
        old.check().await.unwrap();
        assert_eq!(old.get(&before).await.unwrap(), b"before", "from before there was a key");
        let secret = old.put(b"secret".to_vec()).await.unwrap();
        assert_eq!(old.get(&secret).await.unwrap(), b"secret");
        let bytes = std::fs::read(folder.path().join("store").join(&secret)).unwrap();
        assert!(!bytes.windows(6).any(|six| six == b"secret"));
        for refused in [&plain, &with(&['2'])] {
            let error = refused.check().await.unwrap_err();
            assert!(error.to_string().contains("--key-file"), "{error}");
        }
        let new = with(&['2', '1']);
        new.check().await.unwrap();
        assert_eq!(new.get(&secret).await.unwrap(), b"secret");
        assert!(old.check().await.is_err(), "the key was replaced");
    }

    #[test]
    fn url_that_is_none_says_so() {
        let Err(StoreError::Url { url, .. }) = Store::open("nowhere", Cipher::default()) else {
            panic!()
        };
        assert_eq!(url, "nowhere");
        let error = Store::open("gopher://host/x", Cipher::default()).unwrap_err();
        assert!(error.to_string().contains("only file:// and s3://"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--store s3://BUCKET/PREFIX")));
    }
}
