//! What the prompt or script of a step is given: variables, environment, and files with long values.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    payload::Payload,
    policy::{Chooser, UnsafeName, check_variable_name},
    prompt::{Variables, placeholders},
    source::{fields, fingerprint},
    world::WorldError,
};

use super::prepare::Preparer;

/// The variable of prompts that holds what was handed back.
const RESULT: &str = "result";
/// The variable of prompts that names the file with what was handed back.
const RESULT_FILE: &str = "result_file";
/// What the names of the run's own variables, and of the fields of a structured output, begin with in the environment of
/// scripts.
const VARIABLE_PREFIX: &str = "RAYMOND_VAR_";

/// The variable that holds the run's input.
pub(super) const INPUT: &str = "input";

impl Preparer<'_> {
    /// The path of the file with what was handed back. It does not change with the attempts at a state, and
    /// so neither does the prompt.
    fn result_file(&self, result: &Payload) -> String {
        // Written out, a reference is as good as its text: it has the hash.
        let text = result.as_text().map(Cow::from);
        let text = text.or_else(|| serde_json::to_string(result).ok().map(Cow::from));
        self.world.value_file(&fingerprint(text.unwrap_or_default().as_bytes()))
    }

    /// The files that a prompt with this template names.
    pub(super) fn files(&self, template: &str) -> BTreeMap<String, Payload> {
        let result = self.agent.result.as_ref().filter(|_| names(template, RESULT_FILE));
        result.map(|result| (self.result_file(result), result.clone())).into_iter().collect()
    }

    /// The variables for a prompt with this template. Later layers win: a model cannot override what Raymond itself sets for
    /// this step. The result is read only if the template names it: that of a join can be long.
    pub(super) fn variables(&self, template: &str) -> Result<Variables, WorldError> {
        let mut variables = Variables::new();
        variables.layer(&self.run.metadata);
        variables.layer(&self.agent.fork_attributes);
        variables.layer(&self.agent.arguments());
        variables.layer(&self.agent.output.as_deref().into_iter().flat_map(fields).collect());
        variables.set("workflow_id", self.run.id.as_str());
        variables.set("agent_id", self.agent.id.as_str());
        variables.set("folder", self.world.agent_folder(self.agent.id.as_str()));
        if let Some(input) = &self.agent.input {
            variables.set(INPUT, input);
        }
        if let Some(result) = &self.agent.result {
            if names(template, RESULT) {
                variables.set(RESULT, self.world.text(result)?);
            }
            variables.set(RESULT_FILE, self.result_file(result));
        }
        if let Some(response) = &self.agent.response {
            variables.set("comment", &response.comment);
            variables.set("files", response.files.as_deref().unwrap_or_default());
        }
        Ok(variables)
    }

    /// The variables of the language for a script; the engine adds the paths. The names were checked when their tag was
    /// followed, but what is recorded may have been taken over from elsewhere.
    pub(super) fn environment(&self) -> Result<BTreeMap<String, Payload>, UnsafeName> {
        let attributes = self.agent.fork_attributes.clone();
        let given: Vec<_> = attributes.into_iter().chain(self.agent.arguments()).collect();
        let platform = self.world.platform();
        given.iter().try_for_each(|(name, _)| {
            check_variable_name(name, Chooser::Author, platform, |_| false)
        })?;
        let mut environment: BTreeMap<String, Payload> =
            given.into_iter().map(|(name, value)| (name, value.into())).collect();
        let output = self.agent.output.as_deref().into_iter().flat_map(fields);
        let own = self.run.metadata.clone().into_iter().chain(output);
        for (name, value) in own {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = name.replace(|c| !is_plain(c), "_");
            environment.insert(format!("{VARIABLE_PREFIX}{name}"), value.into());
        }
        let mut set = |name: &str, value: &str| environment.insert(name.to_owned(), value.into());
        set("RAYMOND_WORKFLOW_ID", self.run.id.as_str());
        set("RAYMOND_AGENT_ID", self.agent.id.as_str());
        set("RAYMOND_FOLDER", &self.world.agent_folder(self.agent.id.as_str()));
        set("RAYMOND_VISIT", &self.agent.visit().to_string());
        if let Some(response) = &self.agent.response {
            set("RAYMOND_COMMENT", &response.comment);
            set("RAYMOND_FILES", response.files.as_deref().unwrap_or_default());
        }
        if let Some(input) = &self.agent.input {
            set("RAYMOND_INPUT", input);
        }
        if let Some(result) = &self.agent.result {
            environment.insert("RAYMOND_RESULT".to_owned(), result.clone());
        }
        Ok(environment)
    }
}

/// Whether a template has this variable.
pub(super) fn names(template: &str, variable: &str) -> bool {
    placeholders(template).iter().any(|name| name.value == variable)
}
