//! Parsing state files: fences, every key of the frontmatter, and every problem with its place and
//! message. Covers `raymond_flow::source`.

use raymond_flow::{
    id::StateName,
    money::Usd,
    policy::{AllowedTransition, Evaluator, Policy},
    source::{
        Diagnostic, Frontmatter, Matter, OPTION_KEYS, Platform, Prompt, SchemaSource, Severity,
        StateFile, StateFileError, StateKind, StateKindError, StateSource, Timeout, TurnOptions,
    },
    tag::TagKind,
    text::{Position, Span, Spanned},
};

fn read(text: &str) -> Result<StateFile, StateFileError> {
    StateFile::read("STATE.md", text.as_bytes(), Platform::Unix)
}

/// The prompt that `text` must be.
fn prompt(text: &str) -> Prompt {
    match read(text).map(|file| file.source) {
        Ok(StateSource::Prompt(prompt)) => *prompt,
        other => panic!("{text:?} is no prompt: {other:?}"),
    }
}

/// The frontmatter in `yaml`, which must be without findings. It starts on line 2.
fn declared(yaml: &str) -> Frontmatter {
    let prompt = prompt(&format!("---\n{yaml}\n---\nbody\n"));
    assert_eq!(prompt.warnings, [], "{yaml}");
    prompt.frontmatter
}

/// All findings about `text`.
fn diagnostics(text: &str) -> Vec<Diagnostic> {
    match read(text) {
        Err(StateFileError::Frontmatter { diagnostics }) => diagnostics,
        Ok(StateFile { source: StateSource::Prompt(prompt), .. }) => prompt.warnings,
        other => panic!("{text:?} is no prompt: {other:?}"),
    }
}

/// The errors in `yaml`, which starts on line 2, as they are shown.
fn errors(yaml: &str) -> Vec<String> {
    let found = diagnostics(&format!("---\n{yaml}\n---\nbody\n"));
    assert!(found.iter().all(|found| found.severity == Severity::Error), "{found:?}");
    found.iter().map(ToString::to_string).collect()
}

/// The warnings about `yaml`, which starts on line 2, as they are shown.
fn warnings(yaml: &str) -> Vec<String> {
    let found = prompt(&format!("---\n{yaml}\n---\nbody\n")).warnings;
    assert!(found.iter().all(|found| found.severity == Severity::Warning), "{found:?}");
    found.iter().map(ToString::to_string).collect()
}

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

fn values<T: Clone>(entries: &[Spanned<T>]) -> Vec<T> {
    entries.iter().map(|entry| entry.value.clone()).collect()
}

/// The body of `text`, which declares nothing.
fn bare_body(text: &str) -> String {
    let prompt = prompt(text);
    assert_eq!(prompt.frontmatter, Frontmatter::default(), "{text:?}");
    assert_eq!(prompt.warnings, [], "{text:?}");
    assert_eq!(prompt.body_span.slice(text), Some(prompt.body.as_str()), "{text:?}");
    prompt.body
}

// The file as a whole.

#[test]
fn prompt_without_frontmatter_is_all_body() {
    let file = read("").unwrap();
    let expected = StateFile {
        name: StateName::new("STATE.md"),
        // The first half of the well-known SHA-256 of nothing.
        digest: "e3b0c44298fc1c149afbf4c8996fb924".to_owned(),
        runs_on: vec![],
        source: StateSource::Prompt(Box::new(Prompt {
            frontmatter: Frontmatter::default(),
            body: String::new(),
            body_span: Span::new(0, 0),
            warnings: vec![],
        })),
    };
    assert_eq!(file, expected);
    assert_eq!(file.kind(), StateKind::Prompt);
    assert_eq!(bare_body("Do this.\n\nThen that.\n"), "Do this.\n\nThen that.\n");
}

