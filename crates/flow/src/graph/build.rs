//! Builds a graph from the files of a scope.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

use crate::{
    id::StateName,
    policy::{AllowedTransition, Evaluator},
    scope::{Folder, entry, split_target, workflow_folders},
    source::{Platform, Prompt, Schema, SchemaSource, StateFile, StateKind, StateSource},
    tag::{Element, TagKind, WrittenChoice, choices, mentions},
    text::{Span, Spanned},
    world::{World, WorldError},
};

use super::{
    Content, Graph, Meaning, Named, OfferedChoice, Slip, State, Way, WayOrigin,
    script::{loose_attributes, unquoted},
    slip::slips,
    way::is_open,
};

impl Graph {
    /// Reads the files of `world`. `entry_given` is the entry state, if the user named a state file.
    pub fn of(world: &dyn World, entry_given: Option<&str>) -> Result<Self, WorldError> {
        let listing = world.listing("")?;
        let platform = world.platform();
        let entry = match entry_given {
            Some(name) => Ok(StateName::new(name)),
            None => entry(&listing, platform),
        };
        let mut states = BTreeMap::new();
        for (folder, listing) in workflow_folders(|folder| world.listing(folder))? {
            let reader = GraphBuilder { names: Folder::open(world, &folder)?, platform };
            for name in listing.names().map(|name| format!("{folder}{name}")) {
                if let Ok(kind) = StateKind::of(&name, platform) {
                    let mut state = reader.state(&name, kind, &world.read(&name)?);
                    state.schema = schema(world, &folder, &state);
                    states.insert(StateName::new(&name), state);
                }
            }
        }
        let is_entry_given = entry_given.is_some();
        let mut graph = Self { platform, listing, entry, is_entry_given, states };
        graph.tell_evaluators_apart();
        Ok(graph)
    }

    /// Removes the transitions of prompts that are only evaluators: their answers are about another state.
    fn tell_evaluators_apart(&mut self) {
        let named = |named: &Named| named.state().cloned();
        let asked: BTreeSet<_> =
            self.states.values().flat_map(|state| &state.evaluators).filter_map(named).collect();
        let entering = self.states.values().filter(|state| !asked.contains(&state.name));
        let ways = entering.flat_map(|state| &state.ways).flat_map(Way::named);
        let mut entered: BTreeSet<_> = ways.filter_map(named).collect();
        entered.extend(self.entry.iter().cloned());
        for name in asked.difference(&entered) {
            if let Some(state) = self.states.get_mut(name) {
                state.is_evaluator = true;
                state.is_open = false;
                state.ways.clear();
            }
        }
    }
}

/// The schema of a state, from its frontmatter or from a file beside it.
fn schema(world: &dyn World, folder: &str, state: &State) -> Option<Result<Schema, String>> {
    match &state.prompt()?.frontmatter.schema.as_ref()?.value {
        SchemaSource::Inline(schema) => Some(Ok(schema.clone())),
        SchemaSource::File(name) => {
            let bytes = world.read(&format!("{folder}{name}"));
            let read = bytes
                .map_err(|error| error.to_string())
                .and_then(|bytes| Schema::read(&bytes).map_err(|why| format!("`{name}`: {why}")));
            Some(read)
        }
    }
}

struct GraphBuilder<'a> {
    /// Where the names that a state writes are looked up.
    names: Folder<'a>,
    platform: Platform,
}

