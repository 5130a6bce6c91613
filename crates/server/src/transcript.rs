//! The transcript of a step as JSON: the entries of the engine, with markdown as trees and edits as diffs.

use std::sync::Arc;

use axum::Json;
use raymond_engine::{
    agent::{Entry, cut},
    observe::transcript::{Transcript, cost},
};
use raymond_flow::{machine::Spent, tag};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    diff,
    error::{ApiError, ApiResult},
    markdown,
    request::{NamedRun, Parameters},
    shelf::lock,
    steps::{find, intent},
};

/// The longest text of an entry. The raw files of the step have all of it.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// How many entries a page has, by default and at most.
const ENTRIES: usize = 500;
const ENTRIES_MAX: usize = 1_000;

/// A transcript that is read, with the cost of its step as the last entry.
pub(crate) struct Reading {
    run: NamedRun,
    transcript: Transcript,
    is_over: bool,
}

impl Reading {
    /// The transcript of a step, from its beginning.
    pub(crate) fn open(run: NamedRun) -> ApiResult<Self> {
        let opened = run.open()?;
        let opened = lock(&opened);
        let facts = find(&opened.overview, &run.names.step)?;
        let intent = intent(&opened.overview, facts)?;
        let transcript = Transcript::new(opened.overview.files(), &facts.id(), &intent);
        Ok(Self { run, transcript, is_over: false })
    }

    /// What is new, and whether that is all that can be read now.
    pub(crate) fn some(&mut self) -> ApiResult<(Vec<Entry>, bool)> {
        let agents = self.run.app.host.agents(&self.run.project.state_dir);
        let unreadable =
            |error| ApiError::unreadable(format!("cannot read the output of the step: {error}"));
        let (mut entries, is_all) = self.transcript.some(&agents).map_err(unreadable)?;
        if is_all && (self.transcript.is_over() || self.transcript.is_empty()) && !self.is_over {
            entries.extend(self.end()?);
        }
        Ok((entries, is_all))
    }

    /// What the step cost, once its orchestrator has recorded that.
    fn end(&mut self) -> ApiResult<Option<Entry>> {
        let run = self.run.open()?;
        let run = lock(&run);
        let facts = find(&run.overview, &self.run.names.step)?;
        self.is_over = facts.ended_at.is_some() || run.live.owner.is_none();
        let spent = Spent {
            cost_usd: facts.cost_usd.unwrap_or_default(),
            duration_ms: facts.duration_ms.unwrap_or_default(),
            model: facts.model.clone(),
            ..Spent::default()
        };
        Ok(facts.ended_at.filter(|_| facts.is_turn()).map(|_| cost(&spent)))
    }

    /// Whether nothing will follow.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Which entries are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranscriptQuery {
    from: Option<usize>,
    limit: Option<usize>,
}

/// `GET /api/runs/{project}/{run}/steps/{step}/transcript`
pub(crate) async fn page(
    run: NamedRun,
    Parameters(part): Parameters<TranscriptQuery>,
) -> ApiResult<Json<Value>> {
    let app = Arc::clone(&run.app);
    app.read(move |_| {
        let mut reading = Reading::open(run)?;
        let from = part.from.unwrap_or(0);
        let until = from.saturating_add(part.limit.unwrap_or(ENTRIES).clamp(1, ENTRIES_MAX));
        let (mut entries, mut index) = (Vec::new(), 0);
        let mut is_cut = false;
        loop {
            let (some, is_all) = reading.some()?;
            for entry in some {
                match index {
                    _ if index >= until => is_cut = true,
                    _ if index >= from => entries.push(json(&entry, index)),
                    _ => {}
                }
                index += 1;
            }
            if is_all || is_cut {
                break;
            }
        }
        let next = from.max(index.min(until));
        let is_over = reading.is_over() && !is_cut;
        Ok(Json(json!({ "entries": entries, "next": next, "is_over": is_over })))
    })
    .await
}

/// One entry.
pub(crate) fn json(entry: &Entry, index: usize) -> Value {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    value["index"] = json!(index);
    match entry {
        Entry::Prompt { text } | Entry::Message { text } | Entry::Thinking { text } => {
            shorten(&mut value, text);
        }
        Entry::Text { text } => {
            let kept = shorten(&mut value, text);
            value["markdown"] = markdown::tree(kept);
        }
        Entry::Answer { text, .. } => {
            let kept = shorten(&mut value, text);
            value["markdown"] = answer(kept);
        }
        Entry::Tool { detail, .. } => {
            value["diff"] = detail.edit.as_ref().map_or(Value::Null, diff::of);
            if let Some(fields) = value.as_object_mut() {
                fields.remove("edit");
            }
        }
        Entry::Note { .. } | Entry::Output { .. } | Entry::Failure { .. } | Entry::Cost { .. } => {}
    }
    value
}

fn shorten<'t>(value: &mut Value, text: &'t str) -> &'t str {
    let (kept, rest) = cut(text, TEXT_BYTES_MAX);
    value["text"] = json!(kept);
    value["cut"] = json!(rest);
    kept
}

/// The tree of an answer, with its tag as a node of its own.
fn answer(text: &str) -> Value {
    let parsed = tag::parse(text).ok();
    let range = parsed.and_then(|tag| tag.span.range());
    let parts = range.and_then(|range| {
        Some((text.get(..range.start)?, text.get(range.clone())?, text.get(range.end..)?))
    });
    let Some((before, tag, after)) = parts else { return markdown::tree(text) };
    let mut nodes = Vec::new();
    let mut add = |tree: Value| nodes.extend(tree.as_array().cloned().unwrap_or_default());
    add(markdown::tree(before));
    add(json!([{ "tag": "transition", "children": [tag] }]));
    add(markdown::tree(after));
    Value::from(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_of_an_answer_is_a_node_and_everything_else_is_markdown() {
        let entry = Entry::Answer { text: "Done **it**.\n\n<goto>B</goto>".to_owned(), tag: None };
        let value = json(&entry, 3);
        assert_eq!(value["index"], 3);
        assert_eq!(value["markdown"][0]["tag"], "p");
        let tag = json!({ "tag": "transition", "children": ["<goto>B</goto>"] });
        assert_eq!(value["markdown"][1], tag);
    }

    #[test]
    fn long_text_is_cut_at_a_character_and_says_how_much_is_missing() {
        let text = "ä".repeat(TEXT_BYTES_MAX);
        let value = json(&Entry::Thinking { text }, 0);
        assert_eq!(value["text"].as_str().map(str::len), Some(TEXT_BYTES_MAX));
        assert_eq!(value["cut"], TEXT_BYTES_MAX);
    }
}
