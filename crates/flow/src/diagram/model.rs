//! The boxes and lines of a diagram, without positions.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    graph::{Edge, EdgeKind, Graph, Meaning, ResultEnd, State},
    id::StateName,
    source::StateKind,
    view::{StateTotals, TakenWay, Trace},
};

/// Boxes and lines.
#[derive(Clone, Debug)]
pub struct Diagram {
    /// The title of the diagram.
    pub title: String,
    /// The boxes; lines refer to them by index.
    pub nodes: Vec<Node>,
    /// The lines; at most one of each kind between two boxes.
    pub links: Vec<Link>,
    /// The answers of a person that lead along a line, by the index of the line.
    pub answers: BTreeMap<usize, BTreeSet<String>>,
    /// How often a run followed each line, by the index of the line; `None` if no run is shown.
    pub taken: Option<BTreeMap<usize, u64>>,
}

/// A box.
#[derive(Clone, Debug)]
pub struct Node {
    /// The text in the box.
    pub label: String,
    /// What the box stands for.
    pub kind: NodeKind,
    /// Whether the workflow starts here.
    pub is_entry: bool,
    /// What a run did in this state, if it entered it.
    pub visit: Option<StateTotals>,
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
    /// A prompt that is only used as an evaluator.
    Evaluator,
    /// A state that a file names but that does not exist.
    Missing,
    /// A target that is decided at run time.
    Open,
    /// The end of an agent.
    End,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The box at which it starts.
    pub from: usize,
    /// The box at which it ends.
    pub to: usize,
    /// What it means.
    pub kind: LinkKind,
}

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// A transition to another state.
    Way(EdgeKind),
    /// A result, which returns to a caller or ends its agent.
    Result,
}

/// The box for the result of the run.
const RUN_ENDS: &str = "result";
/// The box for the end of workers, whose results are discarded.
const WORKER_ENDS: &str = "worker ends";

impl LinkKind {
    /// All kinds, in the order of the legend.
    pub const ALL: [Self; 11] = [
        Self::Way(EdgeKind::Goto),
        Self::Way(EdgeKind::Reset),
        Self::Way(EdgeKind::Call),
        Self::Way(EdgeKind::Function),
        Self::Way(EdgeKind::Return),
        Self::Result,
        Self::Way(EdgeKind::Fork),
        Self::Way(EdgeKind::Next),
        Self::Way(EdgeKind::Join),
        Self::Way(EdgeKind::Ask),
        Self::Way(EdgeKind::Evaluate),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Way(kind) => kind.name(),
            Self::Result => "result",
        }
    }
}

impl Node {
    /// The subworkflow that it is a state of, with a slash at its end; empty for all other boxes.
    pub fn folder(&self) -> &str {
        let at = self.label.rfind('/').filter(|_| self.is_file());
        at.and_then(|at| self.label.get(..=at)).unwrap_or_default()
    }

    /// Whether it is a file of the workflow.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, NodeKind::Prompt | NodeKind::Script | NodeKind::Evaluator)
    }
}

impl NodeKind {
    /// The name shown to the user, which is also the name of its style.
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

impl Diagram {
    /// Makes the diagram of `graph`. `trace` is what a run did, if it is to be shown.
    pub fn of(title: &str, graph: &Graph, trace: Option<&Trace>) -> Self {
        let mut drawing = Drawing::default();
        for state in graph.states.values() {
            let visit = trace.and_then(|trace| trace.visits.get(&state.name)).copied();
            let is_entry = graph.entry.as_ref().is_ok_and(|entry| *entry == state.name);
            drawing.add_state(state, is_entry, visit);
        }
        drawing.add_results(graph);
        for Edge { from, to, kind, label, .. } in graph.edges() {
            // The result of a subtask leads to the state at which its caller continues.
            if kind != EdgeKind::Return || !drawing.has_result_to(&to) {
                let link = drawing.link(from.as_str(), to.as_str(), LinkKind::Way(kind));
                if let (Some(link), Some(label)) = (link, label) {
                    drawing.answers.entry(link).or_default().insert(label);
                }
            }
        }
        for state in graph.states.values() {
            drawing.add_loose_ends(state);
        }
        let taken = trace.map(|trace| drawing.take(trace));
        let links: Vec<_> = drawing.links.into_iter().collect();
        let index = |link: &Link| links.binary_search(link).ok();
        let taken = taken.map(|taken| {
            taken.iter().filter_map(|(link, count)| Some((index(link)?, *count))).collect()
        });
        let answers = drawing.answers.into_iter();
        let answers = answers.filter_map(|(link, labels)| Some((index(&link)?, labels))).collect();
        Self { title: title.to_owned(), nodes: drawing.nodes, links, answers, taken }
    }

    /// The subworkflows that have boxes, and those around them, sorted: each comes after the one that it lies in.
    pub(super) fn folders(&self) -> BTreeSet<&str> {
        let all = self.nodes.iter().map(Node::folder);
        all.flat_map(|folder| folder.match_indices('/').filter_map(|(at, _)| folder.get(..=at)))
            .collect()
    }

