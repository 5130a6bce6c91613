//! Who may ask the server, and for what: everything else is refused.

use serde_json::json;

use super::*;

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
    let desk = Desk::new(SHORT);
    desk.run("first");
    let [host, token] = desk.good();
    let port = ADDRESS.rsplit(':').next().unwrap();
    let run = desk.path("first");
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
    let query = format!("GET {run}?k={}&token={}", desk.token, desk.token);
    let cookie = format!("Cookie: token={0}; k={0}", desk.token);
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
            with(&[&format!("Origin: http://{ADDRESS}"), "Origin: null"]),
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
        let answer = desk.send(&line, &headers, body.to_owned());
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert!(!format!("{:?}", answer.headers).contains("access-control-"), "{what}: {answer:?}");
        assert!(!answer.body.contains(&desk.token), "{what}: {answer:?}");
        if what.ends_with("parameter") || what.ends_with("field") {
            let hint = answer.json()["error"]["hints"][0].take();
            assert!(hint.as_str().is_some_and(|hint| hint.contains("raymond help api")), "{hint}");
        }
    }
    assert_eq!(desk.get("/api/runs").ok()["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn every_hostile_request_about_a_question_is_refused() {
    let desk = Desk::new([
        ("START.sh", "echo '<ask next=\"LAST\" choices=\"ship|hold\">Ship?</ask>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ]);
    let thread = desk.begin_until("a", |run| run["asks"][0].is_object());
    let [host, token] = desk.good();
    let ask = format!("/api/asks/{}/a/main.1", desk.project());
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
        let answer = desk.send(&line, &headers, body.to_owned());
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert!(!format!("{:?}", answer.headers).contains("access-control-"), "{what}: {answer:?}");
    }
    assert_eq!(desk.get(&ask).ok()["answer"], json!(null), "nobody has answered it");
    cancel(&desk, "a");
    thread.join().unwrap();
}

#[test]
fn server_that_only_shows_changes_nothing() {
    let desk = Desk::with(SHORT, |options| options.is_read_only = true);
    desk.run("first");
    let run = desk.path("first");
    desk.get(&run).ok();
    for path in [format!("{run}/stop"), format!("{run}/cancel"), "/api/workflows/x/runs".to_owned()]
    {
        let answer = desk.post(&path, &json!({}));
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(answer.body.contains("--read-only"), "{answer:?}");
    }
}

#[test]
fn wrong_tokens_are_limited_and_the_right_one_still_passes() {
    let desk = Desk::new(SHORT);
    let [host, _] = desk.good();
    let wrong = format!("Authorization: Bearer {}", "f".repeat(64));
    let answers: Vec<_> =
        (0..25).map(|_| desk.send("GET /api/server", &[&host, &wrong], "")).collect();
    assert_eq!(answers.first().unwrap().status, 401);
    let last = answers.last().unwrap();
    assert_eq!((last.status, last.header("retry-after")), (429, "60"));
    desk.get("/api/server").ok();
}

#[test]
fn answers_carry_the_headers_that_keep_a_browser_from_mischief() {
    let desk = Desk::new(SHORT);
    let [host, _] = desk.good();
    let visit =
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    let page = desk.send("GET /", &[&[&*host], &visit[..]].concat(), "");
    assert_eq!(page.status, 200, "a link in a message opens the page: {page:?}");
    let refused = desk.send("GET /api/server", &[&host], "");
    let api = desk.get("/api/server");
    for answer in [&page, &refused, &api] {
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("set-cookie", ""),
        ] {
            assert_eq!(answer.header(name), value, "{name}: {answer:?}");
        }
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    assert!(page.header("content-security-policy").contains("require-trusted-types-for 'script'"));
    for answer in [&refused, &api] {
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[test]
fn page_is_sent_once_and_then_only_if_it_has_changed() {
    let desk = Desk::new(SHORT);
    let [host, _] = desk.good();
    for (path, kind) in
        [("/", "text/html; charset=utf-8"), ("/parts/row.js", "text/javascript; charset=utf-8")]
    {
        let first = desk.send(&format!("GET {path}"), &[&host], "");
        assert_eq!((first.status, first.header("content-type")), (200, kind));
        let known = format!("If-None-Match: {}", first.header("etag"));
        let again = desk.send(&format!("GET {path}"), &[&host, &known], "");
        assert_eq!((again.status, &*again.body), (304, ""), "{path}");
        let old = desk.send(&format!("GET {path}"), &[&host, "If-None-Match: \"old\""], "");
        assert_eq!((old.status, &old.body), (200, &first.body), "{path}");
    }
}

#[test]
fn every_route_of_the_description_needs_the_token() {
    let desk = Desk::new(SHORT);
    let [host, _] = desk.good();
    let text = include_str!("../../../../docs/api.openapi.json");
    let described: Value = serde_json::from_str(text).unwrap();
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.len() > 15);
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let line = format!("{} {}", method.to_uppercase(), path.replace(['{', '}'], ""));
            let answer = desk.send(&line, &[&host], "");
            assert_eq!(answer.status, 401, "{line}: {answer:?}");
        }
    }
}

#[test]
fn name_for_a_proxy_is_ours_also_with_tls() {
    let desk = Desk::with(SHORT, |options| options.hosts = vec!["ray.example".to_owned()]);
    let [_, token] = desk.good();
    for (headers, status) in [
        (&["Host: ray.example", &*token][..], 200),
        (&["Host: ray.example", "Origin: https://ray.example", &token], 200),
        (&["Host: ray.example", "Origin: https://other.example", &token], 403),
        (&["Host: other.example", &token], 421),
    ] {
        let answer = desk.send("GET /api/server", headers, "");
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
    }
}
