//! The schema of a state's structured output: the part of JSON Schema that Raymond checks itself.
//!
//! A schema with other keywords is refused: what the next state relies on is really checked, and a misspelled keyword does
//! not silently allow everything. The output is an object, and its fields are those of `properties`: others are allowed
//! only by `additionalProperties: true`.

use serde_json::{Map, Value};

use crate::text::excerpt;

use super::diagnostic::did_you_mean;

/// The most bytes of a schema: it is one argument of a program, and Linux takes 128 KiB for that.
pub(super) const SCHEMA_BYTES_MAX: usize = 65_536;
/// The most bytes of an output: it is a part of the journal and of the state file.
pub const OUTPUT_BYTES_MAX: usize = 1_048_576;

/// The keywords that are checked.
const CHECKED: [&str; 13] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
];
/// Keywords that only describe.
const DESCRIBING: [&str; 6] =
    ["title", "description", "default", "examples", "$schema", "$comment"];
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// A schema that can be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(Value);

/// Where the schema of a state is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaSource {
    /// In the frontmatter.
    Inline(Schema),
    /// In this file beside the state.
    File(String),
}

/// Why a value is no schema that can be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaProblem {
    /// The keys that lead to the place.
    pub(super) path: Vec<String>,
    pub(super) message: String,
    pub(super) meant: Option<&'static str>,
}

impl Schema {
    /// Reads the schema in the bytes of a file.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > SCHEMA_BYTES_MAX {
            return Err(format!("it has more than {SCHEMA_BYTES_MAX} bytes"));
        }
        let value = serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
        Self::of(value).map_err(|problem| {
            let SchemaProblem { path, message, meant } = problem;
            let meant =
                meant.map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"));
            if path.is_empty() {
                message + &meant
            } else {
                format!("{}: {message}{meant}", path.join("."))
            }
        })
    }

    pub(super) fn of(mut value: Value) -> Result<Self, SchemaProblem> {
        check_schema(&value, &mut Vec::new())?;
        let wrong = |path: &[&str], message: String| SchemaProblem {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            message,
            meant: None,
        };
        let Some(schema) =
            value.as_object_mut().filter(|schema| schema.get("type") == Some(&"object".into()))
        else {
            return Err(wrong(&[], "the output is an object: `type: object`".to_owned()));
        };
        let names = schema.get("properties").and_then(Value::as_object);
        let is_name = |name: &&String| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if let Some(name) = names.and_then(|names| names.keys().find(|name| !is_name(name))) {
            let message =
                format!("`{}` cannot be a variable: letters, digits, `_`, `-`, `.`", excerpt(name));
            return Err(wrong(&["properties"], message));
        }
        schema.entry("additionalProperties").or_insert(false.into());
        check_required(schema, &[])?;
        Ok(Self(value))
    }

    /// The names of the fields that the output can have, as far as they are known.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let properties = self.0.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// The schema as JSON.
    pub fn to_json(&self) -> String {
        self.0.to_string()
    }

    /// Checks an output; an error says what is wrong and where.
    pub fn check(&self, output: &Value) -> Result<(), String> {
        check(&self.0, output, "")
    }
}

/// The fields of an output as variables: texts and numbers as they are, everything else as JSON.
pub(crate) fn fields(output: &str) -> impl Iterator<Item = (String, String)> {
    let fields = match serde_json::from_str(output) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    fields.into_iter().map(|(name, value)| match value {
        Value::String(ref text) => (name, text.clone()),
        Value::Null => (name, String::new()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            (name, value.to_string())
        }
    })
}

fn check_schema(schema: &Value, path: &mut Vec<String>) -> Result<(), SchemaProblem> {
    let wrong = |path: &[String], message: &str, meant| SchemaProblem {
        path: path.to_vec(),
        message: message.to_owned(),
        meant,
    };
    let Some(keywords) = schema.as_object() else {
        return Err(wrong(path, "a schema should be a mapping of keywords", None));
    };
    for (keyword, value) in keywords {
        if DESCRIBING.contains(&keyword.as_str()) {
            continue;
        }
        if !CHECKED.contains(&keyword.as_str()) {
            let message =
                format!("the keyword `{}` is not one that Raymond checks", excerpt(keyword));
            return Err(wrong(path, &message, did_you_mean(keyword, CHECKED)));
        }
        path.push(keyword.clone());
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, schema) in properties {
                    path.push(name.clone());
                    check_schema(schema, path)?;
                    path.pop();
                }
            }
            ("items" | "additionalProperties", Value::Object(_)) => check_schema(value, path)?,
            _ => {
                if let Some(expected) = expected(keyword, value) {
                    let message = format!("`{keyword}` should be {expected}");
                    return Err(wrong(path, &message, None));
                }
            }
        }
        path.pop();
    }
    check_required(keywords, path)
}

