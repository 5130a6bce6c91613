//! Classes of failures.

use super::*;

#[test]
fn fields_say_what_failed_whatever_the_words_are() {
    use FailureClass::{
        AnswerTooLong, Authentication, Billing, Other, PromptTooLong, UnknownModel, UsageLimit,
    };
    let limited = UsageLimit { resets_at: None };
    let words = "You've hit your weekly limit";
    for (kind, status, expected) in [
        ("authentication_failed", "null", Authentication),
        ("unknown", "401", Authentication),
        ("model_not_found", "404", UnknownModel),
        ("max_output_tokens", "null", AnswerTooLong),
        ("server_error", "500", TRANSIENT),
        ("unknown", "529", TRANSIENT),
        ("invalid_request", "413", PromptTooLong),
        ("rate_limit", "429", limited),
        ("unknown", "429", limited),
        // Only the words say it.
        ("unknown", "400", limited),
    ] {
        let end = end_of(&[&told(kind), &error(words, status)], "", Some(1), None);
        assert_eq!(class(end), expected, "{kind} {status}");
    }
    let end = |kind: &str, words: &str, status: &str| {
        class(end_of(&[&told(kind), &error(words, status)], "", Some(1), None))
    };
    assert_eq!(end("unknown", "API Error: 400 You have reached your context budget", "400"), Other);
    let specified = "API Error: 400 You have reached your specified API usage limits.";
    assert_eq!(end("unknown", specified, "400"), limited);
    // Whether it comes back by itself.
    assert_eq!(end("billing_error", "Credit balance is too low", "400"), Billing);
    let credits = "You're out of usage credits · resets Dec 1, 2026, 1am (UTC)";
    let at = UsageLimit { resets_at: Some(1_796_086_800) };
    assert_eq!(end("billing_error", credits, "402"), at);
    // What the reply does not name, the result may.
    let unnamed = error("too long", "null");
    let named = unnamed.replacen('{', r#"{"api_error":"max_output_tokens","#, 1);
    let lines = [&*told("unknown"), &*named];
    assert_eq!(class(end_of(&lines, "", Some(1), None)), AnswerTooLong);
}

#[test]
fn failures_of_options_have_classes_of_their_own() {
    for (subtype, expected) in [
        ("error_max_turns", FailureClass::MaxTurns),
        ("error_max_structured_output_retries", FailureClass::BadOutput),
    ] {
        let line = format!(
            r#"{{"type":"result","subtype":"{subtype}","is_error":true,"errors":["Failed after 5 attempts"],"total_cost_usd":0.01}}"#
        );
        let end = end_of(&[INIT, &line], "", Some(1), None);
        let Outcome::Failed(failure) = &end.outcome else { panic!("{end:?}") };
        assert_eq!((failure.class, &*failure.message), (expected, "Failed after 5 attempts"));
    }
}
