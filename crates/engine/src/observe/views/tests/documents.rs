//! The documents that are made from what programs see. With `RAYMOND_WRITE_DOCUMENTS` set, the tests write them.

use std::{fmt::Write as _, fs, path::Path};

use raymond_flow::{
    machine::Tokens,
    view::{self, Described, Shape},
};
use serde_json::{Value, json};

use crate::observe::views::described;

/// Compares a file of the repository with what it should be, or writes that.
fn compare(file: &str, wanted: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let old = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let wanted = wanted(&old);
    if old == wanted {
        return;
    }
    assert!(
        std::env::var_os("RAYMOND_WRITE_DOCUMENTS").is_some(),
        "{file} is not what crates/engine/src/observe/views/shown.rs says; write it: \
         RAYMOND_WRITE_DOCUMENTS=1 cargo nextest run -p raymond-engine documents"
    );
    fs::write(&path, wanted).unwrap();
}

fn all() -> impl Iterator<Item = Described> {
    described().into_iter().chain(view::described())
}

fn tokens() -> Vec<String> {
    json!(Tokens::default()).as_object().unwrap().keys().cloned().collect()
}

#[test]
fn types_of_the_page_are_what_programs_see() {
    const BEGIN: &str = "// Made from crates/engine/src/observe/views/shown.rs by a test.\n";
    const END: &str = "// Written by hand from here on.\n";
    compare("crates/server/page/types.d.ts", |old| {
        let (before, rest) = old.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let mut text = format!("{before}{BEGIN}");
        let fields: Vec<_> = tokens().iter().map(|name| format!("{name}?: number")).collect();
        let _ = writeln!(text, "export interface Tokens {{ {} }}", fields.join("; "));
        for Described { name, base, fields, .. } in all() {
            let base = base.map(|base| format!(" extends {base}")).unwrap_or_default();
            let _ = writeln!(text, "export interface {name}{base} {{");
            for (field, shape, _) in fields {
                let _ = writeln!(text, "  {field}: {};", typescript(&shape));
            }
            text.push_str("}\n");
        }
        format!("{text}{END}{after}")
    });
}

fn typescript(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::Integer | Shape::Number => "number".to_owned(),
        Shape::Flag => "boolean".to_owned(),
        Shape::Any => "any".to_owned(),
        Shape::OneOf(words) => {
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | ")
        }
        Shape::Named(name) => (*name).to_owned(),
        Shape::Optional(shape) => format!("{} | null", typescript(shape)),
        Shape::List(shape) => format!("{}[]", typescript(shape)),
        Shape::Map(shape) => format!("Record<string, {}>", typescript(shape)),
    }
}

#[test]
fn schemas_of_the_interface_are_what_programs_see() {
    compare("docs/api.openapi.json", |old| {
        let mut document: Value = serde_json::from_str(old).unwrap();
        let fields = tokens().into_iter().map(|name| (name, json!({ "type": "integer" })));
        let mut schemas = json!({
            "Tokens": { "type": "object", "properties": Value::Object(fields.collect()) },
        });
        for Described { name, about, base, fields } in all() {
            let required: Vec<_> = fields.iter().map(|(name, ..)| name).collect();
            let properties = fields.iter().map(|(name, shape, meaning)| {
                let mut schema = schema(shape);
                schema["description"] = json!(meaning.trim());
                ((*name).to_owned(), schema)
            });
            let own = json!({
                "type": "object", "description": about.trim(), "required": required,
                "properties": Value::Object(properties.collect()),
            });
            schemas[name] = match base {
                Some(base) => json!({ "allOf": [reference(base), own] }),
                None => own,
            };
        }
        document["components"]["schemas"] = schemas;
        format!("{document:#}\n")
    });
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn schema(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Integer => json!({ "type": "integer" }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Any => json!({}),
        Shape::OneOf(words) => json!({ "enum": words }),
        Shape::Named(name) => reference(name),
        Shape::Optional(shape) => json!({ "anyOf": [schema(shape), { "type": "null" }] }),
        Shape::List(shape) => json!({ "type": "array", "items": schema(shape) }),
        Shape::Map(shape) => json!({ "type": "object", "additionalProperties": schema(shape) }),
    }
}