#[test]
fn labels_are_in_the_frontmatter_of_a_prompt_and_in_the_comment_of_a_script() {
    let labels = |name: &str, text: &str| {
        let file = StateFile::read(name, text.as_bytes(), Platform::Unix);
        file.map(|file| file.runs_on.join(" ")).map_err(|error| error.to_string())
    };
    let cases = [
        ("A.md", "---\nruns_on: [gpu, big, gpu]\n---\nx", "big gpu"),
        ("A.md", "---\nruns_on:\n---\nx", ""),
        ("A.md", "# runs_on: [gpu]\n", ""),
        ("A.sh", "#!/bin/bash\n# Trains.\n\n# runs_on: [gpu, a-1.b_2]\necho", "a-1.b_2 gpu"),
        ("A.sh", "# runs_on: [gpu]", "gpu"),
        ("A.sh", "echo\n# runs_on: [gpu]\n", ""),
        ("A.sh", "#runs_on: [gpu]\n", ""),
        ("A.sh", "", ""),
    ];
    for (name, text, expected) in cases {
        assert_eq!(labels(name, text).as_deref(), Ok(expected), "{text:?}");
    }
    let wrong = [
        ("A.md", "---\nruns_on: gpu\n---\nx", "A.md:2:10: `runs_on` should be a list"),
        ("A.md", "---\nruns_on: [a+b]\n---\nx", "A.md:2:11: `runs_on` should be a list of labels"),
        ("A.md", "---\nruns_on: [a, b, c, d, e]\n---\nx", "at most 4 labels"),
        ("A.sh", "# x\n# runs_on: [a b]\n", "A.sh:2:13: `runs_on` should be a list of labels"),
        ("A.sh", "# runs_on: [a\n", "A.sh:1:"),
    ];
    for (name, text, expected) in wrong {
        let error = labels(name, text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn digest_is_of_all_bytes() {
    let digest = |text: &str| read(text).unwrap().digest;
    // As `printf abc | sha256sum` prints it.
    assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223");
    assert_ne!(digest("---\nmodel: a\n---\nx"), digest("---\nmodel: b\n---\nx"));
    assert_ne!(digest("x\n"), digest("x\r\n"));
}

#[test]
fn script_is_never_read_for_frontmatter() {
    let bytes = b"---\nmodel: [broken\n\xff\xfe\0";
    for (name, platform) in [("RUN.sh", Platform::Unix), ("RUN.bat", Platform::Windows)] {
        let file = StateFile::read(name, bytes, platform).unwrap();
        assert_eq!(file.name, StateName::new(name));
        assert_eq!(file.source, StateSource::Script);
        assert_eq!(file.kind(), StateKind::Script);
    }
}

#[test]
fn file_that_cannot_be_a_state_here_is_refused() {
    let name = "RUN.bat".to_owned();
    let kind = StateKindError::WrongPlatform { name, needs: Platform::Windows };
    let file = StateFile::read("RUN.bat", b"", Platform::Unix);
    assert_eq!(file, Err(StateFileError::Kind(kind)));

    let error = StateFile::read("RUN.py", b"", Platform::Unix).unwrap_err();
    let kind = StateKindError::Unsupported { name: "RUN.py".to_owned() };
    assert_eq!(error, StateFileError::Kind(kind));
    assert_eq!(error.to_string(), "`RUN.py` is not a state: states end in .md, .sh or .bat");
}

#[test]
fn prompt_that_is_not_utf8_says_where() {
    let error = StateFile::read("STATE.md", b"one\ntw\xc3\xb6 \xff", Platform::Unix).unwrap_err();
    let expected = StateFileError::NotUtf8 {
        name: "STATE.md".to_owned(),
        offset: 9,
        position: Position { line: 2, column: 5 },
    };
    assert_eq!(error, expected);
    assert_eq!(
        error.to_string(),
        "`STATE.md` is not UTF-8 text: byte 9 (line 2) cannot be part of a character"
    );
    // A character that is cut off is no character.
    let error = StateFile::read("STATE.md", b"\xe6\x97", Platform::Unix).unwrap_err();
    assert!(matches!(error, StateFileError::NotUtf8 { offset: 0, .. }), "{error:?}");
}

// Fences.

#[test]
fn body_starts_after_the_closing_fence() {
    let text = "---\nmodel: opus\n---\n\nDo this.\n";
    let prompt = prompt(text);
    assert_eq!(prompt.frontmatter.model.map(|model| model.value).as_deref(), Some("opus"));
    assert_eq!(prompt.body, "\nDo this.\n");
    assert_eq!(prompt.body_span, Span::new(20, 30));
    assert_eq!(prompt.body_span.slice(text), Some("\nDo this.\n"));
}

#[test]
fn windows_lines_are_read_like_others() {
    let text = "---\r\nmodel: opus\r\nallowed_transitions:\r\n  - tag: goto\r\n    target: A.md\r\n\
                ---\r\nDo\r\nthis.\r\n";
    let prompt = prompt(text);
    assert_eq!(prompt.frontmatter.model, Some(Spanned::new("opus".to_owned(), Span::new(12, 16))));
    let entries = values(&prompt.frontmatter.allowed_transitions);
    assert_eq!(entries, [allowed(TagKind::Goto, Some("A.md"), &[])]);
    assert_eq!(prompt.body, "Do\r\nthis.\r\n");
    assert_eq!(prompt.body_span.slice(text), Some("Do\r\nthis.\r\n"));
}

#[test]
fn windows_lines_do_not_move_the_place_of_an_error() {
    let found = diagnostics("---\r\nmodel: opus\r\neffort: high\r\ntimeout: soon\r\n---\r\n");
    let expected = "STATE.md:4:10: `timeout`: expected seconds, or a number with `s`, `m` or `h` \
                    (`90`, `10m`, `2h`), not `soon`";
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn byte_order_mark_is_not_part_of_anything() {
    assert_eq!(bare_body("\u{feff}Do this."), "Do this.");
    let text = "\u{feff}---\nmodel: opus\n---\nDo this.";
    let prompt = prompt(text);
    assert_eq!(prompt.frontmatter.model, Some(Spanned::new("opus".to_owned(), Span::new(14, 18))));
    assert_eq!(prompt.body, "Do this.");
    assert_eq!(prompt.body_span.slice(text), Some("Do this."));
}

#[test]
fn byte_order_mark_does_not_move_the_place_of_an_error() {
    let found = diagnostics("\u{feff}---\ntimeout: soon\n---\n");
    assert_eq!(found[0].position, Position { line: 2, column: 10 });
    let found = diagnostics("\u{feff}---\nmodel: opus\n");
    assert_eq!(found[0].position, Position { line: 1, column: 1 });
    assert_eq!(found[0].span, Span::new(3, 6));
}

#[test]
fn frontmatter_may_be_empty() {
    assert_eq!(bare_body("---\n---\nDo this."), "Do this.");
    assert_eq!(bare_body("---\n\n  \n---\nDo this."), "Do this.");
    assert_eq!(bare_body("---\n# only a comment\n---\nDo this."), "Do this.");
    assert_eq!(bare_body("---\n---"), "");
    assert_eq!(bare_body(""), "");
}

#[test]
fn spaces_after_a_fence_do_not_matter() {
    assert_eq!(bare_body("--- \t\n---  \nDo this."), "Do this.");
}

#[test]
fn rule_inside_the_body_is_body() {
    assert_eq!(bare_body("Part 1\n---\nmodel: opus\n---\n"), "Part 1\n---\nmodel: opus\n---\n");
    assert_eq!(bare_body("\n---\nmodel: opus\n---\n"), "\n---\nmodel: opus\n---\n");
    let prompt = prompt("---\nmodel: opus\n---\nPart 1\n---\neffort: high\n---\n");
    assert_eq!(prompt.body, "Part 1\n---\neffort: high\n---\n");
    assert_eq!(prompt.frontmatter.effort, None);
}

#[test]
fn line_that_only_resembles_a_fence_is_none() {
    for text in ["----\nx\n----\n", "--- x\n---\n", " ---\nx\n---\n", "--\nx\n--\n"] {
        assert_eq!(bare_body(text), text);
    }
}

#[test]
fn fence_that_is_never_closed_is_an_error_at_the_fence() {
    for text in ["---\nmodel: opus\n\nDo this.\n", "---", "---\n", "---\nmodel: opus\n ---\n"] {
        let expected = Diagnostic {
            severity: Severity::Error,
            matter: Matter::Frontmatter,
            file: "STATE.md".to_owned(),
            span: Span::new(0, 3),
            position: Position { line: 1, column: 1 },
            message: "frontmatter starts here but no line `---` ends it".to_owned(),
            suggestion: None,
        };
        let expected = StateFileError::Frontmatter { diagnostics: vec![expected] };
        assert_eq!(read(text), Err(expected), "{text:?}");
    }
    assert_eq!(
        read("---\n").unwrap_err().to_string(),
        "STATE.md:1:1: frontmatter starts here but no line `---` ends it"
    );
}

// What the frontmatter can declare.

#[test]
fn every_key_is_read_in_block_form() {
    let frontmatter = declared(
        "allowed_transitions:
  - tag: goto
    target: REVIEW.md
  - tag: reset
    target: PHASE2
    cd: ../tree
  - tag: call
    target: RESEARCH.md
    return: SUMMARIZE.md
  - tag: function
    target: EVAL.md
    return: NEXT.md
    model: haiku
  - tag: fork
    target: WORKER.md
    next: CONTINUE.md
    item: one
  - tag: result
model: sonnet
effort: high
timeout: 10m
agent: claude
evaluators:
  - match: '(?i)cannot proceed'
    then:
      tag: goto
      target: ESCALATE.md
  - prompt: JUDGE.md
    model: haiku
  - prompt: SECOND",
    );
    assert_eq!(values(&frontmatter.allowed_transitions), all_transitions());
    assert_eq!(values(&frontmatter.evaluators), all_evaluators());
    assert_eq!(frontmatter.model.unwrap().value, "sonnet");
    assert_eq!(frontmatter.effort.unwrap().value, "high");
    assert_eq!(frontmatter.timeout.unwrap().value, Timeout::from_seconds(600));
    assert_eq!(frontmatter.agent.unwrap().value, "claude");
}

#[test]
fn every_key_is_read_in_flow_form() {
    let frontmatter = declared(
        "{ allowed_transitions: [
    { tag: goto, target: REVIEW.md },
    { tag: reset, target: PHASE2, cd: ../tree },
    { tag: call, target: RESEARCH.md, return: SUMMARIZE.md },
    { tag: function, target: EVAL.md, return: NEXT.md, model: haiku },
    { tag: fork, target: WORKER.md, next: CONTINUE.md, item: one },
    { tag: result },
  ],
  model: sonnet, effort: \"high\", timeout: 600, agent: 'claude',
  evaluators: [
    { match: '(?i)cannot proceed', then: { tag: goto, target: ESCALATE.md } },
    { prompt: JUDGE.md, model: haiku }, { prompt: SECOND },
  ] }",
    );
    assert_eq!(values(&frontmatter.allowed_transitions), all_transitions());
    assert_eq!(values(&frontmatter.evaluators), all_evaluators());
    assert_eq!(frontmatter.model.unwrap().value, "sonnet");
    assert_eq!(frontmatter.effort.unwrap().value, "high");
    assert_eq!(frontmatter.timeout.unwrap().value, Timeout::from_seconds(600));
    assert_eq!(frontmatter.agent.unwrap().value, "claude");
}

fn all_transitions() -> Vec<AllowedTransition> {
    vec![
        allowed(TagKind::Goto, Some("REVIEW.md"), &[]),
        allowed(TagKind::Reset, Some("PHASE2"), &[("cd", "../tree")]),
        allowed(TagKind::Call, Some("RESEARCH.md"), &[("return", "SUMMARIZE.md")]),
        allowed(TagKind::Function, Some("EVAL.md"), &[("model", "haiku"), ("return", "NEXT.md")]),
        allowed(TagKind::Fork, Some("WORKER.md"), &[("item", "one"), ("next", "CONTINUE.md")]),
        allowed(TagKind::Result, None, &[]),
    ]
}

fn all_evaluators() -> Vec<Evaluator> {
    vec![
        Evaluator::Match {
            pattern: "(?i)cannot proceed".to_owned(),
            then: allowed(TagKind::Goto, Some("ESCALATE.md"), &[]),
        },
        Evaluator::Prompt { prompt: "JUDGE.md".to_owned(), model: Some("haiku".to_owned()) },
        Evaluator::Prompt { prompt: "SECOND".to_owned(), model: None },
    ]
}

#[test]
fn policy_is_what_judges_answers() {
    let frontmatter = declared(
        "model: opus\nallowed_transitions: [{ tag: result }]\nevaluators: [{ prompt: J.md }]",
    );
    let expected = Policy {
        allowed: vec![allowed(TagKind::Result, None, &[])],
        evaluators: vec![Evaluator::Prompt { prompt: "J.md".to_owned(), model: None }],
    };
    assert_eq!(frontmatter.policy(), expected);
    assert_eq!(Frontmatter::default().policy(), Policy::default());
}

#[test]
fn every_value_keeps_its_place_in_the_file() {
    let text = "---\nmodel: 'opus' # é\neffort: \"höher\"\ntimeout: 2h\nagent: claude\n\
                allowed_transitions:\n  - { tag: goto, target: A }\n  - tag: result\n\
                evaluators: [{ prompt: J }]\n---\nbody";
    let frontmatter = prompt(text).frontmatter;
    assert_eq!(frontmatter.model.unwrap().span.slice(text), Some("'opus'"));
    assert_eq!(frontmatter.effort.unwrap().span.slice(text), Some("\"höher\""));
    assert_eq!(frontmatter.timeout.unwrap().span.slice(text), Some("2h"));
    assert_eq!(frontmatter.agent.unwrap().span.slice(text), Some("claude"));
    let places: Vec<_> =
        frontmatter.allowed_transitions.iter().map(|entry| entry.span.slice(text)).collect();
    assert_eq!(places, [Some("{ tag: goto, target: A }"), Some("tag: result")]);
    assert_eq!(frontmatter.evaluators[0].span.slice(text), Some("{ prompt: J }"));
}

#[test]
fn list_may_be_empty() {
    for yaml in [
        "allowed_transitions: []\nevaluators: []",
        "allowed_transitions:\nevaluators:",
        "allowed_transitions: ~\nevaluators: null",
    ] {
        assert_eq!(declared(yaml), Frontmatter::default(), "{yaml}");
    }
}

#[test]
fn entry_may_leave_out_target_and_attributes() {
    let yaml = "allowed_transitions: [{ tag: goto }, { tag: fork }, { tag: call, return: A }]";
    let expected = [
        allowed(TagKind::Goto, None, &[]),
        allowed(TagKind::Fork, None, &[]),
        allowed(TagKind::Call, None, &[("return", "A")]),
    ];
    assert_eq!(values(&declared(yaml).allowed_transitions), expected);
}

#[test]
fn fork_entry_takes_any_attribute() {
    let yaml = "allowed_transitions:\n  - { tag: fork, target: W, next: N, n: 1, yes: true }";
    let expected = allowed(TagKind::Fork, Some("W"), &[("n", "1"), ("next", "N"), ("yes", "true")]);
    assert_eq!(values(&declared(yaml).allowed_transitions), [expected]);
}

#[test]
fn fork_entry_declares_the_names_of_attributes() {
    let yaml = "allowed_transitions:\n  - { tag: fork, target: W, next: N, attributes: [PART, x] }";
    let expected = AllowedTransition {
        declared: vec!["PART".to_owned(), "x".to_owned()],
        ..allowed(TagKind::Fork, Some("W"), &[("next", "N")])
    };
    assert_eq!(values(&declared(yaml).allowed_transitions), [expected]);
    assert_eq!(
        errors(
            "allowed_transitions:\n  - { tag: fork, attributes: PART }\n  - { tag: goto, attributes: [x] }\n  - { tag: fork, attributes: [{}] }"
        ),
        [
            "STATE.md:3:30: `attributes` should be a list: lines that start with `- `",
            "STATE.md:4:18: <goto> has no attribute `attributes`",
            "STATE.md:5:31: `attributes` should be a list of names",
        ]
    );
}

#[test]
fn word_that_would_become_an_option_is_an_error() {
    let dash = "cannot begin with a dash: it would become an option";
    let yaml = "model: --x
effort: -high
agent: ' -a'
allowed_transitions:
  - { tag: function, model: --y }
evaluators:
  - { prompt: J, model: -z }";
    assert_eq!(
        errors(yaml),
        [
            format!("STATE.md:2:8: `model` {dash}"),
            format!("STATE.md:3:9: `effort` {dash}"),
            format!("STATE.md:4:8: `agent` {dash}"),
            format!("STATE.md:6:29: `model` {dash}"),
            format!("STATE.md:8:25: `model` {dash}"),
        ]
    );
}

#[test]
fn word_is_passed_on_as_written() {
    for (written, read) in [
        ("claude-opus-4-5-20251101", "claude-opus-4-5-20251101"),
        ("4", "4"),
        ("true", "true"),
        ("'~'", "~"),
        ("\"null\"", "null"),
        ("gpt 5 # comment", "gpt 5"),
        ("|\n  opus\n", "opus"),
    ] {
        let model = declared(&format!("model: {written}")).model.unwrap();
        assert_eq!(model.value, read, "{written}");
    }
}

#[test]
fn timeout_takes_seconds_minutes_and_hours() {
    for (written, seconds) in
        [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("0", 0), ("'15m'", 900)]
    {
        let timeout = declared(&format!("timeout: {written}")).timeout.unwrap();
        assert_eq!(timeout.value, Timeout::from_seconds(seconds), "{written}");
    }
}

#[test]
fn budget_is_an_amount_of_dollars() {
    for (written, dollars) in [("0.5", 0.5), ("2", 2.0), ("'1.25'", 1.25)] {
        let budget = declared(&format!("budget: {written}")).budget.unwrap();
        assert_eq!(budget.value, Usd::from_dollars(dollars).unwrap());
    }
    for wrong in ["0", "-1", "much", "[1]", "", "NaN", "1e99"] {
        let expected =
            "STATE.md:2:9: `budget` should be an amount of dollars above 0, such as `0.50`";
        let place = if wrong.is_empty() { "2:7" } else { "2:9" };
        assert_eq!(errors(&format!("budget: {wrong}")), [expected.replace("2:9", place)]);
    }
}

#[test]
fn options_of_the_coding_agent_are_read_with_the_places_of_their_keys() {
    let yaml = "fallback_model: [haiku, sonnet]\nmax_turns: 12\nsystem: |\n  Be brief.\nmcp: [github]\nadd_dirs: [../lib]";
    let own = declared(yaml);
    let expected = TurnOptions {
        fallback_model: vec!["haiku".to_owned(), "sonnet".to_owned()],
        max_turns: Some(12),
        system: Some("Be brief.\n".to_owned()),
        mcp: Some(vec!["github".to_owned()]),
        add_dirs: vec!["../lib".to_owned()],
        schema: None,
    };
    assert_eq!(own.options, expected);
    let keys: Vec<_> = own.option_keys.iter().map(|key| key.value).collect();
    assert_eq!(keys, OPTION_KEYS[..5]);
    assert_eq!(own.option_keys[1].span, Span::new(36, 45));
    assert_eq!(declared("fallback_model: haiku").options.fallback_model, ["haiku"]);
    assert_eq!(declared("mcp: []").options.mcp, Some(Vec::new()), "none is not the same as all");
}

#[test]
fn schema_is_written_in_yaml_or_named() {
    let yaml = "schema:\n  type: object\n  properties:\n    a: { enum: [1, '1', true, yes, null], description: x }";
    let schema = declared(yaml).schema.unwrap();
    let SchemaSource::Inline(inline) = schema.value else { panic!("{schema:?}") };
    assert_eq!(
        inline.to_json(),
        r#"{"additionalProperties":false,"properties":{"a":{"description":"x","enum":[1,"1",true,"yes",null]}},"type":"object"}"#
    );
    let named = declared("schema: out.json");
    assert_eq!(named.schema.unwrap().value, SchemaSource::File("out.json".to_owned()));
    assert_eq!(named.option_keys[0].value, "schema");
}

#[test]
fn schema_that_cannot_be_checked_is_an_error_where_it_is_wrong() {
    for (yaml, expected) in [
        (
            "schema: out.yaml",
            "2:9: `schema` should be a JSON schema, or the name of a `.json` file beside the state",
        ),
        (
            "schema: ../out.json",
            "2:9: `schema` should be a JSON schema, or the name of a `.json` file beside the state",
        ),
        (
            "schema: [x]",
            "2:9: `schema` should be a JSON schema, or the name of a `.json` file beside the state",
        ),
        ("schema: { type: string }", "2:9: `schema`: the output is an object: `type: object`"),
        (
            "schema:\n  type: object\n  properties:\n    a: { typ: string }",
            "5:8: `schema`: the keyword `typ` is not one that Raymond checks (did you mean `type`?)",
        ),
        (
            "schema: { type: object, required: risk }",
            "2:35: `schema`: `required` should be a list of names",
        ),
    ] {
        assert_eq!(errors(yaml), [format!("STATE.md:{expected}")]);
    }
}

#[test]
fn option_that_cannot_be_used_is_an_error_at_its_value() {
    for (yaml, place, said) in [
        ("fallback_model: --x", "2:17", "cannot begin with a dash"),
        ("fallback_model: 'a,b'", "2:17", "the name of a model, or a list of names"),
        ("max_turns: 0", "2:12", "a whole number from 1"),
        ("max_turns: [1]", "2:12", "a whole number from 1"),
        ("system: [x]", "2:9", "should be a text"),
        ("system: \"a\\0b\"", "2:9", "no NUL"),
        ("mcp: github", "2:6", "should be a list"),
        ("mcp: ['a b']", "2:7", "names of servers"),
        ("mcp: [{ command: x }]", "2:7", "names of servers"),
        ("add_dirs: lib", "2:11", "should be a list"),
    ] {
        let found = errors(yaml);
        let [found] = &found[..] else { panic!("{yaml}: {found:?}") };
        assert!(found.starts_with(&format!("STATE.md:{place}: ")), "{found}");
        assert!(found.contains(said), "{found}");
    }
    let long = format!("system: {}", "x".repeat(65_537));
    assert!(errors(&long)[0].contains("at most 65536 bytes"));
}

#[test]
fn input_is_required_or_optional() {
    assert!(declared("input: optional").is_input_optional);
    assert!(!declared("input: required").is_input_optional);
    assert!(!declared("model: opus").is_input_optional);
    for written in ["yes", "", "[optional]"] {
        let found = diagnostics(&format!("---\ninput: {written}\n---\n"));
        assert_eq!(found.len(), 1, "{written}: {found:?}");
        assert!(
            found[0].message.contains("`input` should be `optional` or `required`"),
            "{found:?}"
        );
    }
}

#[test]
fn pattern_of_an_evaluator_is_kept_as_written() {
    let yaml = "evaluators:\n  - match: \"^\\\\d+ errors?$\"\n    then: { tag: result }";
    let expected = Evaluator::Match {
        pattern: r"^\d+ errors?$".to_owned(),
        then: allowed(TagKind::Result, None, &[]),
    };
    assert_eq!(values(&declared(yaml).evaluators), [expected]);
}

#[test]
fn spaces_around_a_quoted_pattern_are_kept() {
    let yaml = "evaluators:\n  - match: ' not '\n    then: { tag: result }";
    let expected =
        Evaluator::Match { pattern: " not ".to_owned(), then: allowed(TagKind::Result, None, &[]) };
    assert_eq!(values(&declared(yaml).evaluators), [expected]);
}

#[test]
fn spaces_around_a_quoted_attribute_are_kept() {
    let yaml = "allowed_transitions:\n  - { tag: fork, target: W, next: N, item: ' x ' }";
    let expected = allowed(TagKind::Fork, Some("W"), &[("item", " x "), ("next", "N")]);
    assert_eq!(values(&declared(yaml).allowed_transitions), [expected]);
}

// Warnings.

#[test]
fn unknown_key_is_a_warning_with_a_suggestion() {
    let text = "---\nmodel: opus\nalowed_transitions: []\n---\nbody";
    let prompt = prompt(text);
    let expected = Diagnostic {
        severity: Severity::Warning,
        matter: Matter::UnknownKey,
        file: "STATE.md".to_owned(),
        span: Span::new(16, 34),
        position: Position { line: 3, column: 1 },
        message: "unknown key `alowed_transitions` is ignored".to_owned(),
        suggestion: Some("allowed_transitions".to_owned()),
    };
    assert_eq!(prompt.warnings, [expected]);
    assert_eq!(prompt.frontmatter.model.unwrap().value, "opus");
    assert_eq!(prompt.body, "body");
}

#[test]
fn unknown_keys_are_shown_with_what_was_meant() {
    let expected = [
        "STATE.md:2:1: unknown key `Model` is ignored (did you mean `model`?)",
        "STATE.md:3:1: unknown key `time-out` is ignored (did you mean `timeout`?)",
        "STATE.md:4:1: unknown key `title` is ignored",
        "STATE.md:5:1: unknown key `evaluator` is ignored (did you mean `evaluators`?)",
    ];
    assert_eq!(warnings("Model: opus\ntime-out: 5\ntitle: { a: [b] }\nevaluator: []"), expected);
}

#[test]
fn unknown_key_of_an_evaluator_is_a_warning() {
    let yaml = "evaluators:\n  - prompt: J.md\n    modle: haiku\n    because: x";
    let expected = [
        "STATE.md:4:5: unknown key `modle` is ignored (did you mean `model`?)",
        "STATE.md:5:5: unknown key `because` is ignored",
    ];
    assert_eq!(warnings(yaml), expected);
}

#[test]
fn key_of_the_other_form_of_evaluator_is_a_warning() {
    assert_eq!(
        warnings("evaluators:\n  - { prompt: J.md, then: { tag: result } }"),
        ["STATE.md:3:21: unknown key `then` is ignored"]
    );
    assert_eq!(
        warnings("evaluators:\n  - { match: x, then: { tag: result }, model: haiku }"),
        ["STATE.md:3:40: unknown key `model` is ignored"]
    );
}

#[test]
fn misspelt_form_of_an_evaluator_suggests_what_was_meant() {
    let text = "---\nevaluators:\n  - { promt: J.md, model: haiku }\n  - { mach: x }\n---\n";
    let shown: Vec<_> = diagnostics(text)
        .iter()
        .filter(|found| found.severity == Severity::Warning)
        .map(ToString::to_string)
        .collect();
    let expected = [
        "STATE.md:3:7: unknown key `promt` is ignored (did you mean `prompt`?)",
        "STATE.md:4:7: unknown key `mach` is ignored (did you mean `match`?)",
    ];
    assert_eq!(shown, expected);
}

// Errors, with the place of each.

#[test]
fn word_that_is_missing_or_no_word_is_an_error() {
    let model = "`model` should be the name of a model";
    assert_eq!(errors("model: [a]"), [format!("STATE.md:2:8: {model}")]);
    assert_eq!(errors("model: { a: b }"), [format!("STATE.md:2:8: {model}")]);
    assert_eq!(errors("model: ''"), [format!("STATE.md:2:8: {model}")]);
    assert_eq!(errors("model: '  '"), [format!("STATE.md:2:8: {model}")]);
    assert_eq!(errors("model: ~"), [format!("STATE.md:2:8: {model}")]);
    assert_eq!(errors("effort: []"), ["STATE.md:2:9: `effort` should be an effort such as `high`"]);
    assert_eq!(errors("agent: []"), ["STATE.md:2:8: `agent` should be the name of a coding agent"]);
    assert_eq!(
        errors("timeout: []"),
        ["STATE.md:2:10: `timeout` should be seconds, or `10m`, `2h`, or 0 for no limit"]
    );
}

#[test]
fn word_that_is_left_out_is_an_error_where_it_should_stand() {
    let expected = "`model` should be the name of a model";
    assert_eq!(errors("model:"), [format!("STATE.md:2:6: {expected}")]);
    assert_eq!(
        errors("effort: high\nmodel:\nagent: claude"),
        [format!("STATE.md:3:6: {expected}")]
    );
}

#[test]
fn timeout_that_is_no_duration_is_an_error() {
    for bad in ["-1", "1.5", "10 m", "10d", "soon", "10M", "99999999999999999999", "1_000"] {
        let expected = format!(
            "STATE.md:2:10: `timeout`: expected seconds, or a number with `s`, `m` or `h` (`90`, \
             `10m`, `2h`), not `{bad}`"
        );
        assert_eq!(errors(&format!("timeout: {bad}")), [expected]);
    }
}

#[test]
fn list_that_is_none_is_an_error() {
    assert_eq!(
        errors("allowed_transitions: goto"),
        ["STATE.md:2:22: `allowed_transitions` should be a list: lines that start with `- `"]
    );
    assert_eq!(
        errors("evaluators:\n  prompt: J.md"),
        ["STATE.md:3:3: `evaluators` should be a list: lines that start with `- `"]
    );
}

#[test]
fn transition_that_is_no_mapping_is_an_error() {
    let expected = "a transition should be `{ tag: goto, target: NEXT.md }`";
    assert_eq!(
        errors("allowed_transitions:\n  - goto\n  - [goto, A]\n  -"),
        [
            format!("STATE.md:3:5: {expected}"),
            format!("STATE.md:4:5: {expected}"),
            format!("STATE.md:5:4: {expected}"),
        ]
    );
}

#[test]
fn transition_without_a_tag_is_an_error() {
    assert_eq!(
        errors("allowed_transitions:\n  - { target: A.md }\n  - { tag: , target: A.md }"),
        [
            "STATE.md:3:5: a transition needs a `tag`: one of goto, reset, call, function, fork, join, \
             ask, result",
            "STATE.md:4:10: `tag` should be one of goto, reset, call, function, fork, join, ask, result",
        ]
    );
}

#[test]
fn transition_with_an_unknown_tag_is_an_error_with_a_suggestion() {
    let expected = "expected one of goto, reset, call, function, fork, join, ask, result";
    assert_eq!(
        errors("allowed_transitions:\n  - { tag: gotoo }\n  - tag: Result\n  - tag: 'jump'"),
        [
            format!("STATE.md:3:12: `gotoo` is not a tag: {expected} (did you mean `goto`?)"),
            format!("STATE.md:4:10: `Result` is not a tag: {expected} (did you mean `result`?)"),
            format!("STATE.md:5:10: `jump` is not a tag: {expected}"),
        ]
    );
}

#[test]
fn transition_with_an_attribute_that_its_tag_lacks_is_an_error() {
    let yaml = "allowed_transitions:
  - { tag: goto, target: A, cd: x }
  - { tag: goto, targt: A }
  - { tag: reset, target: A, return: B }
  - { tag: call, target: A, retrun: B }
  - { tag: call, target: A, return: B, model: opus }
  - { tag: result, payload: x }";
    assert_eq!(
        errors(yaml),
        [
            "STATE.md:3:29: <goto> has no attribute `cd`",
            "STATE.md:4:18: <goto> has no attribute `targt` (did you mean `target`?)",
            "STATE.md:5:30: <reset> has no attribute `return`",
            "STATE.md:6:29: <call> has no attribute `retrun` (did you mean `return`?)",
            "STATE.md:7:40: <call> has no attribute `model`",
            "STATE.md:8:20: <result> has no attribute `payload`",
        ]
    );
}

#[test]
fn result_with_a_target_is_an_error() {
    assert_eq!(
        errors("allowed_transitions:\n  - tag: result\n    target: A.md"),
        ["STATE.md:4:5: <result> has no target"]
    );
}

#[test]
fn state_named_by_a_path_is_an_error() {
    let path = "is a path: a state is named by its file name alone";
    let yaml = r"allowed_transitions:
  - { tag: goto, target: a/b/C.md }
  - { tag: goto, target: 'a\B.md' }
  - { tag: call, target: A, return: ../B.md }
  - { tag: fork, target: A, next: /B.md }
evaluators:
  - prompt: /J.md";
    assert_eq!(
        errors(yaml),
        [
            format!("STATE.md:3:26: `a/b/C.md` {path}"),
            format!(r"STATE.md:4:26: `a\B.md` {path}"),
            format!("STATE.md:5:37: `../B.md` {path}"),
            format!("STATE.md:6:35: `/B.md` {path}"),
            format!("STATE.md:8:13: `/J.md` {path}"),
        ]
    );
}

#[test]
fn subworkflow_is_a_target_of_subtasks_and_workers_only() {
    let yaml = "allowed_transitions:
  - { tag: call, target: review/, return: A }
  - { tag: function, target: review/PLAN, return: A }
  - { tag: fork, target: review/, next: A }
  - { tag: goto, target: review/ }
  - { tag: call, target: A, return: review/PLAN }
evaluators:
  - prompt: review/JUDGE";
    let said = "leads into a subworkflow, which only call, function and fork can enter";
    assert_eq!(
        errors(yaml),
        [
            format!("STATE.md:6:26: `review/` {said}"),
            format!("STATE.md:7:37: `review/PLAN` {said}"),
            format!("STATE.md:9:13: `review/JUDGE` {said}"),
        ]
    );
}

#[test]
fn state_that_is_no_word_is_an_error() {
    let yaml = "allowed_transitions:
  - { tag: goto, target: [A] }
  - { tag: call, target: '', return: {} }
  - { tag: fork, target: A, next: N, item: [] }";
    assert_eq!(
        errors(yaml),
        [
            "STATE.md:3:26: `target` should be the name of a state",
            "STATE.md:4:26: `target` should be the name of a state",
            "STATE.md:4:38: `return` should be the name of a state",
            "STATE.md:5:44: `item` should be a text",
        ]
    );
}

#[test]
fn key_given_twice_is_an_error_at_the_second() {
    assert_eq!(errors("model: a\nmodel: b"), ["STATE.md:3:1: key `model` is given twice"]);
    assert_eq!(
        errors("allowed_transitions:\n  - { tag: goto, target: A, target: B }"),
        ["STATE.md:3:29: key `target` is given twice"]
    );
}

#[test]
fn key_that_is_no_word_is_an_error() {
    assert_eq!(errors("[a]: b"), ["STATE.md:2:1: a key of frontmatter should be a word"]);
    assert_eq!(
        errors("allowed_transitions:\n  - { tag: goto, {a: b}: c }"),
        ["STATE.md:3:18: a key of a transition should be a word"]
    );
}

#[test]
fn frontmatter_that_is_no_mapping_is_an_error() {
    for yaml in ["just text", "- a\n- b", "[a]", "~"] {
        let expected = "STATE.md:2:1: frontmatter should be `key: value` lines";
        assert_eq!(errors(yaml), [expected], "{yaml}");
    }
}

#[test]
fn evaluator_of_no_known_form_is_an_error() {
    let form = "an evaluator should be `match` with `then`, or `prompt`";
    let yaml = "evaluators:
  - JUDGE.md
  - {}
  - { match: x, prompt: J.md }
  - { then: { tag: result } }";
    assert_eq!(
        errors(yaml),
        [
            format!("STATE.md:3:5: {form}"),
            format!("STATE.md:4:5: {form}"),
            format!("STATE.md:5:5: {form}"),
            format!("STATE.md:6:5: {form}"),
        ]
    );
}

#[test]
fn evaluator_with_a_part_that_is_wrong_is_an_error() {
    let yaml = "evaluators:
  - { match: x }
  - { match: [], then: { tag: result } }
  - { match: x, then: goto }
  - { match: x, then: { tag: goto } }
  - { match: x, then: { tag: call, target: A } }
  - { prompt: [] }
  - { prompt: J.md, model: [] }";
    assert_eq!(
        errors(yaml),
        [
            "STATE.md:3:5: `match` needs `then`: the transition to follow instead",
            "STATE.md:4:14: `match` should be a regular expression",
            "STATE.md:5:23: a transition should be `{ tag: goto, target: NEXT.md }`",
            "STATE.md:6:23: `then` must be a complete transition, not <goto>…</goto>",
            "STATE.md:7:23: `then` must be a complete transition, not <call return=\"…\">A</call>",
            "STATE.md:8:15: `prompt` should be the name of a state",
            "STATE.md:9:28: `model` should be the name of a model",
        ]
    );
}

#[test]
fn evaluator_with_a_bad_target_is_one_error() {
    assert_eq!(
        errors("evaluators:\n  - { match: x, then: { tag: goto, target: ../b } }"),
        ["STATE.md:3:44: `../b` is a path: a state is named by its file name alone"]
    );
}

#[test]
fn pattern_that_is_no_regular_expression_is_an_error() {
    assert_eq!(
        errors("evaluators:\n  - match: 'a(b'\n    then: { tag: result }"),
        ["STATE.md:3:12: `match` is not a regular expression: regex parse error:\n    a(b\n     \
          ^\nerror: unclosed group"]
    );
}

#[test]
fn frontmatter_that_is_no_yaml_is_one_error_with_its_place() {
    for (yaml, expected) in [
        ("model: [a", "2:8: frontmatter is not YAML: unclosed bracket '['"),
        ("agent: x\nmodel: }", "3:8: frontmatter is not YAML: misplaced bracket"),
        (
            "timeout: soon\nmodel: a: b",
            "3:9: frontmatter is not YAML: mapping values are not allowed in this context",
        ),
        (
            "model: opus\n\teffort: high",
            "2:8: frontmatter is not YAML: while scanning a plain scalar, found a tab",
        ),
        ("model: opus\neffort", "3:1: frontmatter is not YAML: simple key expected ':'"),
        ("model: @x", "2:8: frontmatter is not YAML: unexpected character: `@'"),
        ("modél: 'é'\nö: [", "3:4: frontmatter is not YAML: unclosed bracket '['"),
        ("model: a\n...\nagent: b", "4:1: frontmatter is not YAML: expected one document"),
    ] {
        assert_eq!(errors(yaml), [format!("STATE.md:{expected}")], "{yaml}");
    }
}

#[test]
fn alias_is_refused() {
    assert_eq!(
        errors("model: &m opus\nagent: *m"),
        ["STATE.md:3:8: frontmatter is not YAML: aliases (`*name`) are not supported here"]
    );
}

#[test]
fn nesting_without_end_is_refused() {
    let yaml = format!("model: {}{}", "[".repeat(5000), "]".repeat(5000));
    let found = errors(&yaml);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("STATE.md:2:"), "{found:?}");
    assert!(found[0].contains(": frontmatter is not YAML: "), "{found:?}");
}

#[test]
fn columns_count_characters() {
    assert_eq!(
        errors("allowed_transitions:\n  - { tag: goto, target: 'Prüfung→', cd: x }"),
        ["STATE.md:3:38: <goto> has no attribute `cd`"]
    );
}

#[test]
fn all_problems_are_reported_at_once_and_the_first_error_is_shown() {
    let text = "---\nmodle: opus\ntimeout: soon\nallowed_transitions:\n  - { tag: gotoo }\n\
                agent: []\n---\n";
    let error = read(text).unwrap_err();
    let found: Vec<_> =
        diagnostics(text).iter().map(|found| (found.severity, found.position)).collect();
    let at = |line, column| Position { line, column };
    assert_eq!(
        found,
        [
            (Severity::Warning, at(2, 1)),
            (Severity::Error, at(3, 10)),
            (Severity::Error, at(5, 12)),
            (Severity::Error, at(6, 8)),
        ]
    );
    assert_eq!(
        error.to_string(),
        "STATE.md:3:10: `timeout`: expected seconds, or a number with `s`, `m` or `h` (`90`, \
         `10m`, `2h`), not `soon` (and 2 more)"
    );
}

#[test]
fn span_of_an_error_covers_what_is_wrong() {
    let text = "---\nallowed_transitions:\n  - { tag: gotoo }\n  - tag: goto\n    to: é/B\n---\n";
    let places: Vec<_> = diagnostics(text).iter().map(|found| found.span.slice(text)).collect();
    assert_eq!(places, [Some("gotoo"), Some("to")]);
}