    /// Writes the boxes of subworkflows in clusters: `node` writes a box, `open` opens the cluster with this
    /// number and folder, `close` closes it; each gets the indentation.
    pub(super) fn clustered(
        &self,
        text: &mut String,
        node: impl Fn(&mut String, &str, usize),
        open: impl Fn(&mut String, &str, usize, &str),
        close: &str,
    ) {
        let mut stack: Vec<&str> = Vec::new();
        let folders = std::iter::once("").chain(self.folders());
        for (number, folder) in folders.enumerate() {
            while stack.last().is_some_and(|outer| !folder.starts_with(outer)) {
                stack.pop();
                text.push_str(&indent(stack.len()));
                text.push_str(close);
            }
            if !folder.is_empty() {
                open(text, &indent(stack.len()), number, folder);
                stack.push(folder);
            }
            for (index, _) in self.nodes.iter().enumerate().filter(|(_, n)| n.folder() == folder) {
                node(text, &indent(stack.len()), index);
            }
        }
        while stack.pop().is_some() {
            text.push_str(&indent(stack.len()));
            text.push_str(close);
        }
    }

    /// Whether a run followed the line with this index; `None` if no run is shown.
    pub(super) fn is_taken(&self, link: usize) -> Option<bool> {
        self.taken.as_ref().map(|taken| taken.contains_key(&link))
    }

    /// The label of a line: its kind, unless the arrow or the box at its end makes it obvious, and
    /// how often it was followed.
    pub(super) fn link_label(&self, link: usize) -> String {
        let Link { to, kind, .. } = self.links[link];
        let is_plain =
            kind == LinkKind::Way(EdgeKind::Goto) || self.nodes[to].kind == NodeKind::End;
        let word = if is_plain { "" } else { kind.name() };
        let word = match self.answers.get(&link) {
            Some(labels) => {
                let labels: Vec<_> = labels.iter().map(String::as_str).collect();
                format!("{word}: {}", labels.join(", "))
            }
            None => word.to_owned(),
        };
        let count = self.taken.as_ref().and_then(|taken| taken.get(&link)).filter(|n| **n > 1);
        match count {
            Some(count) => format!("{word} {count}×").trim_start().to_owned(),
            None => word,
        }
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth + 1)
}

#[derive(Default)]
struct Drawing {
    nodes: Vec<Node>,
    by_name: BTreeMap<String, usize>,
    links: BTreeSet<Link>,
    answers: BTreeMap<Link, BTreeSet<String>>,
}

impl Drawing {
    fn add_state(&mut self, state: &State, is_entry: bool, visit: Option<StateTotals>) {
        let kind = match state.kind {
            StateKind::Script => NodeKind::Script,
            StateKind::Prompt if state.is_evaluator => NodeKind::Evaluator,
            StateKind::Prompt => NodeKind::Prompt,
        };
        self.by_name.insert(state.name.to_string(), self.nodes.len());
        let (label, text) = (state.name.to_string(), state.text.clone());
        self.nodes.push(Node { label, kind, is_entry, visit, text });
    }

    /// Adds the lines of results. An unreachable state is drawn as if it ended the run.
    fn add_results(&mut self, graph: &Graph) {
        let ends = graph.result_ends();
        for state in graph.states.values().filter(|state| state.has_result()) {
            let run = BTreeSet::from([ResultEnd::Run]);
            for end in ends.get(&state.name).unwrap_or(&run) {
                let to = match end {
                    ResultEnd::Run => self.extra(RUN_ENDS, NodeKind::End),
                    ResultEnd::Worker => self.extra(WORKER_ENDS, NodeKind::End),
                    ResultEnd::Caller(caller) => caller.to_string(),
                };
                self.link(state.name.as_str(), &to, LinkKind::Result);
            }
        }
    }

    fn has_result_to(&self, to: &StateName) -> bool {
        let to = self.by_name.get(to.as_str());
        self.links.iter().any(|link| Some(&link.to) == to && link.kind == LinkKind::Result)
    }

    /// Adds the transitions that a run followed, even if the files do not declare them, and returns how
    /// often it followed each.
    fn take(&mut self, trace: &Trace) -> BTreeMap<Link, u64> {
        let mut taken = BTreeMap::new();
        for (TakenWay { from, to, kind, is_worker }, count) in &trace.ways {
            let to = match to {
                Some(to) => to.to_string(),
                None if *is_worker => self.extra(WORKER_ENDS, NodeKind::End),
                None => self.extra(RUN_ENDS, NodeKind::End),
            };
            if let Some(link) = self.link(from.as_str(), &to, *kind) {
                *taken.entry(link).or_default() += count;
            }
        }
        taken
    }

    /// Adds boxes for targets that are not states: unresolved names, and names unknown until run time.
    fn add_loose_ends(&mut self, state: &State) {
        let from = state.name.as_str();
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

    /// Adds a box that is not a file. Its key cannot be a file name.
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

    fn link(&mut self, from: &str, to: &str, kind: LinkKind) -> Option<Link> {
        let link = Link { from: *self.by_name.get(from)?, to: *self.by_name.get(to)?, kind };
        self.links.insert(link);
        Some(link)
    }
}
