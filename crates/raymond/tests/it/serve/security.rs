//! Who may ask the server, and for what: everything else is refused.

use std::fs;

use serde_json::{Value, json};

use super::{PATIENCE, Server, project};
use crate::env::{Project, wait_until};

/// What a good request has, and what is wrong with this one.
struct Case<'a> {
    what: &'a str,
    line: String,
    headers: Vec<String>,
    body: &'a str,
    status: u16,
}

fn case<'a>(
    what: &'a str,
    line: &str,
    headers: Vec<String>,
    body: &'a str,
    status: u16,
) -> Case<'a> {
    Case { what, line: line.to_owned(), headers, body, status }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_hostile_request_is_refused() {
    let project = project();
    let server = Server::start(&project, &[]);
    let [host, token] = server.good();
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let run = server.run("first");
    let (get, stop) = (format!("GET {run}"), format!("POST {run}/stop"));
    let absolute = format!("GET http://evil.example{run}");
    let with = |more: &[&str]| -> Vec<String> {
        let own = [host.clone(), token.clone()];
        own.into_iter().chain(more.iter().map(|header| (*header).to_owned())).collect()
    };
    let only = |headers: &[&str]| headers.iter().map(|header| (*header).to_owned()).collect();
    let json = "Content-Type: application/json";
    let (wrong, other_port) =
        (format!("Authorization: Bearer {}", "0".repeat(64)), format!("Host: 127.0.0.1:1{port}"));
    let other_origin = format!("Origin: http://127.0.0.1:1{port}");
    let query = format!("GET {run}?k={}&token={}", server.token, server.token);
    let cookie = format!("Cookie: token={0}; k={0}", server.token);
    let basic = token.replace("Bearer", "Basic");
    let long = json!({ "now": true, "x": "y".repeat(2 * 1024 * 1024) }).to_string();
    let cases = [
        // No proof.
        case("no token", &get, only(&[&host]), "", 401),
        case("wrong token", &get, only(&[&host, &wrong]), "", 401),
        case("token in the URL", &query, only(&[&host]), "", 401),
        case("token in a cookie", &get, only(&[&host, &cookie]), "", 401),
        case("other scheme", &get, only(&[&host, &basic]), "", 401),
        case("two tokens", &get, with(&[&wrong]), "", 401),
        case("unknown route without a token", "GET /api/x", only(&[&host]), "", 401),
        case("POST without a token", &stop, only(&[&host, json]), "{}", 401),
        // Rebound and forged names.
        case("foreign host", &get, only(&["Host: evil.example", &token]), "", 421),
        case(
            "own port of a foreign host",
            &get,
            only(&[&format!("Host: evil.example:{port}"), &token]),
            "",
            421,
        ),
        case("other port", &get, only(&[&other_port, &token]), "", 421),
        case("host with a suffix", &get, only(&[&format!("{host}.evil.example"), &token]), "", 421),
        case("two hosts", &get, with(&["Host: evil.example"]), "", 421),
        case("foreign absolute URI", &absolute, with(&[]), "", 421),
        case("foreign host of the page", "GET /", only(&["Host: evil.example"]), "", 421),
        // Requests that a page of another site makes a browser send.
        case("foreign origin", &get, with(&["Origin: http://evil.example"]), "", 403),
        case("null origin", &get, with(&["Origin: null"]), "", 403),
        case("origin with another port", &get, with(&[&other_origin]), "", 403),
        case(
            "two origins",
            &get,
            with(&[&format!("Origin: http://{}", server.address), "Origin: null"]),
            "",
            403,
        ),
        case("cross-site", &get, with(&["Sec-Fetch-Site: cross-site"]), "", 403),
        case("same-site is another port", &get, with(&["Sec-Fetch-Site: same-site"]), "", 403),
        case(
            "cross-site page in a frame",
            "GET /",
            only(&[
                &host,
                "Sec-Fetch-Site: cross-site",
                "Sec-Fetch-Mode: navigate",
                "Sec-Fetch-Dest: iframe",
            ]),
            "",
            403,
        ),
        case(
            "cross-site script",
            "GET /",
            only(&[&host, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"]),
            "",
            403,
        ),
        case(
            "cross-site visit of the API",
            &get,
            with(&[
                "Sec-Fetch-Site: cross-site",
                "Sec-Fetch-Mode: navigate",
                "Sec-Fetch-Dest: document",
            ]),
            "",
            403,
        ),
        case("cross-site POST", &stop, with(&[json, "Origin: http://evil.example"]), "{}", 403),
        case(
            "preflight",
            &format!("OPTIONS {run}/stop"),
            with(&["Origin: http://evil.example"]),
            "",
            403,
        ),
        // What a form can send.
        case("text", &stop, with(&["Content-Type: text/plain"]), "{}", 415),
        case("form", &stop, with(&["Content-Type: application/x-www-form-urlencoded"]), "{}", 415),
        case(
            "multipart",
            &stop,
            with(&["Content-Type: multipart/form-data; boundary=x"]),
            "{}",
            415,
        ),
        case("no type", &stop, with(&[]), "{}", 415),
        case(
            "other charset",
            &stop,
            with(&["Content-Type: application/json; charset=utf-16"]),
            "{}",
            415,
        ),
        case("two types", &stop, with(&["Content-Type: text/plain, application/json"]), "{}", 415),
        // Methods.
        case("own preflight", &format!("OPTIONS {run}"), with(&[]), "", 405),
        case("PUT", &format!("PUT {run}"), with(&[json]), "{}", 405),
        case("DELETE", &format!("DELETE {run}"), with(&[]), "", 405),
        case("TRACE", &format!("TRACE {run}"), with(&[]), "", 405),
        case("GET of a change", &format!("GET {run}/stop"), with(&[]), "", 405),
        case("POST of a view", &format!("POST {run}"), with(&[json]), "{}", 405),
        // Bodies.
        case("too large", &stop, with(&[json]), &long, 413),
        case("no JSON", &stop, with(&[json]), "now", 400),
        case("wrong type", &stop, with(&[json]), r#"{"now":"yes"}"#, 400),
        case("misspelled field", &stop, with(&[json]), r#"{"nwo":true}"#, 400),
        case("unknown parameter", &format!("GET {run}/steps?path=/etc"), with(&[]), "", 400),
        case("wrong parameter", &format!("GET {run}/steps?limit=many"), with(&[]), "", 400),
        // Paths.
        case(
            "run out of the directory",
            &format!("GET {}/..%2f..%2ffirst", run.rsplit_once('/').unwrap().0),
            with(&[]),
            "",
            404,
        ),
        case("project by path", "GET /api/runs/..%2f..%2fetc/first", with(&[]), "", 404),
        case("step by path", &format!("GET {run}/steps/..%2f..%2fmain.1"), with(&[]), "", 404),
        case(
            "file by path",
            &format!("GET {run}/steps/main.1/files/..%2f..%2f..%2ffirst.journal"),
            with(&[]),
            "",
            404,
        ),
        case(
            "other file of a step",
            &format!("GET {run}/steps/main.1/files/exit"),
            with(&[]),
            "",
            404,
        ),
        case("page out of the page", "GET /..%2f..%2fCargo.toml", only(&[&host]), "", 404),
        case("page up", "GET /../../etc/passwd", only(&[&host]), "", 404),
        case("workflow by path", "POST /api/workflows/%2fetc/runs", with(&[json]), "{}", 404),
    ];
    for Case { what, line, headers, body, status } in cases {
        let headers: Vec<_> = headers.iter().map(String::as_str).collect();
        let answer = server.send(&line, &headers, body);
        // A parser that refuses two hosts by itself is as good.
        let is_refused = answer.status == status || (what == "two hosts" && answer.status == 400);
        assert!(is_refused, "{what}: {answer:?}");
        assert!(!answer.head.contains("access-control-"), "{what}: {answer:?}");
        assert!(!answer.body.contains(&server.token), "{what}: {answer:?}");
        if what.ends_with("parameter") || what.ends_with("field") {
            let hint = answer.json()["error"]["hints"][0].take();
            assert!(hint.as_str().is_some_and(|hint| hint.contains("raymond help api")), "{hint}");
        }
    }
    assert_eq!(server.get("/api/runs").ok()["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn every_hostile_request_about_a_question_is_refused() {
    let project = Project::new([
        ("START.sh", "echo '<ask next=\"LAST\" choices=\"ship|hold\">Ship?</ask>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ]);
    project.raymond(&["flow", "--id", "a", "--detach"]);
    let server = Server::start(&project, &[]);
    wait_until("it asks", PATIENCE, || server.get("/api/asks").ok()["asks"][0].is_object());
    let [host, token] = server.good();
    let ask = format!("/api/asks/{}/a/main.1", server.project());
    let (get, answer) = (format!("GET {ask}"), format!("POST {ask}/answer"));
    let upload = format!("POST {ask}/files/x.txt");
    let (json, raw) = ("Content-Type: application/json", "Content-Type: application/octet-stream");
    let form = "Content-Type: application/x-www-form-urlencoded";
    let multipart = "Content-Type: multipart/form-data; boundary=x";
    let (foreign, site) = ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site");
    let body = r#"{"label":"ship"}"#;
    let large = r#"{"label":"ship","text":""#.to_owned() + &"x".repeat(2 * 1024 * 1024) + "\"}";
    let only = |headers: &[&str]| -> Vec<String> {
        headers.iter().map(|header| (*header).to_owned()).collect()
    };
    let with = |more: &[&str]| only(&[&[&*host, &token], more].concat());
    let without = |more: &[&str]| only(&[&[&*host], more].concat());
    let cases = [
        case("list without a token", "GET /api/asks", without(&[]), "", 401),
        case("question without a token", &get, without(&[]), "", 401),
        case("answer without a token", &answer, without(&[json]), body, 401),
        case("upload without a token", &upload, without(&[raw]), "x", 401),
        case(
            "answer to a foreign host",
            &answer,
            only(&["Host: evil.example", &token, json]),
            body,
            421,
        ),
        case("answer of another site", &answer, with(&[json, foreign]), body, 403),
        case("answer that a site caused", &answer, with(&[json, site]), body, 403),
        case("upload of another site", &upload, with(&[raw, foreign]), "x", 403),
        case("answer by a form", &answer, with(&[form]), "label=ship", 415),
        case("answer without a type", &answer, with(&[]), body, 415),
        case("answer as text", &answer, with(&["Content-Type: text/plain"]), body, 415),
        case("upload by a form", &upload, with(&[multipart]), "x", 415),
        case("upload as JSON", &upload, with(&[json]), body, 415),
        case("answer too large", &answer, with(&[json]), &large, 413),
        case("misspelled field", &answer, with(&[json]), r#"{"lable":"ship"}"#, 400),
        case(
            "answer in the name of another",
            &answer,
            with(&[json]),
            r#"{"label":"ship","by":"x"}"#,
            400,
        ),
        case(
            "file by path",
            &answer,
            with(&[json]),
            r#"{"label":"ship","files":["../../x"]}"#,
            400,
        ),
        case("answer by GET", &format!("GET {ask}/answer"), with(&[]), "", 405),
        case("question by POST", &format!("POST {ask}"), with(&[json]), "{}", 405),
        case("attachment by path", &format!("GET {ask}/files/..%2fquestion"), with(&[]), "", 404),
        case("upload by path", &format!("POST {ask}/files/..%2fx"), with(&[raw]), "x", 400),
        case("question by path", &get.replace("main.1", "..%2fmain.1"), with(&[]), "", 404),
        case("question of a path", &get.replace("/a/", "/..%2fa/"), with(&[]), "", 404),
        case(
            "question that was not asked",
            &answer.replace("main.1", "main.9"),
            with(&[json]),
            body,
            404,
        ),
    ];
    for Case { what, line, headers, body, status } in cases {
        let headers: Vec<_> = headers.iter().map(String::as_str).collect();
        let answer = server.send(&line, &headers, body);
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert!(!answer.head.contains("access-control-"), "{what}: {answer:?}");
    }
    assert_eq!(server.get(&ask).ok()["answer"], json!(null), "nobody has answered it");
}

#[test]
fn starting_through_the_network_can_do_less_than_the_command_line() {
    let project = project();
    let server = Server::start(&project, &["--max-budget", "5"]);
    let workflow = server.get("/api/workflows").ok()["workflows"][0]["workflow"].clone();
    let path = format!("/api/workflows/{}/runs", workflow.as_str().unwrap());
    for (field, value) in [
        ("dangerously_skip_permissions", json!(true)),
        ("agent", json!("program")),
        ("agent_program", json!("sh -c evil")),
        ("environment", json!({ "PATH": "/tmp" })),
        ("cwd", json!("/")),
        ("workflow", json!("/etc")),
        ("debug", json!(true)),
        ("budget_usd", json!(5.01)),
        ("budget_usd", json!(0)),
        ("budget_usd", json!(-1)),
        ("id", json!("../../x")),
        ("id", json!("--debug")),
    ] {
        let answer = server.post(&path, &json!({ field: value }));
        assert_eq!(answer.status, 400, "{field}: {answer:?}");
    }
    let many: serde_json::Map<_, _> = (0..101).map(|n| (format!("v{n}"), json!(""))).collect();
    let long = json!({ "v": "x".repeat(64 * 1024) });
    for (variables, why) in [(Value::Object(many), "at most 100"), (long, "`v` has more than")] {
        let answer = server.post(&path, &json!({ "variables": variables }));
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains(why), "{answer:?}");
    }
    // A variable cannot become an option or another file.
    let odd = server.post(&path, &json!({ "variables": { "--debug\n": "x" } }));
    assert_eq!(odd.status, 409, "{odd:?}");
    assert_eq!(server.get("/api/runs").ok()["runs"].as_array().map(Vec::len), Some(1));
    let resume =
        server.post(&format!("{}/limits", server.run("first")), &json!({ "budget_usd": 6 }));
    assert_eq!(resume.status, 400, "{resume:?}");
}

#[test]
fn server_that_only_shows_changes_nothing() {
    let project = project();
    let server = Server::start(&project, &["--read-only"]);
    let run = server.run("first");
    server.get(&run).ok();
    for path in [format!("{run}/stop"), format!("{run}/cancel"), "/api/workflows/x/runs".to_owned()]
    {
        let answer = server.post(&path, &json!({}));
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(answer.body.contains("--read-only"), "{answer:?}");
    }
}

#[test]
fn wrong_tokens_are_limited_and_the_right_one_still_passes() {
    let project = project();
    let server = Server::start(&project, &[]);
    let [host, _] = server.good();
    let wrong = format!("Authorization: Bearer {}", "f".repeat(64));
    let statuses: Vec<_> =
        (0..25).map(|_| server.send("GET /api/server", &[&host, &wrong], "").status).collect();
    assert_eq!(statuses.first(), Some(&401));
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    server.get("/api/server").ok();
}

#[test]
fn answers_carry_the_headers_that_keep_a_browser_from_mischief() {
    let project = project();
    let server = Server::start(&project, &[]);
    let [host, _] = server.good();
    let visit =
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    let page = server.send("GET /", &[&[&*host], &visit[..]].concat(), "");
    assert_eq!(page.status, 200, "a link in a message opens the page: {page:?}");
    let refused = server.send("GET /api/server", &[&host], "");
    let api = server.get("/api/server");
    for answer in [&page, &refused, &api] {
        for header in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "default-src 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(answer.head.contains(header), "{header}: {answer:?}");
        }
        assert!(!answer.head.contains("set-cookie"), "{answer:?}");
        assert!(!answer.head.contains("unsafe"), "{answer:?}");
    }
    assert!(page.head.contains("require-trusted-types-for 'script'"), "{page:?}");
    assert!(page.head.contains("\r\netag: "), "{page:?}");
    for answer in [&refused, &api] {
        assert!(answer.head.contains("cache-control: no-store"), "{answer:?}");
    }
}

#[test]
fn every_route_of_the_description_needs_the_token() {
    let project = project();
    let server = Server::start(&project, &[]);
    let [host, _] = server.good();
    let text = include_str!("../../../../../docs/api.openapi.json");
    let described: Value = serde_json::from_str(text).unwrap();
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.len() > 15);
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let line = format!("{} {}", method.to_uppercase(), path.replace(['{', '}'], ""));
            let answer = server.send(&line, &[&host], "");
            assert_eq!(answer.status, 401, "{line}: {answer:?}");
        }
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
