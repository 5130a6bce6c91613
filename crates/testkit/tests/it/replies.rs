//! Replies of the model API: messages, errors, silence, and their order.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use raymond_testkit::{Block, Gate, ModelApi, Reply, Usage};
use serde_json::{Value, json};

use crate::client::{Client, prompt, streaming};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn api() -> (ModelApi, Client) {
    let api = ModelApi::start().unwrap();
    let client = Client::new(&api.base_url());
    (api, client)
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn a_stream_has_the_events_of_the_real_api() {
    let (api, mut client) = api();
    let usage = Usage { input: 7, output: 8, cache_read: 9, cache_write: 10 };
    let tool = Block::tool("Bash", json!({ "command": "ls" }));
    api.on("go", [Reply::blocks([Block::text("I look."), tool]).usage(usage)]);

    let answer = client.ask(&streaming("go"));
    assert_eq!(answer.code, 200);
    assert!(answer.head.contains("content-type: text/event-stream"));
    assert!(answer.body.starts_with("event: message_start\ndata: {"));
    let events = answer.events();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    assert_eq!(
        types(&events),
        [&["message_start"], &block[..], &block[..], &["message_delta", "message_stop"]].concat()
    );
    assert_eq!(events[0]["message"]["model"], "m");
    assert_eq!(events[0]["message"]["usage"]["cache_read_input_tokens"], 9);
    assert_eq!(events[2]["delta"], json!({ "type": "text_delta", "text": "I look." }));
    assert_eq!(events[4]["content_block"]["name"], "Bash");
    assert_eq!(events[5]["delta"]["partial_json"], r#"{"command":"ls"}"#);
    assert_eq!(events[7]["delta"]["stop_reason"], "tool_use");
    assert_eq!(events[7]["usage"]["output_tokens"], 8);
    assert_eq!(events[7]["usage"]["cache_creation_input_tokens"], 10);
}

#[test]
fn without_a_stream_there_is_one_document() {
    let (api, mut client) = api();
    api.on("go", [Reply::text("Hello."), Reply::text("No.").stop_reason("refusal")]);

    let hello = client.ask(&prompt("go")).json();
    assert_eq!(hello["content"], json!([{ "type": "text", "text": "Hello." }]));
    assert_eq!(hello["stop_reason"], "end_turn");
    assert_eq!(hello["usage"]["input_tokens"], 1000);
    assert_eq!(hello["usage"]["output_tokens"], 50);
    assert_eq!(client.ask(&prompt("go")).json()["stop_reason"], "refusal");
}

#[test]
fn a_long_text_comes_in_pieces_that_make_the_whole() {
    let (api, mut client) = api();
    let long = "añ→🦀".repeat(20_000);
    api.on("go", [Reply::text(&long)]);

    let events = client.ask(&streaming("go")).events();
    let pieces: Vec<_> =
        events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert!(pieces.len() > 10);
    assert!(pieces.concat() == long);
}

#[test]
fn replies_come_in_order_and_the_last_one_stays() {
    let (api, mut client) = api();
    api.on("go", [Reply::text("1"), Reply::text("2")]);
    let said: Vec<_> =
        (0..4).map(|_| client.ask(&prompt("go")).json()["content"][0]["text"].clone()).collect();
    assert_eq!(said, ["1", "2", "2", "2"]);
}

#[test]
fn the_latest_rule_goes_first() {
    let (api, mut client) = api();
    api.on("a", [Reply::text("text")]);
    api.answer_with(|request| {
        request.last_user_text().contains("abc").then(|| Reply::text("code"))
    });
    api.on("abcd", [Reply::text("longer")]);
    for (asked, said) in [("abcd", "longer"), ("abc", "code"), ("ab", "text")] {
        assert_eq!(client.ask(&prompt(asked)).json()["content"][0]["text"], said);
    }
}

#[test]
fn a_request_without_a_rule_is_refused_and_shown() {
    let (_api, mut client) = api();
    let answer = client.ask(&streaming("nobody expects this"));
    assert_eq!(answer.code, 400);
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("no rule for: nobody expects this"), "{message}");
}

#[test]
fn an_error_has_the_format_of_the_real_api() {
    let (api, mut client) = api();
    let overloaded =
        Reply::status(529, "overloaded_error", "Overloaded").header("retry-after", "1");
    api.on("go", [overloaded]);

    let answer = client.ask(&streaming("go"));
    assert_eq!(answer.code, 529);
    assert!(answer.head.contains("retry-after: 1\r\n"));
    let error = answer.json();
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"], json!({ "type": "overloaded_error", "message": "Overloaded" }));
}

#[test]
fn a_connection_can_be_dropped_before_the_headers() {
    let (api, mut client) = api();
    api.on("go", [Reply::dropped()]);
    client.send(&streaming("go"));
    assert!(client.answer().is_none());
}

#[test]
fn a_message_can_be_cut() {
    let (api, mut client) = api();
    api.on("go", [Reply::cut()]);

    let stream = client.ask(&streaming("go"));
    assert!(!stream.complete);
    let begun = ["message_start", "content_block_start", "content_block_delta"];
    assert_eq!(types(&stream.events()), begun);

    let document = Client::new(&api.base_url()).ask(&prompt("go"));
    assert!(!document.complete);
}

#[test]
fn a_delay_comes_before_the_headers() {
    let (api, mut client) = api();
    let delay = Duration::from_millis(30);
    api.on("go", [Reply::text("late").after(delay)]);
    let start = Instant::now();
    client.ask(&streaming("go"));
    assert!(start.elapsed() >= delay);
}

#[test]
fn a_gate_holds_replies_until_it_is_opened() {
    let (api, _) = api();
    let gate = Gate::new();
    api.on("held", [Reply::text("at last").held_by(&gate)]);
    api.on("free", [Reply::text("at once")]);

    let (done, answers) = mpsc::channel();
    for text in ["held", "held"] {
        let (mut client, done) = (Client::new(&api.base_url()), done.clone());
        thread::spawn(move || done.send(client.ask(&streaming(text)).code));
    }
    api.wait_for_requests(2, PATIENCE);
    // Held replies do not block this one, and none of them was released.
    assert_eq!(Client::new(&api.base_url()).ask(&prompt("free")).code, 200);
    assert!(answers.try_recv().is_err());
    gate.open();
    assert_eq!(answers.recv_timeout(PATIENCE), Ok(200));
    assert_eq!(answers.recv_timeout(PATIENCE), Ok(200));
}

#[test]
fn the_end_of_the_api_reaches_all_that_wait() {
    let (api, _) = api();
    api.on("idle", [Reply::text("and nothing more is asked")]);
    api.on("hang", [Reply::hang()]);
    api.on("gate", [Reply::text("never").held_by(&Gate::new())]);
    api.on("late", [Reply::text("never").after(PATIENCE * 100)]);

    let mut clients: Vec<_> = (0..4).map(|_| Client::new(&api.base_url())).collect();
    for (client, text) in clients.iter_mut().zip(["idle", "hang", "gate", "late"]) {
        client.send(&streaming(text));
    }
    assert!(clients[0].answer().unwrap().complete);
    api.wait_for_requests(4, PATIENCE);
    drop(api);
    for client in &mut clients {
        assert!(client.answer().is_none());
    }
}

#[test]
fn a_rule_that_panics_closes_its_connection_and_no_other() {
    let (api, mut client) = api();
    api.answer_with(|request| {
        assert_ne!(request.last_user_text(), "panic", "a panic that belongs to this test");
        Some(Reply::text("fine"))
    });
    client.send(&prompt("panic"));
    assert!(client.answer().is_none());
    assert_eq!(Client::new(&api.base_url()).ask(&prompt("calm")).code, 200);
}
