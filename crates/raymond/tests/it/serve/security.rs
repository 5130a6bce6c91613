//! Who may ask the server, and for what: everything else is refused.

use std::fs;

use super::{Server, project};

#[test]
fn guard_stands_before_the_socket() {
    let project = project();
    let server = Server::start(&project, &[]);
    let [host, token] = server.good();
    let run = server.run("first");
    let (get, stop) = (format!("GET {run}"), format!("POST {run}/stop"));
    let json = "Content-Type: application/json";
    let too_long = "Content-Length: 99999999";
    for (what, line, headers, status) in [
        ("no token", &*get, &[&*host][..], 401),
        ("foreign host", &get, &["Host: evil.example", &token], 421),
        ("two hosts", &get, &[&host, "Host: evil.example", &token], 421),
        ("foreign origin", &get, &[&host, &token, "Origin: http://evil.example"], 403),
        ("a form", &stop, &[&host, &token, "Content-Type: text/plain"], 415),
        ("a body that says that it is too long", &stop, &[&host, &token, json, too_long], 413),
        ("page up", "GET /../../etc/passwd", &[&host], 404),
    ] {
        let answer = server.send(line, headers, "");
        // A parser that refuses two hosts by itself is as good.
        let is_refused = answer.status == status || (what == "two hosts" && answer.status == 400);
        assert!(is_refused, "{what}: {answer:?}");
        assert!(!answer.body.contains(&server.token), "{what}: {answer:?}");
    }
}

#[cfg(unix)]
#[test]
fn token_and_list_of_projects_are_closed_to_other_users() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = project();
    let server = Server::start(&project, &[]);
    assert_eq!(server.token.len(), 64);
    let mode = |name: &str| fs::metadata(project.file(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".state/raymond"), 0o700);
    for file in ["serve.token", "serve.json"] {
        assert_eq!(mode(&format!(".state/raymond/{file}")), 0o600, "{file}");
    }
    // The arguments of a process can be seen by everybody.
    let words = fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&words).contains(&server.token));
}

#[test]
fn open_prints_the_link_of_the_running_server_and_says_if_there_is_none() {
    let project = project();
    let none = project.raymond(&["open", "--print"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.stderr.contains("raymond serve"), "{none:?}");
    let server = Server::start(&project, &[]);
    let link = project.raymond(&["open", "--print"]);
    assert_eq!(link.stdout, format!("http://{}/#k={}\n", server.address, server.token));
    drop(server);
    assert_eq!(project.raymond(&["open", "--print"]).code, 2);
}

#[test]
fn another_address_needs_a_name_and_says_what_that_means() {
    let project = project();
    let ran = project.raymond(&["serve", "--listen", "127.0.0.1"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("--host"), "{ran:?}");
    let server = Server::start(&project, &["--listen", "127.0.0.1", "--host", "ray.example"]);
    let [_, token] = server.good();
    let answer = server.send("GET /api/server", &["Host: ray.example", &token], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let origin = "Origin: https://ray.example";
    let answer = server.send("GET /api/server", &["Host: ray.example", origin, &token], "");
    assert_eq!(answer.status, 200, "behind a proxy with TLS: {answer:?}");
}
