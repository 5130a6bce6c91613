//! Keys of frontmatter that become options of a turn's coding agent, and that only some coding agents have.

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    policy::number,
    text::{Spanned, is_word},
};

use super::{
    frontmatter::FrontmatterReader,
    yaml::{YamlNode, YamlValue},
};

/// The most bytes of a `system` text: it is one argument of a program, and Linux takes 128 KiB for that.
const SYSTEM_BYTES_MAX: usize = 65_536;

/// The keys.
pub const OPTION_KEYS: [&str; 6] =
    ["fallback_model", "max_turns", "system", "mcp", "add_dirs", "schema"];

/// What the keys say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// The models to use while the turn's own is not available, in this order.
    #[serde(skip_serializing_if = "is_default")]
    pub fallback_model: Vec<String>,
    /// How often one turn may ask the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What is added to the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The only MCP servers of the turn, by their names in the settings; `None` leaves them to the coding agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
    /// Directories that the turn may use besides its own, as the author wrote them.
    #[serde(skip_serializing_if = "is_default")]
    pub add_dirs: Vec<String>,
    /// The schema of the structured output, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

impl TurnOptions {
    /// The keys that are given.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            !self.fallback_model.is_empty(),
            self.max_turns.is_some(),
            self.system.is_some(),
            self.mcp.is_some(),
            !self.add_dirs.is_empty(),
            self.schema.is_some(),
        ];
        OPTION_KEYS.into_iter().zip(given).filter_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Reads the value of `key`, one of [`OPTION_KEYS`].
    pub(super) fn read(
        &mut self,
        key: &str,
        value: &YamlNode,
        reader: &mut FrontmatterReader<'_, '_>,
    ) {
        match key {
            "fallback_model" => self.fallback_model = reader.fallback_model(value),
            "max_turns" => self.max_turns = reader.max_turns(value),
            "system" => self.system = reader.system(value),
            "mcp" => {
                self.mcp = Some(reader.texts(value, "mcp", FrontmatterReader::server));
            }
            "add_dirs" => {
                self.add_dirs = reader.texts(value, "add_dirs", |reader, node| {
                    reader.word(node, "add_dirs", "a list of directories")
                });
            }
            _ => {}
        }
    }
}

impl FrontmatterReader<'_, '_> {
    fn texts(
        &mut self,
        value: &YamlNode,
        key: &str,
        item: impl FnMut(&mut Self, &YamlNode) -> Option<Spanned<String>>,
    ) -> Vec<String> {
        self.list(value, key, item).into_iter().map(|text| text.value.value).collect()
    }

    /// One model, or a list of them.
    fn fallback_model(&mut self, value: &YamlNode) -> Vec<String> {
        if let YamlValue::Scalar(_) = &value.value {
            return self.model(value).map(|model| model.value).into_iter().collect();
        }
        self.texts(value, "fallback_model", Self::model)
    }

    fn model(&mut self, node: &YamlNode) -> Option<Spanned<String>> {
        const EXPECTED: &str = "the name of a model, or a list of names";
        let model = self.argument(node, "fallback_model", EXPECTED)?;
        if model.value.contains(',') {
            self.error(node.span, format!("`fallback_model` should be {EXPECTED}"));
            return None;
        }
        Some(model)
    }

    fn max_turns(&mut self, node: &YamlNode) -> Option<u32> {
        const EXPECTED: &str = "a whole number from 1";
        let word = self.word(node, "max_turns", EXPECTED);
        let is_number = |text: &str| number(text).is_some();
        number(&self.checked(node, word, "max_turns", EXPECTED, is_number)?)
    }

    fn system(&mut self, node: &YamlNode) -> Option<String> {
        let text = self.text(node, "system", "a text")?;
        if text.len() > SYSTEM_BYTES_MAX || text.contains('\0') {
            let message = format!("`system` has at most {SYSTEM_BYTES_MAX} bytes, and no NUL");
            self.error(node.span, message);
            return None;
        }
        Some(text)
    }

    fn server(&mut self, node: &YamlNode) -> Option<Spanned<String>> {
        const EXPECTED: &str = "a list of names of servers, which `mcp` under `[agents.claude]` in \
                                the settings defines";
        let is_name = |text: &str| {
            is_word(text) && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        let word = self.word(node, "mcp", EXPECTED)?;
        if !is_name(&word.value) {
            self.error(node.span, format!("`mcp` should be {EXPECTED}"));
            return None;
        }
        Some(word)
    }
}
