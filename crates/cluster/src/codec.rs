//! Keeps large payloads out of Temporal's histories: a payload over 6 KB goes to the store, and its hash travels instead.
//! A Temporal server refuses payloads over 2 MB, and fails the task again and again. If there is a key, what is in the
//! histories and in the store is sealed.

use futures::{FutureExt as _, future::BoxFuture};
use temporalio_common::{
    data_converters::{PayloadCodec, PayloadConversionError, SerializationContextData},
    protos::temporal::api::common::v1::Payload,
};

use crate::store::Store;

/// Payloads with more bytes go to the store. A server ends a workflow whose history has 50 MB: 2,000 steps with an offer,
/// an order and an end each, and 1,500 that the history before had launched, stay below.
const INLINE_BYTES_MAX: usize = 6 * 1024;
/// The key of a payload's metadata that says how its data is to be read.
const ENCODING: &str = "encoding";
/// The encoding of a payload that is in the store: its data is a hash.
const STORED: &[u8] = b"raymond/stored";
/// The encoding of a payload that is sealed.
const SEALED: &[u8] = b"raymond/sealed";

/// Moves large payloads to the store and back, and seals the others.
#[derive(Clone, Debug)]
pub(crate) struct StoreCodec(pub(crate) Store);

impl PayloadCodec for StoreCodec {
    fn encode(
        &self,
        _context: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let store = self.0.clone();
        async move {
            let mut encoded = Vec::with_capacity(payloads.len());
            for mut payload in payloads {
                let data = std::mem::take(&mut payload.data);
                encoded.push(if data.len() > INLINE_BYTES_MAX {
                    let hash = store.put(data).await.map_err(failed)?;
                    wrapped(payload, STORED, hash.into_bytes())
                } else if store.cipher().is_on() {
                    let sealed = store.cipher().seal(data).map_err(failed)?;
                    wrapped(payload, SEALED, sealed)
                } else {
                    Payload { data, ..payload }
                });
            }
            Ok(encoded)
        }
        .boxed()
    }

    fn decode(
        &self,
        _context: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let store = self.0.clone();
        async move {
            let mut decoded = Vec::with_capacity(payloads.len());
            for mut payload in payloads {
                let data = std::mem::take(&mut payload.data);
                decoded.push(match payload.metadata.get(ENCODING).map(Vec::as_slice) {
                    Some(STORED) => {
                        let hash = String::from_utf8_lossy(&data);
                        unwrapped(payload, store.get(&hash).await.map_err(failed)?)
                    }
                    Some(SEALED) => unwrapped(payload, store.cipher().open(data).map_err(failed)?),
                    _ => Payload { data, ..payload },
                });
            }
            Ok(decoded)
        }
        .boxed()
    }
}

/// The original encoding is kept beside the mark.
const INNER: &str = "raymond-encoding";

fn wrapped(mut payload: Payload, encoding: &[u8], data: Vec<u8>) -> Payload {
    if let Some(inner) = payload.metadata.insert(ENCODING.to_owned(), encoding.to_vec()) {
        payload.metadata.insert(INNER.to_owned(), inner);
    }
    Payload { data, ..payload }
}

fn unwrapped(mut payload: Payload, data: Vec<u8>) -> Payload {
    payload.metadata.remove(ENCODING);
    if let Some(inner) = payload.metadata.remove(INNER) {
        payload.metadata.insert(ENCODING.to_owned(), inner);
    }
    Payload { data, ..payload }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> PayloadConversionError {
    PayloadConversionError::EncodingError(Box::new(error))
}

#[cfg(test)]
mod tests {
    use temporalio_common::data_converters::WorkflowSerializationContext;

    use super::*;
    use crate::cipher::Cipher;

    fn codec(folder: &std::path::Path, cipher: Cipher) -> StoreCodec {
        StoreCodec(Store::open(&format!("file://{}", folder.display()), cipher).unwrap())
    }

    fn payload(bytes: usize) -> Payload {
        Payload {
            metadata: [(ENCODING.to_owned(), b"json/plain".to_vec())].into(),
            data: vec![b'7'; bytes],
            ..Payload::default()
        }
    }

    #[tokio::test]
    async fn large_payload_is_replaced_by_a_hash_and_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let codec = codec(folder.path(), Cipher::default());
        let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
        let sent = vec![payload(INLINE_BYTES_MAX), payload(INLINE_BYTES_MAX + 1)];
        let encoded = codec.encode(&context, sent.clone()).await.unwrap();
        assert_eq!(encoded[0], sent[0]);
        assert_eq!(encoded[1].data.len(), 64, "a hash");
        assert_eq!(codec.decode(&context, encoded).await.unwrap(), sent);
    }

    #[tokio::test]
    async fn with_a_key_no_payload_is_readable_and_all_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        std::fs::write(&keys, "1".repeat(64)).unwrap();
        let sealing = codec(folder.path(), Cipher::read(&keys).unwrap());
        let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
        let sent = vec![payload(100), payload(INLINE_BYTES_MAX + 1)];
        let encoded = sealing.encode(&context, sent.clone()).await.unwrap();
        assert!(!encoded[0].data.windows(8).any(|eight| eight == [b'7'; 8]));
        assert_eq!(sealing.decode(&context, encoded.clone()).await.unwrap(), sent);
        let plain = codec(folder.path(), Cipher::default());
        for payload in encoded {
            let error = plain.decode(&context, vec![payload]).await.unwrap_err();
            assert!(error.to_string().contains("is encrypted with the key"), "{error}");
        }
        // What was written before there was a key.
        assert_eq!(sealing.decode(&context, sent.clone()).await.unwrap(), sent);
    }
}