/// What the value of a keyword should be, if it is something else.
fn expected(keyword: &str, value: &Value) -> Option<&'static str> {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let all = |is_good: &dyn Fn(&Value) -> bool| {
        value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_good))
    };
    let (is_good, expected) = match keyword {
        "type" => (
            is_type(value) || all(&is_type),
            "object, array, string, number, integer, boolean or null, or a list of them",
        ),
        "enum" => (all(&|_| true), "a list of values"),
        "const" => (true, ""),
        "required" => (
            value.is_array() && (all(&Value::is_string) || value == &Value::Array(Vec::new())),
            "a list of names",
        ),
        "properties" => (false, "a mapping of names to schemas"),
        "additionalProperties" => (value.is_boolean(), "`true`, `false` or a schema"),
        "items" => (false, "a schema"),
        "minimum" | "maximum" => (value.is_number(), "a number"),
        _ => (value.is_u64(), "a whole number"),
    };
    (!is_good).then_some(expected)
}

/// A field that is required and cannot be there is a slip.
fn check_required(schema: &Map<String, Value>, path: &[String]) -> Result<(), SchemaProblem> {
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Ok(());
    }
    let has = |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    match required.filter_map(Value::as_str).find(|name| !has(name)) {
        None => Ok(()),
        Some(name) => Err(SchemaProblem {
            path: path.iter().cloned().chain(["required".to_owned()]).collect(),
            message: format!("`{}` is required, and is not among the `properties`", excerpt(name)),
            meant: None,
        }),
    }
}

fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let wrong = |what: String| Err(if at.is_empty() { what } else { format!("`{at}` {what}") });
    let keyword = |name: &str| schema.get(name);
    if let Some(types) = keyword("type") {
        let names: Vec<_> =
            types.as_array().map_or_else(|| vec![types], |types| types.iter().collect());
        if !names.iter().any(|name| name.as_str().is_some_and(|name| is_of(name, value))) {
            let names: Vec<_> = names.iter().filter_map(|name| name.as_str()).collect();
            return wrong(format!("should be of type {}", names.join(" or ")));
        }
    }
    if let Some(values) = keyword("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        let values: Vec<_> = values.iter().map(Value::to_string).collect();
        return wrong(format!("should be one of {}", excerpt(&values.join(", "))));
    }
    if let Some(only) = keyword("const").filter(|only| *only != value) {
        return wrong(format!("should be {}", excerpt(&only.to_string())));
    }
    let size = match value {
        Value::String(text) => Some(("Length", "characters", text.chars().count())),
        Value::Array(items) => Some(("Items", "items", items.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    if let Some((name, what, size)) = size {
        let limit = |word: &str| keyword(&format!("{word}{name}")).and_then(Value::as_u64);
        if limit("min").is_some_and(|least| (size as u64) < least)
            || limit("max").is_some_and(|most| size as u64 > most)
        {
            return wrong(format!("has {size} {what}"));
        }
    }
    if let Some(number) = value.as_f64() {
        let limit = |name: &str| keyword(name).and_then(Value::as_f64);
        if limit("minimum").is_some_and(|least| number < least)
            || limit("maximum").is_some_and(|most| number > most)
        {
            return wrong(format!("is {value}, which is out of range"));
        }
    }
    match value {
        Value::Array(items) => {
            let Some(schema) = keyword("items") else { return Ok(()) };
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| check(schema, item, &format!("{at}[{index}]")))
        }
        Value::Object(fields) => check_fields(schema, fields, at),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn check_fields(schema: &Value, fields: &Map<String, Value>, at: &str) -> Result<(), String> {
    let place = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(name) = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name))
    {
        return Err(format!("`{}` is missing", place(name)));
    }
    for (name, value) in fields {
        let own = schema.get("properties").and_then(|properties| properties.get(name));
        match own.or_else(|| schema.get("additionalProperties")) {
            Some(Value::Bool(false)) => {
                return Err(format!("`{}` is not in the schema", excerpt(&place(name))));
            }
            Some(schema) if schema.is_object() => check(schema, value, &place(name))?,
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(value: Value) -> Schema {
        Schema::of(value).unwrap()
    }

    fn refused(value: &Value) -> String {
        Schema::read(value.to_string().as_bytes()).unwrap_err()
    }

    #[test]
    fn output_is_checked_and_the_error_names_the_place() {
        let schema = schema(json!({
            "type": "object",
            "required": ["risk"],
            "properties": {
                "risk": { "enum": ["low", "high"] },
                "count": { "type": "integer", "minimum": 1, "maximum": 3 },
                "note": { "type": ["string", "null"], "minLength": 2 },
                "files": { "type": "array", "maxItems": 2, "items": {
                    "type": "object", "properties": { "path": { "type": "string" } } } },
                "kind": { "const": "x" },
            },
        }));
        for (output, expected) in [
            (json!({ "risk": "low" }), Ok(())),
            (json!({ "risk": "high", "count": 2, "note": null, "kind": "x" }), Ok(())),
            (json!({ "risk": "low", "count": 2.0, "files": [{ "path": "a", "more": 1 }] }), Ok(())),
            (json!({}), Err("`risk` is missing")),
            (json!([]), Err("should be of type object")),
            (json!({ "risk": "x" }), Err("`risk` should be one of \"low\", \"high\"")),
            (json!({ "risk": "low", "count": 1.5 }), Err("`count` should be of type integer")),
            (json!({ "risk": "low", "count": 4 }), Err("`count` is 4, which is out of range")),
            (json!({ "risk": "low", "note": "a" }), Err("`note` has 1 characters")),
            (json!({ "risk": "low", "note": 1 }), Err("`note` should be of type string or null")),
            (
                json!({ "risk": "low", "files": [{ "path": 1 }] }),
                Err("`files[0].path` should be of type string"),
            ),
            (json!({ "risk": "low", "files": [{}, {}, {}] }), Err("`files` has 3 items")),
            (json!({ "risk": "low", "kind": "y" }), Err("`kind` should be \"x\"")),
            (json!({ "risk": "low", "other": 1 }), Err("`other` is not in the schema")),
        ] {
            assert_eq!(schema.check(&output), expected.map_err(str::to_owned), "{output}");
        }
    }

    #[test]
    fn schema_that_cannot_be_checked_is_refused() {
        let with = |field: Value| json!({ "type": "object", "properties": { "a": field } });
        for (value, expected) in [
            (json!({ "type": "string" }), "the output is an object: `type: object`"),
            (
                with(json!({ "typ": "string" })),
                "properties.a: the keyword `typ` is not one that Raymond checks (did you mean `type`?)",
            ),
            (
                with(json!({ "pattern": "x" })),
                "properties.a: the keyword `pattern` is not one that Raymond checks",
            ),
            (
                with(json!({ "type": "text" })),
                "properties.a.type: `type` should be object, array, string, number, integer, boolean or null, or a list of them",
            ),
            (with(json!({ "items": [] })), "properties.a.items: `items` should be a schema"),
            (with(json!({ "enum": [] })), "properties.a.enum: `enum` should be a list of values"),
            (with(json!(true)), "properties.a: a schema should be a mapping of keywords"),
            (
                json!({ "type": "object", "required": ["b"] }),
                "required: `b` is required, and is not among the `properties`",
            ),
            (
                json!({ "type": "object", "properties": { "a b": {} } }),
                "properties: `a b` cannot be a variable: letters, digits, `_`, `-`, `.`",
            ),
        ] {
            assert_eq!(refused(&value), expected);
        }
        assert!(Schema::read(b"{").unwrap_err().starts_with("no JSON"));
    }

    #[test]
    fn fields_that_the_schema_does_not_name_need_its_permission() {
        let open = json!({ "type": "object", "additionalProperties": true });
        assert_eq!(schema(open).check(&json!({ "x": 1 })), Ok(()));
        assert!(
            schema(json!({ "type": "object" }))
                .to_json()
                .contains("\"additionalProperties\":false")
        );
    }

    #[test]
    fn fields_are_variables() {
        let output = r#"{"a":"x","b":2,"c":true,"d":null,"e":[1,"y"]}"#;
        let found: Vec<_> = fields(output).collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            pair("a", "x"),
            pair("b", "2"),
            pair("c", "true"),
            pair("d", ""),
            pair("e", "[1,\"y\"]"),
        ];
        assert_eq!(found, expected);
        assert_eq!(fields("broken").count(), 0);
    }
}
