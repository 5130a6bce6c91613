//! Finding tags in any text and in chunks of any size, and parsing exactly one typed tag or
//! reporting the error. Covers `raymond_flow::tag`.

use raymond_flow::{
    tag::{
        Attribute, MalformedWhy, OPENING_BYTES_MAX, PAYLOAD_BYTES_MAX, Scan, Scanner,
        TARGET_BYTES_MAX, Tag, TagError, TagKind, TargetPlace, parse,
    },
    text::{Span, Spanned},
};

/// The span of `piece` in `text`, in which it occurs only once.
fn span_of(text: &str, piece: &str) -> Span {
    assert_eq!(text.matches(piece).count(), 1, "`{piece}` in `{text}`");
    let start = text.find(piece).expect("it was counted") as u64;
    Span::new(start, start + piece.len() as u64)
}

/// `piece` with its place in `text`.
fn at(text: &str, piece: &str) -> Spanned<String> {
    Spanned::new(piece.to_owned(), span_of(text, piece))
}

fn attribute(text: &str, name: &str, value: &str) -> Attribute {
    let written = span_of(text, &format!("{name}=\"{value}\""));
    let name_end = written.start + name.len() as u64;
    let value_start = name_end + 2;
    let value_end = value_start + value.len() as u64;
    Attribute {
        name: Spanned::new(name.to_owned(), Span::new(written.start, name_end)),
        value: Spanned::new(value.to_owned(), Span::new(value_start, value_end)),
    }
}

/// A tag without attributes.
fn plain(kind: TagKind, content: Spanned<String>) -> Tag {
    Tag::new(kind, content, Vec::new())
}

/// The call of `A.md` that returns to `B.md`, however that is written in `text`.
fn returning(text: &str) -> Tag {
    let return_to = Attribute { name: at(text, "return"), value: at(text, "B.md") };
    Tag::new(TagKind::Call, at(text, "A.md"), vec![return_to])
}

/// The valid tag `tag`, which is written as `whole` in `text`.
#[expect(clippy::unnecessary_wraps, reason = "compared with the result of `parse`")]
fn found(text: &str, whole: &str, tag: Tag) -> Result<Spanned<Tag>, TagError> {
    Ok(Spanned::new(tag, span_of(text, whole)))
}

/// The state of the `<goto>` that must be in `text`.
fn goto_target(text: &str) -> String {
    match parse(text).map(|tag| tag.value) {
        Ok(Tag { kind: TagKind::Goto, content, .. }) => content.value,
        other => panic!("{text:?} is not one <goto>: {other:?}"),
    }
}

/// The payload of the `<result>` that must be in `text`.
fn payload(text: &str) -> String {
    match parse(text).map(|tag| tag.value) {
        Ok(Tag { kind: TagKind::Result, content, .. }) => content.value,
        other => panic!("{text:?} is not one <result>: {other:?}"),
    }
}

fn error(text: &str) -> TagError {
    match parse(text) {
        Err(error) => error,
        Ok(tag) => panic!("{text:?} is a good tag: {tag:?}"),
    }
}

fn malformed(text: &str, kind: TagKind, piece: &str, why: MalformedWhy) -> TagError {
    TagError::Malformed { kind, text: at(text, piece), why }
}

/// Scans `bytes`, pushed `size` at a time.
fn scan_in_chunks(bytes: &[u8], size: usize) -> Scan {
    let mut scanner = Scanner::new();
    for chunk in bytes.chunks(size) {
        scanner.push(chunk);
    }
    scanner.finish()
}

/// The one tag in `bytes`, which need not be text.
fn tag_in_bytes(bytes: &[u8]) -> Result<Spanned<Tag>, TagError> {
    tag_of(scan_in_chunks(bytes, bytes.len().max(1)), bytes)
}

fn tag_of(scan: Scan, bytes: &[u8]) -> Result<Spanned<Tag>, TagError> {
    let read = |span: Span| {
        let piece = &bytes[span.range().expect("spans fit into memory")];
        Ok::<_, std::convert::Infallible>(String::from_utf8_lossy(piece).into_owned())
    };
    match scan.tag(read) {
        Ok(tag) => tag,
    }
}

// The six tags.

#[test]
fn goto_names_its_target() {
    let text = "All done.\n<goto>NEXT.md</goto>\n";
    let tag = plain(TagKind::Goto, at(text, "NEXT.md"));
    assert_eq!(parse(text), found(text, "<goto>NEXT.md</goto>", tag));
}

