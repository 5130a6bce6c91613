//! No bytes make the tag scanner panic, and how they are cut into chunks changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raymond_flow::tag::{Scan, Scanner};

fuzz_target!(|data: (u8, &[u8])| {
    let (size, bytes) = data;
    let whole = {
        let mut scanner = Scanner::new();
        scanner.push(bytes);
        scanner.finish()
    };
    let chunked = {
        let mut scanner = Scanner::new();
        for chunk in bytes.chunks(usize::from(size).max(1)) {
            scanner.push(chunk);
        }
        scanner.finish()
    };
    let tag = |scan: Scan| {
        scan.tag(|span| {
            let range = span.range().expect("spans lie within the text");
            Ok::<_, ()>(String::from_utf8_lossy(&bytes[range]).into_owned())
        })
    };
    let found = tag(whole);
    assert_eq!(found, tag(chunked));
    if let Ok(Ok(tag)) = found {
        // Making text of bytes that are none changes no kind.
        let text = String::from_utf8_lossy(bytes);
        if let Ok(alone) = raymond_flow::tag::parse(&text) {
            assert_eq!(alone.value.kind, tag.value.kind);
        }
    }
});