impl GraphBuilder<'_> {
    fn state(&self, name: &str, kind: StateKind, bytes: &[u8]) -> State {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut state = State {
            name: StateName::new(name),
            kind,
            text: String::new(),
            content: Content::Script,
            declared: Vec::new(),
            mentions: Vec::new(),
            mentioned_kinds: BTreeSet::new(),
            slips: Vec::new(),
            schema: None,
            evaluators: Vec::new(),
            ways: Vec::new(),
            is_open: false,
            is_evaluator: false,
        };
        match StateFile::read(name, bytes, self.platform).map(|file| file.source) {
            Ok(StateSource::Script) => {
                let source = unquoted(&text, self.platform);
                state.mentions = self.tags(&source, 0, WayOrigin::Script);
                state.mentioned_kinds = kinds_in(&source);
                state.slips = self.slips(&source, 0);
            }
            Ok(StateSource::Prompt(prompt)) => {
                state.mentions = self.tags(&prompt.body, prompt.body_span.start, WayOrigin::Prose);
                state.mentioned_kinds = kinds_in(&prompt.body);
                state.slips = self.slips(&prompt.body, prompt.body_span.start);
                self.declared(&prompt, &text, &mut state);
                state.content = Content::Prompt(prompt);
            }
            Err(error) => state.content = Content::Unusable(error),
        }
        state.text = text;
        find_ways(&mut state);
        state
    }

    fn declared(&self, prompt: &Prompt, text: &str, state: &mut State) {
        for entry in &prompt.frontmatter.allowed_transitions {
            state.declared.push(self.entry(&entry.value, entry.span, WayOrigin::Policy, text));
        }
        if let Some(limit) = &prompt.frontmatter.visit_limit {
            let way = self.entry(&limit.value.then, limit.span, WayOrigin::Evaluator, text);
            state.declared.push(way);
        }
        for evaluator in &prompt.frontmatter.evaluators {
            match &evaluator.value {
                Evaluator::Match { then, .. } => {
                    let way = self.entry(then, evaluator.span, WayOrigin::Evaluator, text);
                    state.declared.push(way);
                }
                Evaluator::Prompt { prompt, .. } => {
                    let written = found(text, evaluator.span, prompt);
                    state.evaluators.push(self.named(written));
                }
            }
        }
    }

    /// Converts an entry of a policy. The frontmatter parser keeps only the span of the whole entry, so
    /// the spans of its parts are searched in the text.
    fn entry(&self, entry: &AllowedTransition, span: Span, origin: WayOrigin, text: &str) -> Way {
        let continuation = entry.tag.continuation_attribute();
        let named = |name: &String| self.named(found(text, span, name));
        let target = |name: &String| self.target(entry.tag, found(text, span, name));
        let choices = entry.attributes.get("choices").filter(|_| entry.tag == TagKind::Ask);
        let state = |(_, name): (usize, &str)| self.named(found(text, span, name));
        Way {
            tag: entry.tag,
            target: entry.target.as_ref().map(target),
            continuation: continuation.and_then(|name| entry.attributes.get(name)).map(named),
            choices: choices.map(|choices| offered(choices, state)).unwrap_or_default(),
            attributes: entry
                .attributes
                .iter()
                .filter(|(name, _)| Some(name.as_str()) != continuation)
                .map(|(name, value)| (found(text, span, name), found(text, span, value)))
                .collect(),
            origin,
            span,
        }
    }

    /// Finds the tags in a text that starts at byte `offset` of its file.
    fn tags(&self, text: &str, offset: u64, origin: WayOrigin) -> Vec<Way> {
        mentions(text).into_iter().map(|element| self.tag(element, text, offset, origin)).collect()
    }

    fn slips(&self, text: &str, offset: u64) -> Vec<Slip> {
        slips(text, offset, |name| self.names.target(name).is_ok())
    }

    fn tag(&self, element: Element, text: &str, offset: u64, origin: WayOrigin) -> Way {
        let continuation = element.kind.continuation_attribute();
        let opening = Span::new(element.span.start, element.content.start);
        let mut attributes = match element.attributes {
            Ok(attributes) => attributes.into_iter().map(|a| (a.name, a.value)).collect(),
            Err(_) => loose_attributes(opening.slice(text).unwrap_or_default(), opening.start),
        };
        for (name, value) in &mut attributes {
            name.span = name.span.shifted(offset);
            value.span = value.span.shifted(offset);
        }
        let at = attributes.iter().position(|(name, _)| Some(name.value.as_str()) == continuation);
        let continuation = at.map(|at| self.named(trimmed(&attributes.remove(at).1)));
        let choices = attributes.iter().find(|(name, _)| name.value == "choices");
        let choices = choices.filter(|_| element.kind == TagKind::Ask).map(|(_, value)| {
            offered(&value.value, |(at, name)| {
                let start = value.span.start + at as u64;
                let span = Span::new(start, start + name.len() as u64);
                self.named(Spanned::new(name.to_owned(), span))
            })
        });
        let content = element.content.slice(text).unwrap_or_default().to_owned();
        let content = Spanned::new(content, element.content.shifted(offset));
        let has_target = element.kind.has_target();
        Way {
            tag: element.kind,
            target: has_target.then(|| self.target(element.kind, trimmed(&content))),
            continuation,
            choices: choices.unwrap_or_default(),
            attributes,
            origin,
            span: element.span.shifted(offset),
        }
    }

    /// The target of a tag.
    fn target(&self, tag: TagKind, written: Spanned<String>) -> Named {
        let name = written.value.as_str();
        if !tag.enters_subworkflows() || is_open(name) || split_target(name).is_none() {
            return self.named(written);
        }
        let meaning = match self.names.target(name) {
            Ok(state) => Meaning::State(state),
            Err(error) => Meaning::Wrong(error),
        };
        Named { written, meaning }
    }

    fn named(&self, written: Spanned<String>) -> Named {
        let name = written.value.as_str();
        let meaning = if is_open(name) {
            Meaning::Open
        } else if name.contains(['/', '\\']) && split_target(name).is_none() {
            Meaning::Path
        } else {
            match self.names.state(name) {
                Ok(state) => Meaning::State(state),
                Err(error) => Meaning::Wrong(error),
            }
        };
        Named { written, meaning }
    }
}

