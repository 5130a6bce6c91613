//! Requests to the model API: the forms of HTTP, and the accessors of a request.

use std::time::Duration;

use raymond_testkit::{ModelApi, Reply};
use serde_json::{Value, json};

use crate::client::{Client, prompt};

fn api() -> (ModelApi, Client) {
    let api = ModelApi::start().unwrap();
    api.on("", [Reply::text("yes")]);
    let client = Client::new(&api.base_url());
    (api, client)
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[test]
fn a_connection_carries_many_requests_with_a_length_or_in_chunks() {
    let (api, mut client) = api();
    client.ask(&prompt("one"));

    let body = prompt("two").to_string();
    let (left, right) = body.split_at(10);
    client.send_raw("POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for chunk in [left, right, ""] {
        client.send_raw(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    assert_eq!(client.answer().unwrap().code, 200);

    client.ask(&prompt("three"));
    let texts: Vec<_> = api.requests().iter().map(|it| it.last_user_text().to_owned()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[test]
fn a_client_that_expects_continue_gets_it() {
    let (_api, mut client) = api();
    let body = prompt("go").to_string();
    let length = body.len();
    client.send_raw(&format!(
        "POST /v1/messages HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    ));
    assert!(client.head().unwrap().starts_with("http/1.1 100 "));
    client.send_raw(&body);
    assert_eq!(client.answer().unwrap().code, 200);
}

#[test]
fn a_client_can_close_after_its_answer() {
    let (_api, mut client) = api();
    client.send_raw("GET /none HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().unwrap().code, 404);
    assert!(client.answer().is_none());
}

#[test]
fn other_paths_get_what_claude_code_expects() {
    let (api, mut client) = api();
    client.send_raw("HEAD / HTTP/1.1\r\n\r\n");
    assert!(client.head().unwrap().starts_with("http/1.1 200 "));
    client.send_raw("POST /v1/messages/count_tokens HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}");
    assert_eq!(client.answer().unwrap().json(), json!({ "input_tokens": 10 }));
    client.send_raw("POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{]");
    assert_eq!(client.answer().unwrap().code, 400);
    assert!(api.requests().is_empty());
}

#[test]
fn a_request_answers_what_tests_want_to_know() {
    let (api, mut client) = api();
    let mut body = prompt("hello");
    body["output_config"] = json!({ "effort": "high" });
    body["tools"] = json!([{ "name": "Bash" }]);
    let body = body.to_string();
    let length = body.len();
    client.send_raw(&format!(
        "POST /v1/messages HTTP/1.1\r\nX-App: cli\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    client.answer().unwrap();

    let request = &api.requests()[0];
    assert_eq!(request.model(), "m");
    assert_eq!(request.effort(), Some("high"));
    assert_eq!(request.max_tokens(), Some(100));
    assert_eq!(request.header("x-app"), Some("cli"));
    assert!(request.has_tool("Bash") && !request.has_tool("Read"));
    assert!(!request.is_streaming());
}

#[test]
fn results_of_tools_and_reminders_do_not_hide_the_prompt() {
    let (api, mut client) = api();
    let reminder = text("<system-reminder>\nBe good.\n</system-reminder>\n");
    let result = |content| json!({ "type": "tool_result", "tool_use_id": "t", "content": content });
    client.ask(&json!({ "model": "m", "messages": [
        { "role": "user", "content": "first" },
        { "role": "assistant", "content": [text("I look."), { "type": "tool_use", "id": "t" }] },
        { "role": "user", "content": [result(json!("old"))] },
        { "role": "assistant", "content": [text("Seen.")] },
        { "role": "user", "content": [reminder, text("failed"), text("second")] },
        { "role": "system", "content": "not a person" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "t" }] },
        { "role": "user", "content": [result(json!([text("new")])), reminder] },
    ] }));

    let request = &api.requests()[0];
    assert_eq!(request.last_user_text(), "second");
    assert_eq!(request.tool_results(), ["new"]);
    let texts = request.texts();
    let texts: Vec<_> = texts.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
    let expected = [
        ("user", "first"),
        ("assistant", "I look."),
        ("assistant", "Seen."),
        ("user", "failed"),
        ("user", "second"),
    ];
    assert_eq!(texts, expected);
}

#[test]
#[should_panic(expected = "for 2 requests, saw 1: [\n    \"only this\",\n]")]
fn wait_that_times_out_shows_the_requests_so_far() {
    let (api, mut client) = api();
    client.ask(&prompt("only this"));
    api.wait_for_requests(2, Duration::from_millis(1));
}
