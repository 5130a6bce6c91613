//! What is drawn: boxes and lines, before anybody decides where.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    graph::{Edge, EdgeKind, Graph, Meaning, State},
    id::StateName,
    money::Usd,
    source::StateKind,
};

/// Boxes and lines.
#[derive(Clone, Debug)]
pub struct Diagram {
    /// What the picture is called.
    pub title: String,
    /// The boxes; links refer to them by index.
    pub nodes: Vec<Node>,
    /// The lines, each kind once between two boxes.
    pub links: Vec<Link>,
    /// Whether boxes tell what a run did.
    pub shows_run: bool,
}

/// A box.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is written in it.
    pub label: String,
    /// What it stands for.
    pub kind: NodeKind,
    /// Whether the workflow starts here.
    pub is_entry: bool,
    /// What a run did here, if it came here.
    pub visit: Option<Visit>,
    /// The text of the file.
    pub text: String,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// A prompt.
    Prompt,
    /// A script.
    Script,
    /// A prompt that is only asked for its opinion.
    Evaluator,
    /// A state that a file names and that is not there.
    Missing,
    /// Whatever is decided when it runs.
    Open,
    /// The end of an agent or of a subtask.
    End,
}

/// What a run did in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// How many steps ended there.
    pub steps: u64,
    /// What they cost.
    pub cost_usd: Usd,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// From this box.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// What it means.
    pub kind: LinkKind,
}

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// A way to another state.
    Way(EdgeKind),
    /// A result is handed back.
    Result,
}

impl LinkKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Way(kind) => kind.name(),
            Self::Result => "result",
        }
    }
}

impl NodeKind {
    /// The word for it, also the name of its style.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Script => "script",
            Self::Evaluator => "evaluator",
            Self::Missing => "missing",
            Self::Open => "open",
            Self::End => "end",
        }
    }
}

impl Visit {
    /// For people: how often, and for how much.
    pub fn label(&self) -> String {
        format!("{}×, {}", self.steps, self.cost_usd)
    }
}

impl Diagram {
    /// The picture of `graph`. `visits` tells what a run did, if one is to be shown.
    pub fn of(title: &str, graph: &Graph, visits: Option<&BTreeMap<StateName, Visit>>) -> Self {
        let mut drawing = Drawing::default();
        for state in graph.states.values() {
            let visit = visits.and_then(|visits| visits.get(&state.name)).copied();
            let is_entry = graph.entry.as_ref().is_ok_and(|entry| *entry == state.name);
            drawing.add_state(state, is_entry, visit);
        }
        for Edge { from, to, kind, .. } in graph.edges() {
            drawing.link(from.as_str(), to.as_str(), LinkKind::Way(kind));
        }
        for state in graph.states.values() {
            drawing.add_loose_ends(state);
        }
        let links = drawing.links.into_iter().collect();
        let shows_run = visits.is_some();
        Self { title: title.to_owned(), nodes: drawing.nodes, links, shows_run }
    }
}

#[derive(Default)]
struct Drawing {
    nodes: Vec<Node>,
    by_name: BTreeMap<String, usize>,
    links: BTreeSet<Link>,
}

impl Drawing {
    fn add_state(&mut self, state: &State, is_entry: bool, visit: Option<Visit>) {
        let kind = match state.kind {
            StateKind::Script => NodeKind::Script,
            StateKind::Prompt if state.is_evaluator => NodeKind::Evaluator,
            StateKind::Prompt => NodeKind::Prompt,
        };
        self.by_name.insert(state.name.to_string(), self.nodes.len());
        let (label, text) = (state.name.to_string(), state.text.clone());
        self.nodes.push(Node { label, kind, is_entry, visit, text });
    }

    /// The ends of ways that are no states: results, names that mean nothing, and open ones.
    fn add_loose_ends(&mut self, state: &State) {
        let from = state.name.as_str();
        if state.has_result() {
            let end = self.extra("result", NodeKind::End);
            self.link(from, &end, LinkKind::Result);
        }
        let named: Vec<_> =
            state.ways.iter().flat_map(|way| way.named().map(move |named| (way, named))).collect();
        for (way, named) in &named {
            let end = match &named.meaning {
                Meaning::State(_) => continue,
                Meaning::Open => self.extra("?", NodeKind::Open),
                Meaning::Path | Meaning::Wrong(_) => {
                    self.extra(&named.written.value, NodeKind::Missing)
                }
            };
            self.link(from, &end, LinkKind::Way(crate::graph::EdgeKind::of_target(way.tag)));
        }
        if state.is_open && state.ways.is_empty() {
            let end = self.extra("?", NodeKind::Open);
            self.link(from, &end, LinkKind::Way(EdgeKind::Goto));
        }
    }

    /// A box that is no file. Its key cannot be the name of one.
    fn extra(&mut self, label: &str, kind: NodeKind) -> String {
        let key = format!("{}/{label}", kind.name());
        if !self.by_name.contains_key(&key) {
            self.by_name.insert(key.clone(), self.nodes.len());
            let label = label.to_owned();
            let text = String::new();
            self.nodes.push(Node { label, kind, is_entry: false, visit: None, text });
        }
        key
    }

    fn link(&mut self, from: &str, to: &str, kind: LinkKind) {
        if let (Some(&from), Some(&to)) = (self.by_name.get(from), self.by_name.get(to)) {
            self.links.insert(Link { from, to, kind });
        }
    }
}
