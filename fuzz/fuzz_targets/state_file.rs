//! No bytes make the frontmatter reader panic, and every place it names lies within the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raymond_flow::source::{Platform, StateFile, StateFileError, StateSource};

fuzz_target!(|bytes: &[u8]| {
    let diagnostics = match StateFile::read("STATE.md", bytes, Platform::Unix) {
        Ok(StateFile { source: StateSource::Prompt(prompt), .. }) => {
            let text = std::str::from_utf8(bytes).expect("only text is accepted");
            assert_eq!(prompt.body_span.slice(text), Some(prompt.body.as_str()));
            prompt.warnings
        }
        Ok(_) => unreachable!("the name says that it is a prompt"),
        Err(StateFileError::Frontmatter { diagnostics }) => diagnostics,
        Err(_) => Vec::new(),
    };
    for found in diagnostics {
        assert!(found.span.end <= bytes.len() as u64, "{found:?}");
        assert!(found.position.line >= 1 && found.position.column >= 1);
    }
});
