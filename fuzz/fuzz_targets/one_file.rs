//! No text makes the reader of one-file workflows panic, what it read survives writing and reading, and every place in a
//! file is one in the YAML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raymond_flow::{
    lint::Finding,
    one_file::{OneFile, write},
    source::Severity,
    text::{Position, Span},
};

fuzz_target!(|text: &str| {
    let Ok(read) = OneFile::read(text) else { return };
    for (name, bytes) in &read.files {
        for at in [0, bytes.len() / 2, bytes.len()] {
            let mut finding = Finding {
                rule: "rule",
                severity: Severity::Note,
                file: Some(name.clone()),
                span: Span::new(at as u64, bytes.len() as u64),
                position: Position { line: 1, column: 1 },
                message: String::new(),
                help: None,
            };
            read.place(&mut finding, "flow.yaml", text);
            assert!(finding.span.start <= finding.span.end, "{finding:?}");
            assert!(finding.span.end <= text.len() as u64, "{finding:?}");
            assert!(finding.position.line >= 1 && finding.position.column >= 1);
        }
    }
    if let Ok(written) = write(&read.files) {
        let again = OneFile::read(&written).expect("what is written is read");
        assert_eq!(again.files, read.files, "{written}");
        assert_eq!(write(&again.files).as_ref(), Ok(&written));
    }
});
