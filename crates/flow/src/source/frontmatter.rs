//! Parses the YAML between the `---` fences of a prompt and checks every key.
//!
//! Each key has its own function, which reports what it cannot use and continues, so that an author
//! sees all problems of a file at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    money::Usd,
    policy::{
        AllowedTransition, AskProblem, Evaluator, OnFailed, PATTERNS_SIZE_MAX, Policy,
        check_default, is_worktree, number, pattern_size,
    },
    scope::{OR_IN_FOLDER, split_target},
    tag::{AttributeRole, TagKind, choices},
    text::{Span, Spanned, excerpt, is_word, looks_like_an_option},
};

use super::{
    Timeout,
    diagnostic::{Findings, did_you_mean},
    labels::{LABELS_MAX, is_label},
    options::{OPTION_KEYS, TurnOptions},
    schema::{SCHEMA_BYTES_MAX, Schema, SchemaProblem, SchemaSource},
    yaml::{self, YamlNode, YamlValue},
};

/// The keys that frontmatter knows.
pub const KEYS: [&str; 19] = [
    "allowed_transitions",
    "model",
    "effort",
    "timeout",
    "agent",
    "evaluators",
    "input",
    "max_visits",
    "then",
    "tools",
    "permissions",
    "runs_on",
    "budget",
    "fallback_model",
    "max_turns",
    "system",
    "mcp",
    "add_dirs",
    "schema",
];

/// How often an agent may enter a state within one frame, and what is followed instead after that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitLimit {
    /// How often it may.
    pub max_visits: u32,
    /// What is followed instead; complete.
    pub then: AllowedTransition,
}

/// What the frontmatter of a prompt declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontmatter {
    /// The transitions that the state allows.
    pub allowed_transitions: Vec<Spanned<AllowedTransition>>,
    /// The model, passed to the coding agent as written.
    pub model: Option<Spanned<String>>,
    /// The effort, passed to the coding agent as written.
    pub effort: Option<Spanned<String>>,
    /// How long a turn may print nothing.
    pub timeout: Option<Spanned<Timeout>>,
    /// The coding agent that carries out the prompt.
    pub agent: Option<Spanned<String>>,
    /// Second opinions on the transition.
    pub evaluators: Vec<Spanned<Evaluator>>,
    /// Whether `{{input}}` is empty where there is no input. Otherwise a run that enters the prompt
    /// first needs one.
    pub is_input_optional: bool,
    /// How often the state may be entered.
    pub visit_limit: Option<Spanned<VisitLimit>>,
    /// The tools that the coding agent may use without asking; `None` leaves it to the settings.
    pub tools: Option<Spanned<Vec<String>>>,
    /// The permission mode of the coding agent, passed as written.
    pub permissions: Option<Spanned<String>>,
    /// The labels that a worker of a cluster must have to carry out the state.
    pub runs_on: Vec<Spanned<String>>,
    /// What one turn of the state may spend.
    pub budget: Option<Spanned<Usd>>,
    /// What the structured output of the state must be.
    pub schema: Option<Spanned<SchemaSource>>,
    /// Options of its coding agent, without the schema.
    pub options: TurnOptions,
    /// The places of the keys of these options.
    pub option_keys: Vec<Spanned<&'static str>>,
}

