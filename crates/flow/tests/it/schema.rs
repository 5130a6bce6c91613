//! The JSON Schema for editors agrees with the parser of frontmatter.

use std::collections::BTreeSet;

use raymond_flow::{
    source::{KEYS, Platform, StateFile, StateSource},
    tag::{AttributeRole, TagKind},
};
use serde_json::Value;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/frontmatter.schema.json")).unwrap()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// The number of warnings about frontmatter; `None` if it has errors.
fn warnings(frontmatter: &str) -> Option<usize> {
    let text = format!("---\n{frontmatter}---\n");
    match StateFile::read("STATE.md", text.as_bytes(), Platform::Unix).ok()?.source {
        StateSource::Prompt(prompt) => Some(prompt.warnings.len()),
        StateSource::Script => None,
    }
}

#[test]
fn schema_has_every_key_of_frontmatter_and_no_other() {
    assert_eq!(keys(&schema()), BTreeSet::from(KEYS));
}

#[test]
fn schema_has_every_tag_with_the_attributes_that_the_reader_takes() {
    let schema = schema();
    for tag in TagKind::ALL {
        let definition = &schema["definitions"][tag.name()];
        assert_eq!(definition["properties"]["tag"]["const"], tag.name());
        let known = keys(definition);
        let spec = tag.spec();
        assert_eq!(known.contains("target"), tag.has_target(), "{tag}");
        assert_eq!(definition["additionalProperties"].is_object(), spec.takes_variables, "{tag}");
        for (name, role) in spec.attributes {
            let definition = match role {
                AttributeRole::Continuation => "#/definitions/state",
                AttributeRole::Model => "#/definitions/argument",
                AttributeRole::Number => "#/definitions/number",
                AttributeRole::Worktree => "#/definitions/worktree",
                AttributeRole::OnFailed => "#/definitions/failed",
                AttributeRole::Choices => "#/definitions/choices",
                AttributeRole::Duration => "#/definitions/duration",
                AttributeRole::Directory
                | AttributeRole::Input
                | AttributeRole::Files
                | AttributeRole::Default
                | AttributeRole::Question => "#/definitions/text",
            };
            assert_eq!(schema["definitions"][tag.name()]["properties"][name]["$ref"], definition);
        }
        let names = [
            "target",
            "return",
            "next",
            "cd",
            "model",
            "attributes",
            "item",
            "input",
            "limit",
            "count",
            "failed",
            "many",
        ];
        for name in names {
            let value = match name {
                "attributes" => "[X]",
                "limit" | "count" => "3",
                "failed" => "pass",
                "many" => "true",
                _ => "X",
            };
            let entry = format!("allowed_transitions: [{{ tag: {tag}, {name}: {value} }}]\n");
            let is_open = definition["additionalProperties"].is_object();
            // A schema cannot forbid a single name where others are free, but for `false`.
            let is_refused = definition["properties"][name] == Value::Bool(false);
            let is_in_schema = (known.contains(name) || is_open) && !is_refused;
            assert_eq!(warnings(&entry).is_some(), is_in_schema, "{tag} {name}");
        }
        let listed = format!("#/definitions/{tag}");
        let variants = schema["definitions"]["transition"]["anyOf"].as_array().unwrap();
        assert!(variants.iter().any(|variant| variant["$ref"] == *listed), "{tag}");
    }
}

#[test]
fn schema_has_the_keys_of_evaluators() {
    let schema = schema();
    let variants = schema["properties"]["evaluators"]["items"]["anyOf"].as_array().unwrap();
    let written = |variant: &Value| {
        let value = |key: &str| match key {
            "then" => "{ tag: result }".to_owned(),
            key => format!("x{key}"),
        };
        let pairs: Vec<_> =
            keys(variant).iter().map(|key| format!("{key}: {}", value(key))).collect();
        format!("evaluators: [{{ {} }}]\n", pairs.join(", "))
    };
    assert_eq!(variants.len(), 2);
    for variant in variants {
        assert_eq!(warnings(&written(variant)), Some(0), "{}", written(variant));
    }
}
