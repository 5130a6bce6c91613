//! What each worker is about, in a few words: the values that its fork gave it, or else the text for its first state.

use std::collections::BTreeMap;

use raymond_flow::{id::AgentId, policy::Forked, view::RunView};

use crate::line::excerpt;

/// The most characters of an item: with a name, a cost, steps and a time it fits into 60 columns.
const ITEM_CHARS_MAX: usize = 24;
/// A value of which fewer could be shown is left out.
const VALUE_CHARS_MIN: usize = 6;

/// What an agent is about, also one that has ended; empty if it was given nothing.
pub(crate) fn of(view: &RunView, agent: &AgentId) -> String {
    let item = view.attributes.get(agent).map(words).unwrap_or_default();
    match view.inputs.get(agent) {
        Some(input) if item.is_empty() => short(&excerpt(input), ITEM_CHARS_MAX),
        _ => item,
    }
}

/// What a fork gives its worker, in a few words.
pub(crate) fn item(forked: &Forked) -> String {
    let item = words(&forked.attributes);
    match &forked.input {
        Some(input) if item.is_empty() => short(&excerpt(input), ITEM_CHARS_MAX),
        _ => item,
    }
}

/// The values of attributes, each short: of those that do not fit, the first ones.
pub(super) fn words(attributes: &BTreeMap<String, String>) -> String {
    let mut words = String::new();
    let mut room = ITEM_CHARS_MAX;
    let values = attributes.values().map(|value| excerpt(value));
    for value in values.filter(|value| !value.is_empty()) {
        if !words.is_empty() {
            room = room.saturating_sub(2);
            if room < value.chars().count().min(VALUE_CHARS_MIN) {
                break;
            }
            words.push_str(", ");
        }
        let value = short(&value, room);
        room -= value.chars().count();
        words.push_str(&value);
    }
    words
}

/// The beginning of a text, or the end of a path: its name is there.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    let count = text.chars().count();
    if count <= chars_max {
        return text.to_owned();
    }
    if text.contains('/') && !text.contains(' ') {
        let end: String = text.chars().skip(count + 1 - chars_max).collect();
        return format!("…{end}");
    }
    let beginning: String = text.chars().take(chars_max - 1).collect();
    format!("{}…", beginning.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_shows_the_values_and_of_a_long_path_its_end() {
        let of = |pairs: &[(&str, &str)]| {
            words(&pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        };
        assert_eq!(of(&[("item", "src/a.rs"), ("part", "2")]), "src/a.rs, 2");
        assert_eq!(
            of(&[("item", "crates/raymond/src/report/items.rs")]),
            "…ond/src/report/items.rs"
        );
        assert_eq!(
            of(&[("file", "crates/raymond/src/main.rs"), ("task", "look for errors")]),
            "…tes/raymond/src/main.rs"
        );
        assert_eq!(
            of(&[("file", "src/main.rs"), ("task", "look for errors")]),
            "src/main.rs, look for e…"
        );
        assert_eq!(of(&[("task", "remove all warnings of the linter")]), "remove all warnings of…");
        assert_eq!(of(&[("a", " "), ("b", "x\ny")]), "x\\ny");
        assert_eq!(of(&[]), "");
        assert_eq!(short("…ond/src/report/items.rs", 16), "…report/items.rs");
    }
}
