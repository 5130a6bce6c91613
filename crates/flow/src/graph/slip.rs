//! Slips of the pen in tags: markup that was meant to be a tag of the protocol and is none.
//!
//! HTML and XML are common in prompts, and `<form>` is one letter away from `<fork>`. So a name that is
//! only similar counts where the other half of the element shows what was meant: `<goto>A</gotoo>`,
//! `<gotoo>A</goto>`, or `<gotoo>A</gotoo>` around the name of a state.

use std::sync::LazyLock;

use regex::Regex;

use crate::{source::did_you_mean, tag::TagKind, text::Span};

/// How many opening tags may wait for their closing tags: a hostile file must not cost quadratic time.
const OPEN_MAX: usize = 128;

/// A tag that was meant to be one of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slip {
    /// Which tag was meant.
    pub meant: TagKind,
    /// What is wrong.
    pub kind: SlipKind,
    /// The markup.
    pub span: Span,
}

/// What is wrong with markup that was meant to be a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlipKind {
    /// The name in the opening tag.
    Opening,
    /// The name in the closing tag.
    Closing,
}

/// One opening or closing tag whose name is that of a tag, or nearly.
struct Piece {
    kind: TagKind,
    is_exact: bool,
    is_closing: bool,
    span: Span,
}

/// The slips in a text that starts at byte `offset` of its file. `is_state` tells whether a name is one of
/// a state.
pub(super) fn slips(text: &str, offset: u64, is_state: impl Fn(&str) -> bool) -> Vec<Slip> {
    let mut found = Vec::new();
    let mut open: Vec<Piece> = Vec::new();
    for piece in pieces(text) {
        if !piece.is_closing {
            if open.len() == OPEN_MAX {
                open.clear();
            }
            open.push(piece);
            continue;
        }
        let Some(at) = open.iter().rposition(|opening| opening.kind == piece.kind) else {
            continue;
        };
        let opening = open.drain(at..).next();
        let Some(opening) = opening else { continue };
        let content = Span::new(opening.span.end, piece.span.start).slice(text);
        let content = content.unwrap_or_default();
        // What is between the two is a name, not a part of a document.
        let is_name = !content.contains(['<', '\n']);
        let is_meant = match (opening.is_exact, piece.is_exact) {
            (true, true) => continue,
            (false, false) => opening.kind.has_target() && is_state(content.trim()),
            _ => is_name || !opening.kind.has_target(),
        };
        if is_meant {
            let slip = |piece: &Piece, kind| Slip {
                meant: piece.kind,
                kind,
                span: piece.span.shifted(offset),
            };
            let both = [(&opening, SlipKind::Opening), (&piece, SlipKind::Closing)];
            let wrong = both.into_iter().filter(|(piece, _)| !piece.is_exact);
            found.extend(wrong.map(|(piece, kind)| slip(piece, kind)));
        }
    }
    found
}

fn pieces(text: &str) -> impl Iterator<Item = Piece> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"<(/?)([A-Za-z]{3,12})(?:\s[^<>]*)?>").expect("the pattern is a constant")
    });
    PATTERN.captures_iter(text).filter_map(|found| {
        let name = found.get(2)?.as_str();
        let exact = TagKind::of_name(name);
        let kind = exact.or_else(|| nearly(name))?;
        let whole = found.get(0)?;
        Some(Piece {
            kind,
            is_exact: exact.is_some(),
            is_closing: found.get(1).is_some_and(|slash| !slash.is_empty()),
            span: Span::new(whole.start() as u64, whole.end() as u64),
        })
    })
}

/// The tag whose name this nearly is.
fn nearly(name: &str) -> Option<TagKind> {
    did_you_mean(name, TagKind::ALL.map(TagKind::name)).and_then(TagKind::of_name)
}