#[test]
fn reset_needs_nothing_but_its_target() {
    let text = "<reset>PHASE2.md</reset>";
    let tag = plain(TagKind::Reset, at(text, "PHASE2.md"));
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn reset_may_change_the_directory() {
    let text = r#"<reset cd="../work tree">PHASE2.md</reset>"#;
    let attributes = vec![attribute(text, "cd", "../work tree")];
    let tag = Tag::new(TagKind::Reset, at(text, "PHASE2.md"), attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn call_names_its_target_and_where_to_return() {
    let text = r#"<call return="SUMMARIZE.md">RESEARCH.md</call>"#;
    let attributes = vec![attribute(text, "return", "SUMMARIZE.md")];
    let tag = Tag::new(TagKind::Call, at(text, "RESEARCH.md"), attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn function_names_its_target_and_where_to_return() {
    let text = r#"<function return="NEXT.md">EVAL.md</function>"#;
    let attributes = vec![attribute(text, "return", "NEXT.md")];
    let tag = Tag::new(TagKind::Function, at(text, "EVAL.md"), attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn subtasks_may_name_a_directory() {
    for (name, text) in [
        ("call", r#"<call return="NEXT.md" cd="../x">EVAL.md</call>"#),
        ("function", r#"<function return="NEXT.md" cd="../x">EVAL.md</function>"#),
    ] {
        let tag = parse(text).unwrap().value;
        assert_eq!(tag.kind.name(), name);
        assert_eq!(tag.attribute("cd"), Some(&at(text, "../x")));
    }
}

#[test]
fn function_may_name_a_model() {
    let text = r#"<function model="haiku" return="NEXT.md">EVAL.md</function>"#;
    let attributes = vec![attribute(text, "model", "haiku"), attribute(text, "return", "NEXT.md")];
    let tag = Tag::new(TagKind::Function, at(text, "EVAL.md"), attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn fork_names_its_worker_and_where_the_parent_continues() {
    let text = r#"<fork next="DISPATCH.md">WORKER.md</fork>"#;
    let attributes = vec![attribute(text, "next", "DISPATCH.md")];
    let tag = Tag::new(TagKind::Fork, at(text, "WORKER.md"), attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn fork_keeps_its_attributes_in_the_order_written() {
    let text = r#"<fork zeta="1" next="DISPATCH.md" item="issue 195" cd="/wt/a" alpha="">WORKER.md</fork>"#;
    let attributes = vec![
        attribute(text, "zeta", "1"),
        attribute(text, "next", "DISPATCH.md"),
        attribute(text, "item", "issue 195"),
        attribute(text, "cd", "/wt/a"),
        attribute(text, "alpha", ""),
    ];
    let tag = Tag::new(TagKind::Fork, at(text, "WORKER.md"), attributes);
    let variables: Vec<_> = tag.variables().map(|own| own.name.value.as_str()).collect();
    assert_eq!(variables, ["zeta", "item", "alpha"]);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn result_carries_its_payload() {
    let text = "Here it is: <result>42 things</result>.";
    let tag = plain(TagKind::Result, at(text, "42 things"));
    assert_eq!(parse(text), found(text, "<result>42 things</result>", tag));
}

#[test]
fn every_tag_knows_its_kind() {
    let samples = [
        (TagKind::Goto, "<goto>A</goto>"),
        (TagKind::Reset, "<reset>A</reset>"),
        (TagKind::Call, r#"<call return="B">A</call>"#),
        (TagKind::Function, r#"<function return="B">A</function>"#),
        (TagKind::Fork, r#"<fork next="B">A</fork>"#),
        (TagKind::Join, "<join>A</join>"),
        (TagKind::Ask, "<ask next=\"A\">x</ask>"),
        (TagKind::Result, "<result>A</result>"),
    ];
    assert_eq!(samples.map(|(kind, _)| kind), TagKind::ALL);
    for (kind, text) in samples {
        assert_eq!(parse(text).map(|tag| tag.value.kind), Ok(kind), "{text}");
    }
}

// Attributes.

#[test]
fn attribute_takes_single_quotes() {
    let text = "<call return='B.md'>A.md</call>";
    let tag = returning(text);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn attribute_may_hold_the_other_quote() {
    let text = r#"<fork next='B.md' say="it's" cd='a "b" c'>A.md</fork>"#;
    let attributes = vec![
        Attribute { name: at(text, "next"), value: at(text, "B.md") },
        attribute(text, "say", "it's"),
        Attribute { name: at(text, "cd"), value: at(text, r#"a "b" c"#) },
    ];
    let tag = Tag::new(TagKind::Fork, at(text, "A.md"), attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn attribute_value_is_passed_as_it_is() {
    let text = "<fork next=\"B\" item=\" two\n lines &amp; \\n {{x}} \">A</fork>";
    let item = attribute(text, "item", " two\n lines &amp; \\n {{x}} ");
    let tag = parse(text).unwrap().value;
    assert_eq!(tag.variables().collect::<Vec<_>>(), [&item]);
}

#[test]
fn attribute_value_may_hold_brackets_and_whole_tags() {
    let text = r#"<fork next="B" item="a > b <goto>C</goto>">A</fork>"#;
    let attributes =
        vec![attribute(text, "next", "B"), attribute(text, "item", "a > b <goto>C</goto>")];
    let target = Spanned::new("A".to_owned(), Span::new(43, 44));
    let tag = Tag::new(TagKind::Fork, target, attributes);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn whitespace_may_stand_around_attributes_and_equals_signs() {
    let text = "<call\r\n\treturn = \"B.md\"\n >A.md</call\n>";
    let tag = returning(text);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn continuation_is_trimmed_like_a_target() {
    let text = "<call return=\" B.md\n\">A.md</call>";
    let tag = returning(text);
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn unknown_attribute_is_refused_by_every_tag_without_variables() {
    let samples = [
        (TagKind::Goto, r#"<goto why="x">A</goto>"#),
        (TagKind::Reset, r#"<reset why="x">A</reset>"#),
        (TagKind::Join, r#"<join why="x">A</join>"#),
        (TagKind::Result, r#"<result why="x">A</result>"#),
    ];
    for (kind, text) in samples {
        assert_eq!(error(text), TagError::UnknownAttribute { kind, name: at(text, "why") });
        assert_eq!(error(text).to_string(), format!("<{kind}> has no attribute `why`"));
    }
}

#[test]
fn known_attribute_is_unknown_on_the_wrong_tag() {
    let samples = [
        (TagKind::Goto, "cd", r#"<goto cd="/tmp">A</goto>"#),
        (TagKind::Goto, "return", r#"<goto return="B">A</goto>"#),
        (TagKind::Reset, "return", r#"<reset return="B">A</reset>"#),
        (TagKind::Reset, "model", r#"<reset model="opus">A</reset>"#),
        (TagKind::Call, "model", r#"<call return="B" model="opus">A</call>"#),
        (TagKind::Call, "next", r#"<call next="B">A</call>"#),
    ];
    for (kind, name, text) in samples {
        assert_eq!(error(text), TagError::UnknownAttribute { kind, name: at(text, name) });
    }
}

#[test]
fn attribute_names_are_case_sensitive() {
    let text = r#"<goto Input="B">A</goto>"#;
    let expected = TagError::UnknownAttribute { kind: TagKind::Goto, name: at(text, "Input") };
    assert_eq!(error(text), expected);
}

#[test]
fn attribute_given_twice_is_an_error_at_the_second() {
    let text = r#"<fork next="B" item="1" item="2">A</fork>"#;
    let second = attribute(text, "item", "2").name;
    assert_eq!(error(text), TagError::DuplicateAttribute { kind: TagKind::Fork, name: second });
    assert_eq!(error(text).to_string(), "<fork> has the attribute `item` twice");

    let text = r#"<call return="B" return="B">A</call>"#;
    let second = Spanned::new("return".to_owned(), Span::new(17, 23));
    assert_eq!(error(text), TagError::DuplicateAttribute { kind: TagKind::Call, name: second });
}

#[test]
fn attribute_that_cannot_be_read_makes_the_tag_malformed() {
    for text in [
        "<call return=B.md>A.md</call>",
        "<call return>A.md</call>",
        "<call return=>A.md</call>",
        "<call =\"B.md\">A.md</call>",
        "<call return:>A.md</call>",
        "<call return=\"B.md\"x=\"1\">A.md</call>",
        "<call \"B.md\">A.md</call>",
        "<call return=\u{201c}B.md\u{201d}>A.md</call>",
    ] {
        assert_eq!(error(text), malformed(text, TagKind::Call, text, MalformedWhy::Attribute));
    }
    assert_eq!(
        error("<call return=B.md>A.md</call>").to_string(),
        "`<call return=B.md>A.md</call>` is not a complete <call> tag: attributes are written \
         name=\"value\""
    );
}

#[test]
fn continuation_that_is_missing_is_named() {
    let samples = [
        (TagKind::Call, "return", "<call>A.md</call>"),
        (TagKind::Function, "return", r#"<function model="haiku">A.md</function>"#),
        (TagKind::Fork, "next", r#"<fork item="1">A.md</fork>"#),
        (TagKind::Fork, "next", r#"<fork return="B.md">A.md</fork>"#),
    ];
    for (kind, name, text) in samples {
        let expected = TagError::MissingAttribute { kind, name, text: at(text, text) };
        assert_eq!(error(text), expected);
        assert_eq!(error(text).to_string(), format!("`{text}` lacks the attribute `{name}`"));
    }
}

// Targets.

#[test]
fn target_is_trimmed_and_its_span_with_it() {
    let text = "<goto>\r\n  NEXT.md\t\r\n</goto>";
    let tag = plain(TagKind::Goto, at(text, "NEXT.md"));
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn target_may_hold_spaces_dots_and_any_letter() {
    for name in ["NEXT", "v1.2", "zwei Wörter.md", "日本.md", "a'b\"c.md", ".."] {
        assert_eq!(goto_target(&format!("<goto>{name}</goto>")), name);
    }
}

#[test]
fn target_that_is_empty_is_an_error() {
    let samples = [
        (TagKind::Goto, TargetPlace::Content, "<goto></goto>"),
        (TagKind::Goto, TargetPlace::Content, "<goto>  </goto>"),
        (TagKind::Reset, TargetPlace::Content, "<reset></reset>"),
        (TagKind::Call, TargetPlace::Content, r#"<call return="B"></call>"#),
        (TagKind::Function, TargetPlace::Content, r#"<function return="B"></function>"#),
        (TagKind::Fork, TargetPlace::Content, r#"<fork next="B"></fork>"#),
        (TagKind::Call, TargetPlace::Attribute("return"), r#"<call return="">A</call>"#),
        (TagKind::Function, TargetPlace::Attribute("return"), "<function return=' '>A</function>"),
        (TagKind::Fork, TargetPlace::Attribute("next"), r#"<fork next="">A</fork>"#),
    ];
    for (kind, place, text) in samples {
        let expected = TagError::EmptyTarget { kind, place, text: at(text, text) };
        assert_eq!(error(text), expected);
    }
    assert_eq!(error("<goto></goto>").to_string(), "`<goto></goto>` names no state in the content");
    assert_eq!(
        error(r#"<fork next="">A</fork>"#).to_string(),
        r#"`<fork next="">A</fork>` names no state in `next`"#
    );
}

#[test]
fn target_with_a_path_separator_is_refused_wherever_a_state_is_named() {
    for path in ["a/b/C.md", "../B.md", "/B.md", "./B.md", "a\\B.md", "C:\\B.md", "a//"] {
        let goto = format!("<goto> {path} </goto>");
        let call = format!("<call return=\"{path}\">A</call>");
        let function = format!("<function return=\"R\">{path}</function>");
        let fork = format!("<fork next=\"{path}\">A</fork>");
        let reset = format!("<reset>{path}</reset>");
        let samples = [
            (TagKind::Goto, TargetPlace::Content, goto),
            (TagKind::Reset, TargetPlace::Content, reset),
            (TagKind::Call, TargetPlace::Attribute("return"), call),
            (TagKind::Function, TargetPlace::Content, function),
            (TagKind::Fork, TargetPlace::Attribute("next"), fork),
        ];
        for (kind, place, text) in samples {
            let target = at(&text, path);
            assert_eq!(error(&text), TagError::PathInTarget { kind, place, target }, "{text}");
        }
    }
    assert_eq!(
        error("<goto>/B.md</goto>").to_string(),
        "`/B.md` in the content of <goto> is a path: a state is named by its file name alone"
    );
    assert_eq!(
        error("<call return=\"R\">../B</call>").to_string(),
        "`../B` in the content of <call> is a path: a state is named by its file name alone, or `FOLDER/STATE` \
         in a subworkflow"
    );
    assert_eq!(
        error(r#"<call return="a\B">A</call>"#).to_string(),
        r"`a\B` in `return` of <call> is a path: a state is named by its file name alone"
    );
}

#[test]
fn target_in_a_subworkflow_is_taken_only_between_the_tags_of_call_function_and_fork() {
    for target in ["review/", "review/PLAN", " review/PLAN.md "] {
        for text in [
            format!("<call return=\"R\">{target}</call>"),
            format!("<function return=\"R\">{target}</function>"),
            format!("<fork next=\"R\">{target}</fork>"),
        ] {
            assert!(parse(&text).is_ok(), "{text}");
        }
        let path = target.trim();
        let samples = [
            (TagKind::Goto, TargetPlace::Content, format!("<goto>{target}</goto>")),
            (TagKind::Reset, TargetPlace::Content, format!("<reset>{target}</reset>")),
            (TagKind::Join, TargetPlace::Content, format!("<join>{target}</join>")),
            (
                TagKind::Call,
                TargetPlace::Attribute("return"),
                format!("<call return=\"{path}\">A</call>"),
            ),
            (
                TagKind::Fork,
                TargetPlace::Attribute("next"),
                format!("<fork next=\"{path}\">A</fork>"),
            ),
            (TagKind::Ask, TargetPlace::Attribute("next"), format!("<ask next=\"{path}\">x</ask>")),
        ];
        for (kind, place, text) in samples {
            let target = at(&text, path);
            let expected = TagError::SubworkflowNotEntered { kind, place, target };
            assert_eq!(error(&text), expected, "{text}");
        }
    }
    assert_eq!(
        error("<goto>review/</goto>").to_string(),
        "`review/` in the content of <goto> leads into a subworkflow, which only <call>, <function> and <fork> \
         can enter"
    );
}

#[test]
fn target_that_no_file_can_have_is_refused() {
    for name in ["A\nB", "A\0B", "see A > B", "A<br>", "<result>x</result>"] {
        let text = format!("<goto>{name}</goto>");
        let (kind, place, target) = (TagKind::Goto, TargetPlace::Content, at(&text, name));
        assert_eq!(error(&text), TagError::NotAFileName { kind, place, target }, "{name:?}");
    }
    assert_eq!(
        error("<goto>A\nB</goto>").to_string(),
        "`A B` in the content of <goto> is not the name of a file"
    );
    let text = "<fork next=\"A\tB\">C</fork>";
    let (kind, place, target) = (TagKind::Fork, TargetPlace::Attribute("next"), at(text, "A\tB"));
    assert_eq!(error(text), TagError::NotAFileName { kind, place, target });
}

#[test]
fn target_may_be_as_long_as_a_file_name_and_no_longer() {
    let longest = "x".repeat(usize::try_from(TARGET_BYTES_MAX).unwrap());
    assert_eq!(goto_target(&format!("<goto>{longest}</goto>")), longest);

    let longer = format!("{longest}x");
    for text in [
        format!("<call return=\"B\">{longer}</call>"),
        format!("<call return=\"B\">\n{longer}\n</call>"),
    ] {
        let (kind, place, target) = (TagKind::Call, TargetPlace::Content, at(&text, &longer));
        assert_eq!(error(&text), TagError::NotAFileName { kind, place, target });
    }
    let shown = format!(
        "`{}…` in the content of <goto> is not the name of a file",
        longer.get(..80).unwrap()
    );
    assert_eq!(error(&format!("<goto>{longer}</goto>")).to_string(), shown);
}

#[test]
fn target_without_end_is_refused_without_reading_all_of_it() {
    let text = format!("<goto>{}</goto>", "x".repeat(1_000_000));
    let mut read_max = 0;
    let tag = Scan::of(&text).tag(|span| {
        read_max = read_max.max(span.len());
        Ok::<_, ()>(span.slice(&text).unwrap().to_owned())
    });
    assert!(matches!(tag, Ok(Err(TagError::NotAFileName { .. }))), "{tag:?}");
    assert!(read_max < 10_000, "{read_max} bytes were read at once");
}

#[test]
fn target_may_have_much_whitespace_around_it() {
    let text = format!("<goto>{}A.md{}</goto>", "\n".repeat(2000), " ".repeat(2000));
    let tag = plain(TagKind::Goto, at(&text, "A.md"));
    assert_eq!(parse(&text), found(&text, &text, tag));
}

#[test]
fn target_is_never_a_mere_piece_of_a_long_content() {
    let space = " ".repeat(5000);
    for content in [format!("A.md{space}and more"), format!("A.md{space}"), format!("{space}A.md")]
    {
        let tag = parse(&format!("<goto>{content}</goto>"));
        assert!(matches!(tag, Err(TagError::NotAFileName { .. })), "{tag:?}");
    }
}

// Payloads.

#[test]
fn result_payload_is_untouched() {
    for raw in [
        "",
        " ",
        "  leading and trailing \n",
        "\r\nwindows\r\nlines\r\n",
        "a/b\\c > d & <br/> \u{0} é 日本",
        "x".repeat(100_000).as_str(),
    ] {
        assert_eq!(payload(&format!("say <result>{raw}</result> end")), raw);
    }
}

#[test]
fn tags_inside_a_payload_are_payload() {
    for raw in [
        "<goto>A</goto>",
        "<goto>A</goto> <goto>B</goto> <reset>C</reset>",
        r#"<call return="a/b" bad>x</call>"#,
        "an opening <goto> alone",
        "a closing </goto> alone",
        "a self-closing <goto/>",
        "broken <call return=\"x",
        "<fork next=\"<result>\">A</fork>",
    ] {
        assert_eq!(payload(&format!("<result>{raw}</result>")), raw);
    }
}

#[test]
fn nested_results_that_balance_are_one_result() {
    let text = "<result>a <result>b</result> c <result></result></result>";
    let tag = plain(TagKind::Result, at(text, "a <result>b</result> c <result></result>"));
    assert_eq!(parse(text), found(text, text, tag));
}

#[test]
fn result_may_have_the_largest_payload() {
    let size = usize::try_from(PAYLOAD_BYTES_MAX).unwrap();
    let text = format!("<result>{}</result>", "x".repeat(size));
    assert_eq!(payload(&text).len(), size);
}

#[test]
fn result_over_the_largest_payload_is_refused_without_reading_it() {
    let bytes = PAYLOAD_BYTES_MAX + 1;
    let text = format!("<result>{}</result>", "x".repeat(usize::try_from(bytes).unwrap()));
    let mut read_max = 0;
    let tag = Scan::of(&text).tag(|span| {
        read_max = read_max.max(span.len());
        Ok::<_, ()>(span.slice(&text).unwrap().to_owned())
    });
    let (kind, span) = (TagKind::Result, Span::new(8, 8 + bytes));
    let error = TagError::PayloadTooLong { kind, bytes, span };
    assert_eq!(tag, Ok(Err(error.clone())));
    assert!(read_max < 10_000, "{read_max} bytes were read at once");
    assert_eq!(
        error.to_string(),
        "the payload of <result> has 8388609 bytes, more than the 8388608 that can be handed on"
    );
}

#[test]
fn failure_to_read_the_text_back_is_passed_on() {
    let tag = Scan::of("<goto>A</goto>").tag(|_| Err("the file is gone"));
    assert_eq!(tag, Err("the file is gone"));
}

// Where a tag may stand.

#[test]
fn tag_counts_wherever_it_stands() {
    for text in [
        "<goto>A</goto>",
        "<goto>A</goto> and a lot of text after it\n\nand more",
        "```xml\n<goto>A</goto>\n```",
        "so `<goto>A</goto>` it is",
        "**<goto>A</goto>**",
        "<b><goto>A</goto></b>",
        "<answer>\n  <goto>A</goto>\n</answer>",
        "<!-- <goto>A</goto> -->",
        "<a href=\"<goto>A</goto>\">",
        "<<goto>A</goto>>",
        "1 < 2 <goto>A</goto> 2 > 1",
        "line\r\n<goto>A</goto>\r\n",
        "\u{feff}<goto>A</goto>",
        "\u{1b}[1m<goto>A</goto>\u{1b}[0m",
        "日本<goto>A</goto>é",
    ] {
        assert_eq!(goto_target(text), "A", "{text:?}");
    }
}

#[test]
fn text_without_a_tag_has_none() {
    for text in [
        "",
        " \n",
        "I am done.",
        "<done>NEXT.md</done>",
        "<GOTO>A</GOTO>",
        "<Result>x</Result>",
        "<gotox>A</gotox>",
        "<go>A</go>",
        "<goto-next>A</goto-next>",
        "<goto:a>A</goto:a>",
        "<goto_>A</goto_>",
        "< goto>A</ goto>",
        "&lt;goto&gt;A&lt;/goto&gt;",
        "goto NEXT.md",
        "a < b, <, <got",
        "</",
        "<results>x</results>",
    ] {
        assert_eq!(parse(text), Err(TagError::None), "{text:?}");
    }
    assert_eq!(TagError::None.to_string(), "no transition tag was found");
}

#[test]
fn unknown_tags_beside_a_tag_mean_nothing() {
    let text = "<thinking>hm</thinking><gotox>B</gotox><GOTO>C</GOTO><goto>A</goto></div>";
    assert_eq!(goto_target(text), "A");
}

#[test]
fn several_tags_are_an_error_that_shows_them() {
    let text = "<goto>A</goto> or <result>B</result>?";
    let expected = TagError::Several {
        tags: vec![at(text, "<goto>A</goto>"), at(text, "<result>B</result>")],
        count: 2,
    };
    assert_eq!(error(text), expected);
    assert_eq!(
        expected.to_string(),
        "2 transition tags were found where exactly one is allowed: `<goto>A</goto>`, \
         `<result>B</result>`"
    );
}

#[test]
fn same_tag_twice_is_an_error_too() {
    let text = "<goto>A</goto><goto>A</goto>";
    let tag = |start| Spanned::new("<goto>A</goto>".to_owned(), Span::new(start, start + 14));
    assert_eq!(error(text), TagError::Several { tags: vec![tag(0), tag(14)], count: 2 });
}

#[test]
fn broken_tag_beside_a_good_one_still_makes_two() {
    let text = "<call return=B>A</call><goto>C</goto>";
    let tags = vec![at(text, "<call return=B>A</call>"), at(text, "<goto>C</goto>")];
    assert_eq!(error(text), TagError::Several { tags, count: 2 });
}

#[test]
fn many_tags_are_counted_but_only_the_first_few_shown() {
    let text = (0..1000).fold(String::new(), |text, n| text + &format!("<goto>{n}</goto>\n"));
    let tags = ["0", "1", "2", "3"].map(|n| at(&text, &format!("<goto>{n}</goto>"))).to_vec();
    let expected = TagError::Several { tags, count: 1000 };
    assert_eq!(error(&text), expected);
    assert_eq!(
        expected.to_string(),
        "1000 transition tags were found where exactly one is allowed: `<goto>0</goto>`, \
         `<goto>1</goto>`, `<goto>2</goto>`, `<goto>3</goto>`, …"
    );
}

#[test]
fn many_tags_inside_a_payload_are_still_one_result() {
    let raw = "<goto>A</goto>".repeat(1000);
    assert_eq!(payload(&format!("<result>{raw}</result>")), raw);
}

#[test]
fn long_tag_is_shown_cut() {
    let text = format!("<result>{}</result><goto>A</goto>", "é\n".repeat(300));
    let TagError::Several { tags, count: 2 } = error(&text) else { panic!("not two tags") };
    let shown = format!("<result>{}…", "é ".repeat(36));
    assert_eq!(tags[0], Spanned::new(shown, Span::new(0, 8 + 900 + 9)));
}

// Mentions.

#[test]
fn mention_of_an_unclosed_tag_hides_nothing() {
    for text in [
        "I need <goto> here: <goto>A</goto>",
        "Neither `<result>` nor `<fork>`: <goto>A</goto>",
        "<goto>A</goto> (no `<result>` yet)",
        "<goto>A</goto> closed by </goto>",
        "a stray </result>, then <goto>A</goto>",
        "not <goto/> but <goto>A</goto>",
        "not <goto target=\"B\" /> but <goto>A</goto>",
        "`<call return=...>` is not needed: <goto>A</goto>",
        "`<call return=\"X.md\">` is not needed: <goto>A</goto>",
        "`<call return=\"` is not needed: <goto>A</goto>",
        "<goto <goto>A</goto>",
        "<goto<goto>A</goto>",
        "<goto>A</goto> <goto",
        "<goto>A</goto> </goto x>",
    ] {
        assert_eq!(goto_target(text), "A", "{text:?}");
    }
}

#[test]
fn mention_with_a_stray_quote_hides_nothing() {
    let text = "Not `<call return=\"X` but <goto>A</goto>, as \"planned\" -> done";
    assert_eq!(goto_target(text), "A");
}

#[test]
fn mention_alone_is_a_malformed_tag() {
    use MalformedWhy::{Closing, OpeningTooLong, SelfClosing, Unclosed, Unopened};
    let endless = format!("see <goto x=\"{}", "y".repeat(OPENING_BYTES_MAX));
    let samples = [
        ("I will use <goto> soon", TagKind::Goto, "<goto>", Unclosed),
        ("<goto>NEXT.md", TagKind::Goto, "<goto>", Unclosed),
        ("<call return=\"B\">A", TagKind::Call, "<call return=\"B\">", Unclosed),
        ("NEXT.md</goto>", TagKind::Goto, "</goto>", Unopened),
        ("it ends with <fork", TagKind::Fork, "<fork", Unclosed),
        ("<call return=\"B", TagKind::Call, "<call", Unclosed),
        ("</goto x>", TagKind::Goto, "</goto", Closing),
        ("go <goto/> on", TagKind::Goto, "<goto/>", SelfClosing),
        ("<reset cd=\"x\" />", TagKind::Reset, "<reset cd=\"x\" />", SelfClosing),
        (endless.as_str(), TagKind::Goto, "<goto", OpeningTooLong),
        // The last one is the one that was meant.
        ("first <result>, then <goto>", TagKind::Goto, "<goto>", Unclosed),
    ];
    for (text, kind, piece, why) in samples {
        let start = text.get(..40).unwrap_or(text);
        assert_eq!(error(text), malformed(text, kind, piece, why), "{start}");
    }
}

#[test]
fn malformed_tag_says_what_is_wrong() {
    let shown = |text: &str| error(text).to_string();
    assert_eq!(
        shown("<goto>A"),
        "`<goto>` is not a complete <goto> tag: its closing tag is missing"
    );
    assert_eq!(
        shown("A</goto>"),
        "`</goto>` is not a complete <goto> tag: its opening tag is missing"
    );
    assert_eq!(
        shown("</goto x>"),
        "`</goto` is not a complete <goto> tag: a closing tag has nothing but its name"
    );
    assert_eq!(
        shown("<goto/>"),
        "`<goto/>` is not a complete <goto> tag: it is self-closing: write an opening and a closing tag"
    );
    assert_eq!(
        shown(&format!("<goto {}", " ".repeat(OPENING_BYTES_MAX))),
        "`<goto` is not a complete <goto> tag: the opening tag does not end"
    );
}

#[test]
fn tag_after_an_endless_opening_tag_is_found() {
    let text = format!("<call x=\"{} <goto>A</goto>", "y".repeat(2 * OPENING_BYTES_MAX));
    assert_eq!(goto_target(&text), "A");
}

#[test]
fn closing_tag_ends_the_nearest_opening_tag_of_its_name() {
    let text = "write <goto> then <goto>B</goto>";
    let tag = plain(TagKind::Goto, at(text, "B"));
    assert_eq!(parse(text), found(text, "<goto>B</goto>", tag));
}

// A result beside its own name.

#[test]
fn payload_survives_a_mention_of_its_own_tag() {
    for raw in [
        "The <result> tag ends it.",
        "`<result>`",
        "\nEnd with <result>, not with <goto>A</goto>.\n",
        "Either <goto>A</goto>, <goto>B</goto> or <result> is right",
        "many: <result> <result> <result> <result>",
        "Close it by </result>, then stop.",
        "</result> </result> and <goto>A</goto> ",
        "Close <goto> </goto> by </result>.",
        "Not </result/>, </result x> or <result",
        "a <result>b</result> c </result> d",
    ] {
        for text in [
            format!("<result>{raw}</result>"),
            format!("Done.\n\n  <result>{raw}</result> \r\n\nThat is all.\n"),
        ] {
            assert_eq!(payload(&text), raw, "{text}");
            for size in [1, 2, 3, 7] {
                let scan = scan_in_chunks(text.as_bytes(), size);
                assert_eq!(tag_of(scan, text.as_bytes()), parse(&text), "{size} bytes of {text}");
            }
        }
    }
}

#[test]
fn prose_may_mention_result_beside_one_on_a_line_of_its_own() {
    for text in [
        "As told, I end with a `<result>` tag.\n\n<result>x</result>",
        "Neither <goto> nor <fork>, but <result> as told:\n\t<result>x</result>\n",
        "<result>x</result> I hope that <result> was right.",
        "Not </result> alone. <result>x</result>",
    ] {
        assert_eq!(payload(text), "x", "{text}");
    }
}

#[test]
fn result_whose_ends_are_not_certain_is_refused() {
    for (text, counts) in [
        ("I will end with <result>: <result>x</result>", (2, 1)),
        ("<result>\nonce more:\n<result>x</result>", (2, 1)),
        ("so <result>a</result> b</result> it is", (1, 2)),
        ("<result>a</result>\n</result>\n", (1, 2)),
        // What follows the first closing tag may be payload, or prose.
        ("<result>x</result>\nIt is closed by </result>, as told.", (1, 2)),
        ("<result>important A.\n</result>\nmore B.</result> bye", (1, 2)),
        ("a <result> b <result>c</result>\n</result> <result>", (1, 1)),
    ] {
        match (parse(text), counts) {
            (Err(TagError::AmbiguousPayload { openings, closings, .. }), _) => {
                assert_eq!((openings, closings), counts, "{text}");
            }
            // Pairs that balance tell by themselves.
            (Ok(_), (1, 1)) => assert_eq!(payload(text), " b <result>c</result>\n"),
            (other, _) => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        parse("<result>a <result></result> <result>b</result>"),
        Err(TagError::Several { count: 2, .. })
    ));
}

#[test]
fn result_with_more_mentions_than_are_kept_is_whole_or_refused() {
    let raw = "a mention of <result> ".repeat(300);
    assert_eq!(payload(&format!("<result>{raw}</result>")), raw);
    let deep = format!("<result>{}{} </result>", "<result>".repeat(200), "</result>".repeat(200));
    let whole = deep.get("<result>".len()..deep.len() - "</result>".len()).unwrap();
    match parse(&deep) {
        Ok(tag) => assert_eq!(tag.value, plain(TagKind::Result, at(&deep, whole))),
        Err(error) => assert!(matches!(error, TagError::AmbiguousPayload { .. }), "{error}"),
    }
    let raw = "a mention of </result> ".repeat(300);
    let error = error(&format!("<result>{raw}</result>"));
    assert!(matches!(error, TagError::AmbiguousPayload { .. }), "{error}");
}

#[test]
fn result_inside_another_tag_is_content_of_that_tag() {
    for text in ["<goto><result>A</result></goto>", "<goto> <result> </result> </result></goto>"] {
        assert!(matches!(parse(text), Err(TagError::NotAFileName { .. })), "{text}");
    }
    assert!(matches!(
        parse("<result>a</result> <goto>A </result>\n</goto>"),
        Err(TagError::Several { count: 2, .. })
    ));
}

#[test]
fn payload_with_many_mentions_stays_a_payload() {
    let raw = format!("{}<goto>EVIL</goto>", "a list item about <goto>\n".repeat(200));
    assert_eq!(payload(&format!("<result>{raw}</result>")), raw);
}

// Bytes and chunks.

#[test]
fn bytes_that_are_not_text_hide_no_tag() {
    let bytes = b"\xff\xfe\0\x80<\xff<goto\0>\xc3<goto>A</goto>\0\xff";
    let target = Spanned::new("A".to_owned(), Span::new(20, 21));
    let tag = Spanned::new(plain(TagKind::Goto, target), Span::new(14, 28));
    assert_eq!(tag_in_bytes(bytes), Ok(tag));
}

#[test]
fn nul_in_a_target_is_refused_and_in_a_payload_kept() {
    let target = Spanned::new("A\0B".to_owned(), Span::new(6, 9));
    let (kind, place) = (TagKind::Goto, TargetPlace::Content);
    assert_eq!(
        tag_in_bytes(b"<goto>A\0B</goto>"),
        Err(TagError::NotAFileName { kind, place, target })
    );
    let payload = Spanned::new("A\0B".to_owned(), Span::new(8, 11));
    let tag = Spanned::new(plain(TagKind::Result, payload), Span::new(0, 20));
    assert_eq!(tag_in_bytes(b"<result>A\0B</result>"), Ok(tag));
}

#[test]
fn attribute_of_bytes_that_are_not_text_keeps_its_place() {
    let bytes = b"<fork next=\"B\" item=\"\xff\xff\">A</fork>";
    let item = Attribute {
        name: Spanned::new("item".to_owned(), Span::new(15, 19)),
        value: Spanned::new("\u{fffd}\u{fffd}".to_owned(), Span::new(21, 23)),
    };
    let next = Attribute {
        name: Spanned::new("next".to_owned(), Span::new(6, 10)),
        value: Spanned::new("B".to_owned(), Span::new(12, 13)),
    };
    let target = Spanned::new("A".to_owned(), Span::new(25, 26));
    let tag = Tag::new(TagKind::Fork, target, vec![next, item]);
    assert_eq!(tag_in_bytes(bytes), Ok(Spanned::new(tag, Span::new(0, 33))));
}

#[test]
fn target_of_bytes_that_are_not_text_keeps_its_place() {
    let target = Spanned::new("A\u{fffd}".to_owned(), Span::new(6, 8));
    let tag = Spanned::new(plain(TagKind::Goto, target), Span::new(0, 15));
    assert_eq!(tag_in_bytes(b"<goto>A\xff</goto>"), Ok(tag));
}

#[test]
fn scanner_that_was_given_nothing_finds_nothing() {
    assert_eq!(tag_of(Scanner::new().finish(), b""), Err(TagError::None));
    let mut scanner = Scanner::new();
    scanner.push(b"");
    scanner.push(b"<goto>A</go");
    scanner.push(b"");
    scanner.push(b"to>");
    let target = Spanned::new("A".to_owned(), Span::new(6, 7));
    let tag = Spanned::new(plain(TagKind::Goto, target), Span::new(0, 14));
    assert_eq!(tag_of(scanner.finish(), b"<goto>A</goto>"), Ok(tag));
}

#[test]
fn chunks_of_any_size_give_the_same_as_the_whole_text() {
    let endless = format!("<fork next=\"{} <goto>A</goto>", "y".repeat(OPENING_BYTES_MAX));
    for text in [
        "",
        "no tag at all, 1 < 2",
        "All done.\n\n<goto>NEXT.md</goto>\n",
        "<reset cd='../x'>\r\nPHASE2.md\r\n</reset>",
        "<call return=\"B.md\">A.md</call>",
        "<function return='B' model=\"haiku\">A</function> trailing < text",
        "x <fork next=\"B\" item=\"it's <goto>C</goto> > d\">W</fork >",
        "<result>a <goto>b</goto> <result>é 日本</result> c</result>",
        "<goto>A</goto><reset>B</reset><goto>C</goto><goto>D</goto><goto>E</goto><goto>F</goto>",
        "mention <goto> and </result> and <fork/> and <call x=1>",
        "mention <call return=\" only",
        "<call return=B>A</call>",
        "<goto",
        "</resu",
        "<<<goto<goto></goto x></goto></ <re <f",
        "<goto a",
        "<goto a =",
        "<goto /",
        endless.as_str(),
    ] {
        let whole = Scan::of(text);
        let start = text.get(..100).unwrap_or(text);
        for size in [1, 2, 3, 7] {
            // Reading an endless opening tag again for each byte would take long.
            let size = if text.len() > 1000 { size * 997 } else { size };
            let scan = scan_in_chunks(text.as_bytes(), size);
            assert_eq!(format!("{scan:?}"), format!("{whole:?}"), "{size} bytes of {start}");
            assert_eq!(tag_of(scan, text.as_bytes()), parse(text), "{size} bytes of {start}");
        }
    }
}

#[test]
fn chunks_that_cut_bytes_that_are_no_text_give_the_same_as_the_whole() {
    let bytes = b"\xff<\xffgoto><fork next=\"\xc3\" x='\0'>\xe6\x97\xa5\xff</fork>\xc3<";
    let whole = format!("{:?}", scan_in_chunks(bytes, bytes.len()));
    for size in [1, 2, 3, 7] {
        assert_eq!(format!("{:?}", scan_in_chunks(bytes, size)), whole, "{size}");
    }
}