impl Frontmatter {
    /// The labels of the state, sorted and each once.
    pub(super) fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<_> = self.runs_on.iter().map(|label| label.value.clone()).collect();
        labels.into_iter().collect()
    }

    /// The keys that not every coding agent can do, as far as they are given.
    pub fn demands(&self) -> Vec<Spanned<&'static str>> {
        let keys = [
            ("tools", self.tools.as_ref().map(|tools| tools.span)),
            ("permissions", self.permissions.as_ref().map(|mode| mode.span)),
            ("budget", self.budget.as_ref().map(|budget| budget.span)),
        ];
        let keys = keys.into_iter().filter_map(|(key, span)| Some(Spanned::new(key, span?)));
        keys.chain(self.option_keys.iter().cloned()).collect()
    }

    /// Whether an answer without a tag is complete: there is one way out, and nothing about it is left to the text.
    pub fn needs_no_tag(&self) -> bool {
        let is_only_result =
            matches!(&self.allowed_transitions[..], [only] if only.value.tag == TagKind::Result);
        self.policy().implicit().is_some() || (self.schema.is_some() && is_only_result)
    }

    /// The part that judges answers.
    pub fn policy(&self) -> Policy {
        Policy {
            allowed: self.allowed_transitions.iter().map(|entry| entry.value.clone()).collect(),
            evaluators: self.evaluators.iter().map(|entry| entry.value.clone()).collect(),
        }
    }

    /// Reads `yaml`, which starts at byte `offset` of the file that `findings` is about.
    pub(super) fn read(yaml: &str, offset: u64, findings: &mut Findings<'_>) -> Self {
        let mut reader = FrontmatterReader { offset, findings, patterns_size: 0 };
        let root = match yaml::read(yaml) {
            Ok(None) => return Self::default(),
            Ok(Some(root)) => root,
            Err(error) => {
                reader.error(error.span, format!("frontmatter is not YAML: {}", error.message));
                return Self::default();
            }
        };
        let Some(pairs) = reader.mapping(&root, "frontmatter", "`key: value` lines") else {
            return Self::default();
        };
        let mut frontmatter = Self::default();
        reader.ignore_others(&pairs, &KEYS);
        for (key, value) in &pairs {
            frontmatter.read_key(key, value, &mut reader);
        }
        let find = |name: &str| pairs.iter().find(|(key, _)| key.value == name).map(|(_, v)| *v);
        frontmatter.visit_limit = reader.visit_limit(find("max_visits"), find("then"));
        frontmatter
    }

    fn read_key(
        &mut self,
        key: &Spanned<String>,
        value: &YamlNode,
        reader: &mut FrontmatterReader<'_, '_>,
    ) {
        match key.value.as_str() {
            "allowed_transitions" => {
                self.allowed_transitions =
                    reader.list(value, &key.value, FrontmatterReader::allowed_transition);
            }
            "evaluators" => {
                self.evaluators = reader.list(value, &key.value, FrontmatterReader::evaluator);
            }
            "model" => self.model = reader.argument(value, "model", "the name of a model"),
            "effort" => self.effort = reader.argument(value, "effort", "an effort such as `high`"),
            "agent" => self.agent = reader.argument(value, "agent", "the name of a coding agent"),
            "timeout" => self.timeout = reader.timeout(value),
            "input" => self.is_input_optional = reader.is_optional(value),
            "tools" => {
                let tools = reader.list(value, "tools", |reader, tool| {
                    reader.argument(tool, "tools", "a list of tools")
                });
                let tools = tools.into_iter().map(|tool| tool.value.value).collect();
                self.tools = Some(Spanned::new(tools, key.span));
            }
            "permissions" => {
                self.permissions = reader.argument(value, "permissions", "a permission mode");
            }
            "budget" => self.budget = reader.budget(value),
            "runs_on" => {
                let labels = reader.list(value, "runs_on", FrontmatterReader::label);
                self.runs_on = labels.into_iter().map(|label| label.value).collect();
                if self.runs_on.len() > LABELS_MAX {
                    reader.error(value.span, format!("`runs_on` has at most {LABELS_MAX} labels"));
                }
            }
            name => {
                if let Some(known) = OPTION_KEYS.into_iter().find(|known| *known == name) {
                    self.option_keys.push(Spanned::new(known, key.span));
                    if known == "schema" {
                        self.schema = reader.schema(value);
                    } else {
                        self.options.read(known, value, reader);
                    }
                }
            }
        }
    }
}

/// What is wrong with an `ask` whatever an agent adds to it.
fn check_ask(entry: &AllowedTransition) -> Result<(), AskProblem> {
    let value = |name: &str| entry.attributes.get(name).map(String::as_str);
    let written = value("choices").map(choices).transpose()?.unwrap_or_default();
    check_default(value("timeout"), value("default"), &written)
}

pub(super) struct FrontmatterReader<'a, 'f> {
    /// The byte at which the YAML starts in its file.
    offset: u64,
    findings: &'a mut Findings<'f>,
    /// The total compiled size of the patterns so far.
    patterns_size: u64,
}

type Pairs<'n> = Vec<(Spanned<String>, &'n YamlNode)>;