/// The transitions of a state: those that its policy allows, else those in its text.
fn find_ways(state: &mut State) {
    if matches!(state.content, Content::Unusable(_)) {
        state.is_open = true;
        return;
    }
    let evaluators = state.declared.iter().filter(|way| way.origin == WayOrigin::Evaluator);
    let mut ways: Vec<Way> = evaluators.cloned().collect();
    if state.has_policy() {
        for entry in state.declared.iter().filter(|way| way.origin == WayOrigin::Policy) {
            let is_left_open = !entry.is_known() && entry.named().all(|n| n.state().is_some());
            let mut said = state.mentions.iter().filter(|way| way.may_match(entry)).peekable();
            if is_left_open && said.peek().is_some() {
                ways.extend(said.cloned());
            } else {
                ways.push(entry.clone());
            }
        }
    } else {
        ways.extend(state.mentions.iter().cloned());
    }
    // A script without a tag may call a program that prints one.
    let is_silent_script = state.kind == StateKind::Script && ways.is_empty();
    state.is_open = is_silent_script || ways.iter().any(Way::is_open);
    state.ways = ways;
}

/// The kinds of tags that occur in the text, complete or not.
fn kinds_in(text: &str) -> BTreeSet<TagKind> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let names = TagKind::ALL.map(TagKind::name).join("|");
        Regex::new(&format!(r"<({names})[\s/>]")).expect("names of tags are letters")
    });
    let names = PATTERN.captures_iter(text).filter_map(|found| found.get(1));
    names.filter_map(|name| TagKind::of_name(name.as_str())).collect()
}

/// The answers that `text`, the choices of a question, offers; none if they are not known before run time.
fn offered(text: &str, named: impl Fn((usize, &str)) -> Named) -> Vec<OfferedChoice> {
    let read = choices(text).unwrap_or_default().into_iter();
    let choice = |choice: WrittenChoice<'_>| OfferedChoice {
        label: choice.label.to_owned(),
        state: choice.state.map(&named),
    };
    read.map(choice).collect()
}

/// The span of `word` within `span`; `span` itself if it is not found.
fn found(text: &str, span: Span, word: &str) -> Spanned<String> {
    let is_word_char = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let part = span.slice(text).unwrap_or_default();
    let at = part.match_indices(word).map(|(at, _)| at).find(|at| {
        let (before, rest) = part.split_at(*at);
        let (_, after) = rest.split_at(word.len());
        !before.ends_with(is_word_char) && !after.starts_with(is_word_char)
    });
    let place = at.map_or(span, |at| {
        let start = span.start + at as u64;
        Span::new(start, start + word.len() as u64)
    });
    Spanned::new(word.to_owned(), place)
}

fn trimmed(text: &Spanned<String>) -> Spanned<String> {
    let front = (text.value.len() - text.value.trim_start().len()) as u64;
    let value = text.value.trim().to_owned();
    if value.is_empty() {
        return Spanned::new(value, text.span);
    }
    let start = text.span.start + front;
    Spanned::new(value.clone(), Span::new(start, start + value.len() as u64))
}
