//! Workflows in one YAML file: the same files as in a directory, and back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use raymond_flow::{
    graph::Graph,
    lint::{Known, lint},
    one_file::{OneFile, WriteError, write},
    world::MemoryWorld,
};

const FLOW: &str = "\
# A workflow.
states:
  START:
    model: opus
    # What may follow.
    allowed_transitions:
      - { tag: goto, target: TEST }
      - tag: call
        target: review/
        return: TEST
    prompt: |
      Do this: {{input}}

      Then <goto>TEST</goto>.
  TEST:
    sh: |
      echo '<result>x</result>'
    bat: 'echo x'
  review/:
    START: { model: haiku, effort: low, prompt: \"Review.\\n<result>…</result>\" }
    ASK:
      prompt: >
        folded
        text
      timeout: 5m
files:
  notes.txt: text
  tests/main.yaml: |
    input: x
";

fn text<'f>(read: &'f OneFile, name: &str) -> &'f str {
    std::str::from_utf8(&read.files[name]).unwrap()
}

#[test]
fn states_and_files_are_those_of_a_directory() {
    let read = OneFile::read(FLOW).unwrap();
    let names: Vec<_> = read.files.keys().map(String::as_str).collect();
    let expected = [
        "START.md",
        "TEST.bat",
        "TEST.sh",
        "notes.txt",
        "review/ASK.md",
        "review/START.md",
        "tests/main.yaml",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        text(&read, "START.md"),
        "---\nmodel: opus\n# What may follow.\nallowed_transitions:\n  - { tag: goto, target: TEST }\n  - tag: call\n    \
         target: review/\n    return: TEST\n---\nDo this: {{input}}\n\nThen <goto>TEST</goto>.\n"
    );
    assert_eq!(text(&read, "TEST.sh"), "echo '<result>x</result>'\n");
    assert_eq!(text(&read, "TEST.bat"), "echo x");
    let review = "---\nmodel: haiku\neffort: low\n---\nReview.\n<result>…</result>";
    assert_eq!(text(&read, "review/START.md"), review);
    assert_eq!(text(&read, "review/ASK.md"), "---\ntimeout: 5m\n---\nfolded text\n");
    assert_eq!(text(&read, "tests/main.yaml"), "input: x\n");
}

#[test]
fn findings_are_moved_to_the_lines_of_the_yaml() {
    let yaml = "\
states:
  START:
    allowed_transitions:
      - { tag: goto, target: GONE }
    modle: opus
    prompt: |
      Some text.
        Say <goto>AWAY</goto> or <result>x</result>.
  LEFT:
    sh: \"echo '<goto>LOST</goto>'\"
";
    let read = OneFile::read(yaml).unwrap();
    let mut world = MemoryWorld::new([]);
    world.files.clone_from(&read.files);
    let mut found = lint(&Graph::of(&world, None).unwrap(), &Known::default());
    let said: Vec<_> = found
        .iter_mut()
        .filter(|finding| ["missing-target", "unknown-key"].contains(&finding.rule))
        .map(|finding| {
            read.place(finding, "flow.yaml", yaml);
            let place = finding.span.slice(yaml).unwrap_or_default();
            format!("{}:{} {place}", finding.file.as_deref().unwrap_or_default(), finding.position)
        })
        .collect();
    assert_eq!(
        said,
        [
            // In quotes there are no lines to point to, but there is a beginning.
            "flow.yaml:10:9 ",
            "flow.yaml:4:30 GONE",
            "flow.yaml:5:5 modle",
            "flow.yaml:8:19 AWAY",
        ]
    );
}

#[test]
fn text_that_is_no_workflow_is_refused_with_its_place() {
    for (yaml, said) in [
        ("", "1:1: `states` is missing"),
        ("files: {}", "1:1: `states` is missing"),
        ("[]", "1:1: the document should be `key: value` lines"),
        ("stats: {}", "1:1: unknown key `stats` (did you mean `states`?)"),
        ("states: {}\nstates: {}", "2:1: `states` is given twice"),
        ("states: { A: x }", "1:14: `A` should be `key: value` lines"),
        ("states: { A: {} }", "1:11: `A` has neither `prompt` nor `sh` nor `bat`"),
        (
            "states:\n  A:\n    promt: x",
            "2:3: `A` has neither `prompt` nor `sh` nor `bat` (did you mean `prompt`?)",
        ),
        (
            "states:\n  A:\n    model: x\n    sh: y",
            "3:5: `model` needs `prompt`: a script has no frontmatter",
        ),
        ("states: { A.md: { prompt: x } }", "1:11: `A.md` is named without its extension `.md`"),
        (
            "states: { a/b: { prompt: x } }",
            "1:11: `a/b` is not the name of a state: write the folder as a key `a/`, and `b` below it",
        ),
        (
            "states: { null: { prompt: x } }",
            "1:11: an empty key, or `null`, is not a name: put it in quotes",
        ),
        (
            "states:\n  A:\n    sh: |\n    \techo x\n",
            "4:6: while parsing a block mapping, did not find expected key (the line is indented with a tab: use spaces)",
        ),
        ("states: { ../: { A: { prompt: x } } }", "1:11: `../` is not the name of a state"),
        ("states: { A: { prompt: [x] } }", "1:24: `prompt` should be a text"),
        ("states: {}\nfiles: { ../x: y }", "2:10: `../x` is not a safe file name"),
        ("states: {}\nfiles: { /x: y }", "2:10: `/x` is not a safe file name"),
        ("states: { A: { prompt: x } }\nfiles: { A.md: y }", "2:10: there are two files `A.md`"),
        ("states: { A: { prompt: *x } }", "1:24: "),
    ] {
        let error = OneFile::read(yaml).unwrap_err().to_string();
        assert!(error.starts_with(said), "{said:?} is not {error:?}");
    }
}

fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

#[test]
fn written_workflow_is_as_an_author_would_write_it() {
    let written = write(&OneFile::read(FLOW).unwrap().files).unwrap();
    assert_eq!(
        written,
        "\
states:
  START:
    model: opus
    # What may follow.
    allowed_transitions:
      - { tag: goto, target: TEST }
      - tag: call
        target: review/
        return: TEST
    prompt: |
      Do this: {{input}}

      Then <goto>TEST</goto>.
  TEST:
    bat: |-
      echo x
    sh: |
      echo '<result>x</result>'
  review/:
    ASK:
      timeout: 5m
      prompt: |
        folded text
    START:
      model: haiku
      effort: low
      prompt: |-
        Review.
        <result>…</result>
files:
  notes.txt: |-
    text
  tests/main.yaml: |
    input: x
"
    );
}

#[test]
fn every_text_is_carried_without_a_change() {
    let texts = [
        "",
        "\n",
        "\n\n",
        " ",
        "  x",
        "\nx",
        "x",
        "x\n",
        "x\n\n\n",
        "\tx\n",
        "x\r\ny\r\n",
        "a\u{0}b",
        "\u{feff}x",
        "a\u{85}b\u{2028}c",
        "---\n---\nx",
        "---\nmodel: a\n---\n",
        "---\nmodel: a\n# end\n---\nx\n",
        "---\n{ model: a }\n---\nx",
        "---\nmodel: a\n\n---\n---\n",
        "---\nprompt: a\n---\nx",
        "---\nsh: a\n---\nx",
        "---\nmodel: &a x\neffort: *a\n---\n",
        "---\n  model: a\n---\n",
        "---\nmodel: |\n  a\n\n\n---\nx",
        "--- \nmodel: a\n---\n",
        "---\nmodel: a\nmodel: b\n---\nx",
        "---\nmodel: [\n---\nx",
        "# x",
        "x # y",
        "a: b",
        "- a",
        "   \n  x\n y\n",
        "x\n   \n",
        "\"'\\",
        "😀 ä \u{e000}",
    ];
    for text in texts {
        for name in [
            "S.md",
            "S.sh",
            "notes.txt",
            "sub/S.md",
            "a.md.md",
            ".md",
            "ä ö.md",
            "null.md",
            "tests/S.md",
            "~.sh",
        ] {
            let files = files(&[(name, text)]);
            let written =
                write(&files).unwrap_or_else(|error| panic!("{text:?} in {name}: {error}"));
            assert_eq!(OneFile::read(&written).unwrap().files, files, "{written}");
        }
    }
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    let files = BTreeMap::from([("a.bin".to_owned(), vec![0xff])]);
    let error = write(&files).unwrap_err();
    assert_eq!(error, WriteError::NotText { name: "a.bin".to_owned() });
    assert_eq!(error.to_string(), "`a.bin` is not UTF-8 text, which YAML cannot carry");
}

fn any_name() -> impl Strategy<Value = String> {
    let stem = "[A-Za-z0-9 _ä.'\"#&*!|>%@`-]{1,6}";
    let folder = prop::sample::select(vec!["", "sub/", "sub/in/", "tests/", "sub/tests/", "null/"]);
    let end = prop::sample::select(vec![".md", ".sh", ".bat", ".txt", "", ".yaml"]);
    (folder, stem, end)
        .prop_map(|(folder, stem, end)| format!("{folder}{stem}{end}"))
        .prop_filter("no path", |name| {
            !name.ends_with("/.") && !name.ends_with("/..") && name != "." && name != ".."
        })
}

fn any_text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        " ",
        "x",
        "  y",
        "---",
        "model: a",
        "prompt: b",
        "# c",
        "- d",
        "a: |",
        "\t",
        "e: [f]",
        "'",
        "\"",
        "{{input}}",
        "...",
    ]);
    prop_oneof![
        3 => prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n")),
        1 => any::<String>(),
        1 => ("[a-z]{1,5}: [a-z]{1,5}", any::<String>()).prop_map(|(front, body)| format!("---\n{front}\n---\n{body}")),
    ]
}

proptest! {
    #[test]
    fn any_files_survive_writing_and_reading_and_give_the_same_bytes_again(
        files in prop::collection::btree_map(any_name(), any_text(), 0..6)
    ) {
        let files: BTreeMap<_, _> = files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
        let written = write(&files).unwrap();
        let read = OneFile::read(&written).unwrap();
        prop_assert_eq!(&read.files, &files);
        prop_assert_eq!(write(&read.files).unwrap(), written);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any_text()) {
        let _ = OneFile::read(&text);
        let _ = OneFile::read(&format!("states:\n  A:\n    {}", text.replace('\n', "\n    ")));
    }
}
