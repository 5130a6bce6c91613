//! The connection to Temporal, from the same files and variables that Temporal's own clients read.

use temporalio_client::{
    Client, ClientOptions, Connection, envconfig::LoadClientConfigProfileOptions,
};
use temporalio_common::data_converters::{
    DataConverter, DefaultFailureConverter, PayloadConverter,
};

use crate::{
    cli::Server,
    codec::StoreCodec,
    commands::{Failure, failed},
    store::Store,
};

/// Connects to the server, with a store for large payloads. `identity` is the name of this process.
pub(crate) async fn connect(
    server: &Server,
    store: &Store,
    identity: &str,
) -> Result<Client, Failure> {
    let loaded = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default());
    let (mut connection, mut options) = loaded.map_err(failed("read the settings of Temporal"))?;
    if let Some(address) = &server.temporal {
        let address =
            if address.contains("://") { address.clone() } else { format!("http://{address}") };
        connection.target = url::Url::parse(&address).map_err(failed("read --temporal"))?;
    }
    if let Some(namespace) = &server.namespace {
        options.namespace.clone_from(namespace);
    }
    connection.identity = identity.to_owned();
    options.data_converter = converter(store);
    let target = connection.target.clone();
    let connected = Connection::connect(connection).await;
    let connected = connected.map_err(|error| {
        failed("reach Temporal")(error)
            .with_hint(format!("is a server running at {target}? Start one: temporal server start-dev, or name another: --temporal HOST:7233"))
    })?;
    Client::new(connected, options).map_err(failed("talk to Temporal"))
}

/// Reads and writes payloads, with the large ones in the store.
pub(crate) fn converter(store: &Store) -> DataConverter {
    DataConverter::new(
        PayloadConverter::default(),
        DefaultFailureConverter::default(),
        StoreCodec(store.clone()),
    )
}
