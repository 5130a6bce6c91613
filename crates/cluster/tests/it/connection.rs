//! What is said when the server cannot be used: a wrong address, a wrong namespace, TLS on one side only.

use std::{
    net::{TcpListener, TcpStream},
    process::Command,
};

use crate::env::{Cluster, Running, text, wait_until};

/// A server with TLS and a certificate that nobody trusts; `None` without `openssl`.
fn tls_server(cluster: &Cluster) -> Option<(Running, u16)> {
    let file = |name: &str| cluster.file(name).display().to_string();
    let (key, certificate) = (file("key.pem"), file("certificate.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: openssl is not installed");
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("openssl");
    command.args(["s_server", "-quiet", "-alpn", "h2", "-key", &key, "-cert", &certificate]);
    let server = Running::start(command.args(["-accept", &format!("127.0.0.1:{port}")]));
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((server, port))
}

#[test]
fn server_that_cannot_be_used_is_named_with_what_to_do() {
    let Some(cluster) = Cluster::start() else { return };
    let port = cluster.port;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut cases = vec![
        (format!("127.0.0.1:{nobody}"), "default", "is a server running at http://127.0.0.1"),
        (
            format!("127.0.0.1:{port}"),
            "nowhere",
            "temporal operator namespace create --namespace nowhere",
        ),
        (format!("https://127.0.0.1:{port}"), "default", "speak TLS"),
        ("not an address".to_owned(), "default", "cannot read --temporal"),
    ];
    let tls = tls_server(&cluster);
    if let Some((_, port)) = &tls {
        cases.push((
            format!("https://127.0.0.1:{port}"),
            "default",
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
        ));
        cases.push((
            format!("127.0.0.1:{port}"),
            "default",
            "with TLS: --temporal https://HOST:7233",
        ));
    }
    for (address, namespace, hint) in cases {
        let mut command = cluster.cluster_at_address(&address, &["list", "--namespace", namespace]);
        let refused = command.output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{address}: {}", text(&refused));
        assert!(text(&refused).contains(hint), "{address}: {}", text(&refused));
    }
}