impl FrontmatterReader<'_, '_> {
    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.findings.error(span.shifted(self.offset), message);
    }

    /// `key: value` pairs with scalar keys, each once.
    fn mapping<'n>(&mut self, node: &'n YamlNode, what: &str, expected: &str) -> Option<Pairs<'n>> {
        let YamlValue::Mapping(pairs) = &node.value else {
            self.error(node.span, format!("{what} should be {expected}"));
            return None;
        };
        let mut read = Vec::new();
        let mut seen = BTreeSet::new();
        for (key, value) in pairs {
            let YamlValue::Scalar(name) = &key.value else {
                self.error(key.span, format!("a key of {what} should be a word"));
                continue;
            };
            if seen.insert(name.as_str()) {
                read.push((Spanned::new(name.clone(), key.span.shifted(self.offset)), value));
            } else {
                self.error(key.span, format!("key `{}` is given twice", excerpt(name)));
            }
        }
        Some(read)
    }

    /// The items of a list; an empty value is an empty list.
    pub(super) fn list<T>(
        &mut self,
        node: &YamlNode,
        key: &str,
        mut item: impl FnMut(&mut Self, &YamlNode) -> Option<T>,
    ) -> Vec<Spanned<T>> {
        let items = match &node.value {
            YamlValue::Null => return Vec::new(),
            YamlValue::Sequence(items) => items,
            YamlValue::Scalar(_) | YamlValue::Mapping(_) => {
                self.error(
                    node.span,
                    format!("`{key}` should be a list: lines that start with `- `"),
                );
                return Vec::new();
            }
        };
        let mut read = Vec::new();
        for node in items {
            if let Some(value) = item(self, node) {
                read.push(Spanned::new(value, node.span.shifted(self.offset)));
            }
        }
        read
    }

    /// A scalar that is not empty.
    pub(super) fn word(
        &mut self,
        node: &YamlNode,
        key: &str,
        expected: &str,
    ) -> Option<Spanned<String>> {
        match &node.value {
            YamlValue::Scalar(text) if is_word(text) => {
                Some(Spanned::new(text.trim().to_owned(), node.span.shifted(self.offset)))
            }
            YamlValue::Scalar(_)
            | YamlValue::Null
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => {
                self.error(node.span, format!("`{key}` should be {expected}"));
                None
            }
        }
    }

    /// A word that is passed to a program as an argument.
    pub(super) fn argument(
        &mut self,
        node: &YamlNode,
        key: &str,
        expected: &str,
    ) -> Option<Spanned<String>> {
        let word = self.word(node, key, expected)?;
        if looks_like_an_option(&word.value) {
            let message = format!("`{key}` cannot begin with a dash: it would become an option");
            self.error(node.span, message);
            return None;
        }
        Some(word)
    }

    fn label(&mut self, node: &YamlNode) -> Option<Spanned<String>> {
        const EXPECTED: &str = "a list of labels: letters, digits, `-`, `_` and `.`";
        let word = self.word(node, "runs_on", EXPECTED)?;
        if !is_label(&word.value) {
            self.error(node.span, format!("`runs_on` should be {EXPECTED}"));
            return None;
        }
        Some(word)
    }

    /// A scalar, verbatim with its white space.
    pub(super) fn text(&mut self, node: &YamlNode, key: &str, expected: &str) -> Option<String> {
        match &node.value {
            YamlValue::Scalar(text) if !text.is_empty() => Some(text.clone()),
            YamlValue::Scalar(_)
            | YamlValue::Null
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => {
                self.error(node.span, format!("`{key}` should be {expected}"));
                None
            }
        }
    }

    fn timeout(&mut self, node: &YamlNode) -> Option<Spanned<Timeout>> {
        let text = self.word(node, "timeout", "seconds, or `10m`, `2h`, or 0 for no limit")?;
        match text.value.parse() {
            Ok(timeout) => Some(Spanned::new(timeout, text.span)),
            Err(error) => {
                self.error(node.span, format!("`timeout`: {error}"));
                None
            }
        }
    }

    fn budget(&mut self, node: &YamlNode) -> Option<Spanned<Usd>> {
        const EXPECTED: &str = "an amount of dollars above 0, such as `0.50`";
        let word = self.word(node, "budget", EXPECTED)?;
        let amount = word.value.parse().ok().and_then(Usd::from_dollars);
        let Some(amount) = amount.filter(|amount| *amount > Usd::ZERO) else {
            self.error(node.span, format!("`budget` should be {EXPECTED}"));
            return None;
        };
        Some(Spanned::new(amount, word.span))
    }

    /// A schema, or the name of the file with it.
    fn schema(&mut self, node: &YamlNode) -> Option<Spanned<SchemaSource>> {
        const EXPECTED: &str = "a JSON schema, or the name of a `.json` file beside the state";
        let span = node.span.shifted(self.offset);
        if let YamlValue::Scalar(name) = &node.value {
            let is_file = name.rsplit_once('.').is_some_and(|(_, extension)| extension == "json");
            if !is_file || name.contains(['/', '\\']) {
                self.error(node.span, format!("`schema` should be {EXPECTED}"));
                return None;
            }
            return Some(Spanned::new(SchemaSource::File(name.clone()), span));
        }
        if !matches!(node.value, YamlValue::Mapping(_)) {
            self.error(node.span, format!("`schema` should be {EXPECTED}"));
            return None;
        }
        let value = self.json(node)?;
        if value.to_string().len() > SCHEMA_BYTES_MAX {
            self.error(node.span, format!("`schema` has at most {SCHEMA_BYTES_MAX} bytes"));
            return None;
        }
        match Schema::of(value) {
            Ok(schema) => Some(Spanned::new(SchemaSource::Inline(schema), span)),
            Err(SchemaProblem { path, message, meant }) => {
                let span = node.at(&path).span.shifted(self.offset);
                self.findings.error_suggesting(span, format!("`schema`: {message}"), meant);
                None
            }
        }
    }

    /// The same value in JSON: a scalar without quotes may be a number or a truth.
    fn json(&mut self, node: &YamlNode) -> Option<Value> {
        Some(match &node.value {
            YamlValue::Null => Value::Null,
            YamlValue::Scalar(text) if self.findings.is_plain(node.span.shifted(self.offset)) => {
                match serde_json::from_str(text) {
                    Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
                    Ok(_) | Err(_) => Value::String(text.clone()),
                }
            }
            YamlValue::Scalar(text) => Value::String(text.clone()),
            YamlValue::Sequence(items) => {
                items.iter().map(|item| self.json(item)).collect::<Option<Vec<_>>>()?.into()
            }
            YamlValue::Mapping(_) => {
                let pairs = self.mapping(node, "a schema", "`keyword: value` lines")?;
                let pairs =
                    pairs.into_iter().map(|(key, value)| Some((key.value, self.json(value)?)));
                Value::Object(pairs.collect::<Option<_>>()?)
            }
        })
    }

    fn is_optional(&mut self, node: &YamlNode) -> bool {
        const EXPECTED: &str = "`optional` or `required`";
        match self.word(node, "input", EXPECTED).as_ref().map(|word| word.value.as_str()) {
            Some("optional") => true,
            Some("required") | None => false,
            Some(_) => {
                self.error(node.span, format!("`input` should be {EXPECTED}"));
                false
            }
        }
    }

    fn visit_limit(
        &mut self,
        max_visits: Option<&YamlNode>,
        then: Option<&YamlNode>,
    ) -> Option<Spanned<VisitLimit>> {
        const EXPECTED: &str = "a whole number from 1";
        let (max_visits, then) = match (max_visits, then) {
            (Some(max_visits), Some(then)) => (max_visits, then),
            (Some(node), None) => {
                let message = "`max_visits` needs `then`: the transition to follow instead";
                self.error(node.span, message);
                return None;
            }
            (None, Some(node)) => {
                self.error(node.span, "`then` needs `max_visits`: how often the state is entered");
                return None;
            }
            (None, None) => return None,
        };
        let word = self.word(max_visits, "max_visits", EXPECTED);
        let is_number = |text: &str| number(text).is_some();
        let text = self.checked(max_visits, word, "max_visits", EXPECTED, is_number)?;
        let limit =
            VisitLimit { max_visits: number(&text)?, then: self.complete_transition(then)? };
        Some(Spanned::new(limit, max_visits.span.shifted(self.offset)))
    }

    /// A transition with nothing left open: the value of `then`.
    fn complete_transition(&mut self, then: &YamlNode) -> Option<AllowedTransition> {
        let entry = self.allowed_transition(then)?;
        if !entry.is_complete() {
            let message = format!("`then` must be a complete transition, not {}", entry.example());
            self.error(then.span, message);
            return None;
        }
        Some(entry)
    }

    /// The name of a state. Paths are rejected.
    fn state(&mut self, node: &YamlNode, key: &str) -> Option<String> {
        self.state_or_subworkflow(node, key, false)
    }

    fn state_or_subworkflow(
        &mut self,
        node: &YamlNode,
        key: &str,
        may_lead_into_folder: bool,
    ) -> Option<String> {
        let word = self.word(node, key, "the name of a state")?;
        let is_path = word.value.contains(['/', '\\']);
        let is_subworkflow = split_target(&word.value).is_some();
        if is_path && !(is_subworkflow && may_lead_into_folder) {
            let name = excerpt(&word.value);
            let message = if is_subworkflow {
                format!(
                    "`{name}` leads into a subworkflow, which only call, function and fork can enter"
                )
            } else {
                let or = if may_lead_into_folder { OR_IN_FOLDER } else { "" };
                format!("`{name}` is a path: a state is named by its file name alone{or}")
            };
            self.findings.path(node.span.shifted(self.offset), message);
            return None;
        }
        Some(word.value)
    }

    /// The value of an attribute that a transition must have.
    fn attribute(&mut self, tag: TagKind, name: &str, value: &YamlNode) -> Option<String> {
        const NUMBER: &str = "a whole number from 1";
        const ON_FAILED: &str = "`hold` or `pass`";
        const WORKTREE: &str = "`true`, or a name of at most 60 letters, digits, `-` and `_`";
        match tag.role_of(name) {
            Some(AttributeRole::Continuation) => self.state(value, name),
            Some(AttributeRole::Model) => {
                let model = self.argument(value, name, "the name of a model");
                model.map(|model| model.value)
            }
            Some(AttributeRole::Number) => {
                let text = self.word(value, name, NUMBER);
                self.checked(value, text, name, NUMBER, |text| number(text).is_some())
            }
            Some(AttributeRole::Worktree) => {
                let text = self.word(value, name, WORKTREE);
                self.checked(value, text, name, WORKTREE, is_worktree)
            }
            Some(AttributeRole::OnFailed) => {
                let text = self.word(value, name, ON_FAILED);
                let is_known = |text: &str| OnFailed::of_word(text).is_some();
                self.checked(value, text, name, ON_FAILED, is_known)
            }
            Some(
                AttributeRole::Directory
                | AttributeRole::Input
                | AttributeRole::Choices
                | AttributeRole::Files
                | AttributeRole::Duration
                | AttributeRole::Default
                | AttributeRole::Question,
            )
            | None => self.text(value, name, "a text"),
        }
    }

    fn allowed_transition(&mut self, node: &YamlNode) -> Option<AllowedTransition> {
        let pairs = self.mapping(node, "a transition", "`{ tag: goto, target: NEXT.md }`")?;
        let tag = self.tag(node, &pairs)?;
        let found_before = self.findings.count;
        let mut entry = AllowedTransition {
            tag,
            target: None,
            attributes: BTreeMap::new(),
            declared: Vec::new(),
            many: false,
        };
        let is_slip = |name: &str| {
            let meant = tag.meant_continuation(name);
            meant.is_some_and(|meant| pairs.iter().all(|(key, _)| key.value != meant))
        };
        for (key, value) in &pairs {
            match key.value.as_str() {
                "tag" => {}
                "target" if !tag.has_target() => {
                    self.findings.error(key.span, format!("<{tag}> has no target"));
                }
                "target" => {
                    let into_folder = tag.enters_subworkflows();
                    entry.target = self.state_or_subworkflow(value, "target", into_folder);
                }
                name if !tag.takes_attribute(name) || is_slip(name) => {
                    let known = tag.spec().attributes.iter().map(|(known, _)| *known);
                    let suggestion = did_you_mean(name, known.chain(["target"]));
                    let message = format!("<{tag}> has no attribute `{}`", excerpt(name));
                    self.findings.error_suggesting(key.span, message, suggestion);
                }
                "many" if tag == TagKind::Fork => entry.many = self.truth(value, "many"),
                "attributes" => {
                    let names = self.list(value, "attributes", |reader, name| {
                        reader.word(name, "attributes", "a list of names")
                    });
                    entry.declared = names.into_iter().map(|name| name.value.value).collect();
                }
                name => {
                    let value = self.attribute(tag, name, value);
                    entry.attributes.extend(value.map(|value| (name.to_owned(), value)));
                }
            }
        }
        if tag == TagKind::Ask
            && let Err(problem) = check_ask(&entry)
        {
            self.error(node.span, problem.to_string());
        }
        // Drop an entry with an attribute that cannot be read: without it, the entry would allow too much.
        (self.findings.count == found_before).then_some(entry)
    }

    /// A word that `is_good`, or a finding about what was `expected`.
    pub(super) fn checked(
        &mut self,
        node: &YamlNode,
        word: Option<Spanned<String>>,
        key: &str,
        expected: &str,
        is_good: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let word = word?.value;
        if !is_good(&word) {
            self.error(node.span, format!("`{key}` should be {expected}"));
            return None;
        }
        Some(word)
    }

    /// `true` or `false`.
    fn truth(&mut self, node: &YamlNode, key: &str) -> bool {
        let word = self.word(node, key, "`true` or `false`").map(|word| word.value);
        match word.as_deref() {
            Some("true") => true,
            Some("false") | None => false,
            Some(_) => {
                self.error(node.span, format!("`{key}` should be `true` or `false`"));
                false
            }
        }
    }

    fn tag(&mut self, node: &YamlNode, pairs: &Pairs<'_>) -> Option<TagKind> {
        let expected = format!("one of {}", TagKind::ALL.map(TagKind::name).join(", "));
        let Some((_, value)) = pairs.iter().find(|(key, _)| key.value == "tag") else {
            self.error(node.span, format!("a transition needs a `tag`: {expected}"));
            return None;
        };
        let name = self.word(value, "tag", &expected)?;
        let kind = TagKind::of_name(&name.value);
        if kind.is_none() {
            let suggestion = did_you_mean(&name.value, TagKind::ALL.map(TagKind::name));
            let message = format!("`{}` is not a tag: expected {expected}", excerpt(&name.value));
            self.findings.error_suggesting(name.span, message, suggestion);
        }
        kind
    }

    fn evaluator(&mut self, node: &YamlNode) -> Option<Evaluator> {
        const EXPECTED: &str = "`match` with `then`, or `prompt`";
        let pairs = self.mapping(node, "an evaluator", EXPECTED)?;
        let find = |name: &str| pairs.iter().find(|(key, _)| key.value == name).map(|(_, v)| *v);
        match (find("match"), find("prompt")) {
            (Some(pattern), None) => {
                self.ignore_others(&pairs, &["match", "then"]);
                self.match_evaluator(node, pattern, find("then"))
            }
            (None, Some(prompt)) => {
                self.ignore_others(&pairs, &["prompt", "model"]);
                let model = match find("model") {
                    Some(model) => {
                        Some(self.argument(model, "model", "the name of a model")?.value)
                    }
                    None => None,
                };
                Some(Evaluator::Prompt { prompt: self.state(prompt, "prompt")?, model })
            }
            _ => {
                self.ignore_others(&pairs, &["match", "then", "prompt", "model"]);
                self.error(node.span, format!("an evaluator should be {EXPECTED}"));
                None
            }
        }
    }

    /// Warns about keys that have no meaning here.
    fn ignore_others(&mut self, pairs: &Pairs<'_>, known: &[&str]) {
        for (key, _) in pairs {
            if !known.contains(&key.value.as_str()) {
                self.findings.unknown_key(key, known);
            }
        }
    }

    fn match_evaluator(
        &mut self,
        node: &YamlNode,
        pattern: &YamlNode,
        then: Option<&YamlNode>,
    ) -> Option<Evaluator> {
        let Some(then) = then else {
            self.error(node.span, "`match` needs `then`: the transition to follow instead");
            return None;
        };
        let text = self.text(pattern, "match", "a regular expression")?;
        match pattern_size(&text) {
            Err(error) => {
                let message = format!("`match` is not a regular expression: {error}");
                self.error(pattern.span, message);
                return None;
            }
            Ok(size) => self.patterns_size = self.patterns_size.saturating_add(size),
        }
        if self.patterns_size > PATTERNS_SIZE_MAX {
            let message = "the patterns of this state are too large: use lower repeat counts";
            self.error(pattern.span, message);
            return None;
        }
        Some(Evaluator::Match { pattern: text, then: self.complete_transition(then)? })
    }
}
