//! Keeps large payloads out of Temporal's histories: a payload over 64 KB goes to the store, and its hash travels
//! instead. A Temporal server refuses payloads over 2 MB, and fails the task again and again.

use futures::{FutureExt as _, future::BoxFuture};
use temporalio_common::{
    data_converters::{PayloadCodec, PayloadConversionError, SerializationContextData},
    protos::temporal::api::common::v1::Payload,
};

use crate::store::Store;

/// Payloads with more bytes go to the store.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// The key of a payload's metadata that says how its data is to be read.
const ENCODING: &str = "encoding";
/// The encoding of a payload that is in the store: its data is a hash.
const STORED: &[u8] = b"raymond/stored";

/// Moves large payloads to the store and back.
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
            for payload in payloads {
                encoded.push(if payload.data.len() > INLINE_BYTES_MAX {
                    put(&store, &payload).await?
                } else {
                    payload
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
            for payload in payloads {
                let is_stored = payload.metadata.get(ENCODING).is_some_and(|is| is == STORED);
                decoded.push(if is_stored { get(&store, payload).await? } else { payload });
            }
            Ok(decoded)
        }
        .boxed()
    }
}

/// The original encoding is kept beside the mark.
const INNER: &str = "raymond-encoding";

async fn put(store: &Store, payload: &Payload) -> Result<Payload, PayloadConversionError> {
    let hash = store.put(payload.data.clone()).await.map_err(failed)?;
    let mut stored = payload.clone();
    if let Some(encoding) = stored.metadata.insert(ENCODING.to_owned(), STORED.to_vec()) {
        stored.metadata.insert(INNER.to_owned(), encoding);
    }
    stored.data = hash.into_bytes();
    Ok(stored)
}

async fn get(store: &Store, mut payload: Payload) -> Result<Payload, PayloadConversionError> {
    let hash = String::from_utf8_lossy(&payload.data).into_owned();
    payload.data = store.get(&hash).await.map_err(failed)?;
    payload.metadata.remove(ENCODING);
    if let Some(encoding) = payload.metadata.remove(INNER) {
        payload.metadata.insert(ENCODING.to_owned(), encoding);
    }
    Ok(payload)
}

fn failed(error: crate::store::StoreError) -> PayloadConversionError {
    PayloadConversionError::EncodingError(Box::new(error))
}

#[cfg(test)]
mod tests {
    use temporalio_common::data_converters::WorkflowSerializationContext;

    use super::*;

    #[tokio::test]
    async fn large_payload_is_replaced_by_a_hash_and_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let codec =
            StoreCodec(Store::open(&format!("file://{}", folder.path().display())).unwrap());
        let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
        let payload = |bytes: usize| Payload {
            metadata: [(ENCODING.to_owned(), b"json/plain".to_vec())].into(),
            data: vec![b'7'; bytes],
            ..Payload::default()
        };
        let sent = vec![payload(INLINE_BYTES_MAX), payload(INLINE_BYTES_MAX + 1)];
        let encoded = codec.encode(&context, sent.clone()).await.unwrap();
        assert_eq!(encoded[0], sent[0]);
        assert_eq!(encoded[1].data.len(), 64, "a hash");
        assert_eq!(codec.decode(&context, encoded).await.unwrap(), sent);
    }
}
