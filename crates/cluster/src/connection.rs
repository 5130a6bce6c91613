//! The connection to Temporal, from the same files and variables that Temporal's own clients read.

use temporalio_client::{
    Client, ClientOptions, Connection, NamespacedClient as _, TlsOptions,
    envconfig::LoadClientConfigProfileOptions,
    errors::ClientConnectError,
    grpc::WorkflowService as _,
    tonic::{Code, Request},
};
use temporalio_common::{
    data_converters::{DataConverter, DefaultFailureConverter, PayloadConverter},
    protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest,
};
use url::Url;

use crate::{
    cli::Server,
    codec::StoreCodec,
    failure::{Failure, failed},
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
        connection.target = target(address, connection.tls_options.is_some())?;
    }
    if connection.target.scheme() == "https" && connection.tls_options.is_none() {
        connection.tls_options = Some(TlsOptions::default());
    }
    if let Some(namespace) = &server.namespace {
        options.namespace.clone_from(namespace);
    }
    connection.identity = identity.to_owned();
    options.data_converter = converter(store);
    let target = connection.target.clone();
    let connected = Connection::connect(connection).await;
    let connected = connected.map_err(|error| unreachable(&target, &error))?;
    let client = Client::new(connected, options).map_err(failed("talk to Temporal"))?;
    check_namespace(&client, &target).await?;
    Ok(client)
}

/// The URL of an address such as `HOST:7233`. It is one with TLS if Temporal's settings want that.
fn target(address: &str, has_tls: bool) -> Result<Url, Failure> {
    let scheme = if has_tls { "https" } else { "http" };
    let address =
        if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    Url::parse(&address).map_err(failed("read --temporal"))
}

fn unreachable(target: &Url, error: &ClientConnectError) -> Failure {
    let hint = match error {
        ClientConnectError::TonicTransportError(_) if target.scheme() == "https" => format!(
            "does the server at {target} speak TLS, with a certificate that this machine trusts? Name its authority: TEMPORAL_TLS_SERVER_CA_CERT_PATH; without TLS: --temporal http://HOST:7233"
        ),
        ClientConnectError::SystemInfoCallError(status)
            if matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied) =>
        {
            "check TEMPORAL_API_KEY and the client's certificate: TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH".to_owned()
        }
        _ => format!(
            "is a server running at {target}? Start one: temporal server start-dev, or name another: --temporal HOST:7233; with TLS: --temporal https://HOST:7233"
        ),
    };
    failed(&format!("reach Temporal at {target}"))(error).with_hint(hint)
}

/// Says that a namespace is missing before something else fails because of it. Whoever may not ask is not stopped.
async fn check_namespace(client: &Client, target: &Url) -> Result<(), Failure> {
    let namespace = client.namespace();
    let request = DescribeNamespaceRequest {
        namespace: namespace.clone(),
        ..DescribeNamespaceRequest::default()
    };
    match client.clone().describe_namespace(Request::new(request)).await {
        Err(status) if status.code() == Code::NotFound => {
            let what = format!("use namespace {namespace} at {target}");
            let hint = format!(
                "name another: --namespace NAME, or create it: temporal operator namespace create --namespace {namespace}"
            );
            Err(failed(&what)("there is no such namespace").with_hint(hint))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Reads and writes payloads, with the large ones in the store.
pub(crate) fn converter(store: &Store) -> DataConverter {
    DataConverter::new(
        PayloadConverter::default(),
        DefaultFailureConverter::default(),
        StoreCodec(store.clone()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_a_scheme_has_tls_if_the_settings_of_temporal_say_so() {
        let of = |address, has_tls| target(address, has_tls).unwrap().to_string();
        assert_eq!(of("host:7233", false), "http://host:7233/");
        assert_eq!(of("host:7233", true), "https://host:7233/");
        assert_eq!(of("http://host:7233", true), "http://host:7233/");
        assert_eq!(of("https://host", false), "https://host/");
        assert!(target("a b:1", false).unwrap_err().to_string().contains("cannot read --temporal"));
    }
}
