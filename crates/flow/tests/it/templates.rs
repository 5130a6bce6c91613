//! The text that an agent is given: filling in templates, and the messages that Raymond writes
//! itself. Covers `raymond_flow::prompt`.

use std::collections::BTreeMap;

use raymond_flow::{
    policy::{AllowedTransition, Policy, Problem},
    prompt::{Rendered, Variables, continuation, evaluator_reminder, reminder, render},
    tag::{TagError, TagKind},
};

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let mut variables = Variables::new();
    for (name, value) in pairs {
        variables.set(*name, *value);
    }
    variables
}

/// `template` with `x` = `X`, `result` = `R` and `a.b-c_1` = `D`, all of which it may use.
fn filled(template: &str) -> String {
    let rendered = render(template, &variables(&[("x", "X"), ("result", "R"), ("a.b-c_1", "D")]));
    assert_eq!(rendered.unknown, Vec::<String>::new(), "{template}");
    rendered.text
}

#[test]
fn placeholder_is_replaced_by_its_value() {
    assert_eq!(filled("It said {{result}}."), "It said R.");
    assert_eq!(filled("{{x}}"), "X");
    assert_eq!(filled("{{x}} and {{x}}"), "X and X");
    assert_eq!(filled("{{a.b-c_1}}"), "D");
}

#[test]
fn adjacent_placeholders_are_replaced_each() {
    assert_eq!(filled("{{x}}{{result}}{{x}}"), "XRX");
}

#[test]
fn template_without_placeholders_is_untouched() {
    for template in ["", "plain", "{x}", "} }} {", "a\r\nb\n", "{ {x}}"] {
        assert_eq!(filled(template), template);
    }
}

#[test]
fn whitespace_inside_the_braces_does_not_matter() {
    assert_eq!(filled("{{ x }}|{{  x}}|{{x\t}}"), "X|X|X");
}

#[test]
fn placeholder_ends_on_its_own_line() {
    assert_eq!(filled("{{x\n}}"), "{{x\n}}");
    assert_eq!(filled("{{\nx}}"), "{{\nx}}");
}

#[test]
fn more_braces_than_two_leave_the_outer_ones() {
    assert_eq!(filled("{{{x}}}"), "{X}");
    assert_eq!(filled("{{{{x}}}}"), "{{X}}");
    assert_eq!(filled("{{{ x }}"), "{X");
}

#[test]
fn braces_around_no_name_stay_and_are_not_reported() {
    for template in ["{{}}", "{{ }}", "{{x", "{{x}", "{{x} }", "{{", "{{{", "{{a b}}", "{{x|y}}"] {
        assert_eq!(filled(template), template);
    }
}

#[test]
fn unclosed_placeholder_hides_none_after_it() {
    assert_eq!(filled("{{x and {{x}}"), "{{x and X");
    assert_eq!(filled("{{}}{{x}}"), "{{}}X");
    assert_eq!(filled("{{ {{x}} }}"), "{{ X }}");
}

#[test]
fn unknown_name_stays_as_written_and_is_reported_once() {
    let rendered = render("{{b}} {{ a }} {{b}} {{x}} {{a}}", &variables(&[("x", "X")]));
    let expected = Rendered {
        text: "{{b}} {{ a }} {{b}} X {{a}}".to_owned(),
        unknown: vec!["b".to_owned(), "a".to_owned()],
    };
    assert_eq!(rendered, expected);
}

#[test]
fn names_are_case_sensitive() {
    let rendered = render("{{X}}", &variables(&[("x", "1")]));
    let expected = Rendered { text: "{{X}}".to_owned(), unknown: vec!["X".to_owned()] };
    assert_eq!(rendered, expected);
}

#[test]
fn value_that_contains_a_placeholder_is_never_expanded() {
    let variables = variables(&[("a", "{{b}}"), ("b", "{{a}}"), ("self", "{{self}}")]);
    let rendered = render("{{a}} {{b}} {{self}}", &variables);
    let expected = Rendered { text: "{{b}} {{a}} {{self}}".to_owned(), unknown: vec![] };
    assert_eq!(rendered, expected);
}

#[test]
fn placeholder_that_value_and_template_form_together_is_never_expanded() {
    let variables = variables(&[("a", "{b}"), ("open", "{{"), ("b", "B")]);
    assert_eq!(render("{{{a}}}", &variables).text, "{{b}}");
    assert_eq!(render("{{open}}b}}", &variables).text, "{{b}}");
}

#[test]
fn empty_value_leaves_nothing_behind() {
    let rendered = render("[{{x}}]", &variables(&[("x", "")]));
    assert_eq!(rendered, Rendered { text: "[]".to_owned(), unknown: vec![] });
}

#[test]
fn text_and_values_may_be_of_any_script() {
    let rendered =
        render("Größe {{x}} 日本{{x}}é {{é}} {{日}}", &variables(&[("x", "→\u{0}🦀\r\n")]));
    let text = "Größe →\u{0}🦀\r\n 日本→\u{0}🦀\r\né {{é}} {{日}}".to_owned();
    assert_eq!(rendered, Rendered { text, unknown: vec![] });
}

