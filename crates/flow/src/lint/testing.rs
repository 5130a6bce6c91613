//! How the tests of rules are written: files in, lines out.

use crate::{
    graph::Graph,
    source::{Platform, Severity},
    world::MemoryWorld,
};

use super::{Known, Rule};

/// What a rule says about a workflow: `FILE:LINE:COLUMN: message`, or the message alone.
pub(super) fn found<'a>(
    rule: &'static Rule,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    found_on(Platform::Unix, rule, files)
}

pub(super) fn found_on<'a>(
    platform: Platform,
    rule: &'static Rule,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut world = MemoryWorld::new(files);
    world.platform = platform;
    let graph = Graph::of(&world, None).unwrap();
    let found = rule.findings(&graph, &Known::default());
    let line = |finding: &super::Finding| match &finding.file {
        Some(file) => format!("{file}:{}: {}", finding.position, finding.message),
        None => finding.message.clone(),
    };
    found.iter().map(line).collect()
}

/// How bad what a rule says about a workflow is.
pub(super) fn severities<'a>(
    rule: &'static Rule,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<Severity> {
    let graph = Graph::of(&MemoryWorld::new(files), None).unwrap();
    rule.findings(&graph, &Known::default()).iter().map(|finding| finding.severity).collect()
}

/// A prompt with one line of frontmatter for each allowed transition.
pub(super) fn prompt(allowed: &[&str], body: &str) -> String {
    let entries: Vec<_> = allowed.iter().map(|entry| format!("  - {{ {entry} }}\n")).collect();
    format!("---\nallowed_transitions:\n{}---\n{body}", entries.concat())
}
