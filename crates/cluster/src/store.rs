//! Where bundles and large payloads are kept for all machines: an object store, in which the name of an object is the
//! hash of its bytes.

use std::{fmt::Write as _, sync::Arc};

use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, path::Path};
use sha2::{Digest as _, Sha256};

/// The largest object: a bundle may have 64 MB.
pub(crate) const OBJECT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// An object store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
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

impl Store {
    /// The store at a URL such as `file:///shared/raymond`. The directory of a `file://` URL is created.
    pub(crate) fn open(url: &str) -> Result<Self, StoreError> {
        let wrong = |why: String| StoreError::Url { url: url.to_owned(), why };
        let parsed = url::Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if parsed.scheme() == "file" {
            let folder =
                parsed.to_file_path().map_err(|()| wrong("no absolute path".to_owned()))?;
            std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
        }
        let (objects, prefix) = object_store::parse_url_opts(&parsed, std::env::vars())
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { objects: Arc::from(objects), prefix })
    }

    /// Stores bytes under their hash, unless they are there already.
    pub(crate) async fn put(&self, bytes: Vec<u8>) -> Result<String, StoreError> {
        let hash = hash(&bytes);
        let path = self.path(&hash);
        match self.objects.head(&path).await {
            Ok(_) => return Ok(hash),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.objects.put(&path, PutPayload::from(bytes)).await?;
        Ok(hash)
    }

    /// The bytes with this hash.
    pub(crate) async fn get(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let found = self.objects.get(&self.path(hash)).await?;
        let (name, bytes) = (|| hash.to_owned(), found.meta.size);
        if bytes > OBJECT_BYTES_MAX {
            return Err(StoreError::TooLarge { hash: name(), bytes });
        }
        let bytes = found.bytes().await?.to_vec();
        if self::hash(&bytes) != hash {
            return Err(StoreError::Damaged { hash: name() });
        }
        Ok(bytes)
    }

    fn path(&self, hash: &str) -> Path {
        self.prefix.clone().join(hash)
    }
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
        Store::open(&format!("file://{}/deeper", folder.display())).unwrap()
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

    #[test]
    fn url_that_is_none_says_so() {
        let Err(StoreError::Url { url, .. }) = Store::open("nowhere") else { panic!() };
        assert_eq!(url, "nowhere");
        assert!(Store::open("gopher://host/x").is_err());
    }
}