#[test]
fn later_layer_wins() {
    let layer = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let mut variables = Variables::new();
    variables.layer(&layer(&[("a", "run"), ("b", "run"), ("c", "run")]));
    variables.layer(&layer(&[("b", "fork"), ("c", "fork")]));
    variables.set("c", "step");
    assert_eq!(render("{{a}} {{b}} {{c}}", &variables).text, "run fork step");
    assert_eq!((variables.get("c"), variables.get("d")), (Some("step"), None));
}

// Raymond's own voice.

fn allowed(tag: TagKind, target: Option<&str>, attributes: &[(&str, &str)]) -> AllowedTransition {
    let attributes = attributes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    AllowedTransition {
        tag,
        target: target.map(str::to_owned),
        attributes,
        declared: Vec::new(),
        many: false,
    }
}

/// One allowed transition of each kind, some of them incomplete.
fn policy() -> Policy {
    let allowed = vec![
        allowed(TagKind::Goto, Some("REVIEW.md"), &[]),
        allowed(TagKind::Reset, None, &[]),
        allowed(TagKind::Call, Some("RESEARCH.md"), &[("return", "SUM.md")]),
        allowed(TagKind::Function, Some("EVAL.md"), &[("model", "haiku")]),
        allowed(TagKind::Fork, Some("W.md"), &[("item", "say \"x\""), ("next", "C.md")]),
        allowed(TagKind::Result, None, &[]),
    ];
    Policy { allowed, evaluators: vec![] }
}

#[test]
fn reminder_says_what_was_wrong_and_lists_what_is_allowed() {
    let text = reminder(&Problem::Tag(TagError::None), &policy(), false);
    insta::assert_snapshot!(text, @r#"
    Your last message did not end this step: no transition tag was found.

    Reply with exactly one of these transition tags:

    - <goto>REVIEW.md</goto>
    - <reset>…</reset> (your own text in place of …)
    - <call return="SUM.md">RESEARCH.md</call>
    - <function return="…" model="haiku">EVAL.md</function> (your own text in place of …)
    - <fork next="C.md" item='say "x"'>W.md</fork>
    - <result>…</result> (your own text in place of …)

    Write the tag itself, complete and only once, in your reply.
    "#);
}

#[test]
fn reminder_names_a_transition_that_is_not_allowed() {
    let problem = Problem::NotAllowed { tag: "<goto>ELSEWHERE.md</goto>".to_owned() };
    let only = vec![allowed(TagKind::Goto, Some("NEXT.md"), &[])];
    let text = reminder(&problem, &Policy { allowed: only, evaluators: vec![] }, false);
    insta::assert_snapshot!(text, @r"
    Your last message did not end this step: `<goto>ELSEWHERE.md</goto>` is not among the transitions that this state allows.

    Reply with exactly one of these transition tags:

    - <goto>NEXT.md</goto>

    Write the tag itself, complete and only once, in your reply.
    ");
}

#[test]
fn evaluator_reminder_offers_to_accept_or_to_replace() {
    let only = vec![allowed(TagKind::Goto, Some("NEXT.md"), &[])];
    let policy = Policy { allowed: only, evaluators: vec![] };
    let text = evaluator_reminder(&Problem::Tag(TagError::None), &policy);
    insta::assert_snapshot!(text, @r"
    Your last message was not a judgement: no transition tag was found.

    Reply with exactly one of these tags:

    - <result>accept</result> (follow the transition as it is)
    - <goto>NEXT.md</goto>

    Write the tag itself, complete and only once, in your reply.
    ");
}

#[test]
fn evaluator_reminder_offers_any_transition_where_the_state_allows_all() {
    let text = evaluator_reminder(&Problem::Tag(TagError::None), &Policy::default());
    insta::assert_snapshot!(text, @r"
    Your last message was not a judgement: no transition tag was found.

    Reply with exactly one of these tags:

    - <result>accept</result> (follow the transition as it is)
    - any one transition tag that should be followed instead

    Write the tag itself, complete and only once, in your reply.
    ");
}

#[test]
fn continuation_lists_what_is_allowed() {
    let entries =
        vec![allowed(TagKind::Goto, Some("NEXT.md"), &[]), allowed(TagKind::Result, None, &[])];
    let text = continuation(&Policy { allowed: entries, evaluators: vec![] });
    insta::assert_snapshot!(text, @r"
    Your last turn was interrupted before it ended. Go on from where you stopped: look at what is already done, do not do it again, and finish the task.

    End with exactly one of these transition tags:

    - <goto>NEXT.md</goto>
    - <result>…</result> (your own text in place of …)
    ");
}

#[test]
fn continuation_points_back_to_the_task_where_everything_is_allowed() {
    insta::assert_snapshot!(continuation(&Policy::default()), @"Your last turn was interrupted before it ended. Go on from where you stopped: look at what is already done, do not do it again, and finish the task. End with the transition tag that the task asks for.");
}
