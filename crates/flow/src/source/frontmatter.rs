//! Parses the YAML between the `---` fences of a prompt and checks every key.
//!
//! Each key has its own function, which reports what it cannot use and continues, so that an author
//! sees all problems of a file at once.

mod entries;
mod reader;

use std::collections::BTreeSet;

use crate::{
    money::Usd,
    policy::{AllowedTransition, Evaluator, Policy},
    tag::TagKind,
    text::Spanned,
};

use super::{
    Timeout,
    diagnostic::Findings,
    labels::LABELS_MAX,
    options::{OPTION_KEYS, TurnOptions},
    schema::SchemaSource,
    yaml::{self, YamlNode},
};

pub(super) use reader::FrontmatterReader;

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
