//! One node of a structural schema, parsed from JSON. Parsing is lenient: [`super::structural`] validates the schema
//! before.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::rules::{Passed, Rule};
use super::types::{ListType, MapType, Type};

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Not given.
    #[default]
    None,
    /// `true`: anything.
    Any,
    /// Every value that is not a property has this schema.
    Schema(Box<Node>),
}

impl Additional {
    pub(crate) fn schema(&self) -> Option<&Node> {
        match self {
            Self::Schema(node) => Some(node),
            Self::None | Self::Any => None,
        }
    }
}

/// Value validation, other than the type.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub one_of_values: Vec<Value>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<u64>,
    pub min_length: Option<u64>,
    pub pattern: Option<Regex>,
    pub max_items: Option<u64>,
    pub min_items: Option<u64>,
    pub max_properties: Option<u64>,
    pub min_properties: Option<u64>,
    pub required: Vec<String>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
}

/// One node of a schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub ty: Option<Type>,
    pub format: Option<String>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Self>,
    pub additional: Additional,
    pub items: Option<Box<Self>>,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub list_type: ListType,
    pub list_keys: Vec<String>,
    pub map_type: MapType,
    pub checks: Checks,
    pub rules: Vec<Rule>,
    /// Whether there is a rule here or below.
    pub has_rules: bool,
    /// Whether there is a default here or below.
    pub has_defaults: bool,
    /// Whether there is a set or a list map here or below.
    pub has_unique_lists: bool,
    /// For the items of a list: values that passed the rules.
    pub passed: Passed,
}

impl Node {
    /// Parses a schema. Invalid patterns and rules are left out.
    pub(crate) fn read(schema: &Value) -> Self {
        let ty = schema
            .get("type")
            .and_then(Value::as_str)
            .and_then(Type::from_name);
        let mut node = Self {
            ty,
            format: text(schema, "format").filter(|format| super::formats::known(ty, format)),
            nullable: flag(schema, "nullable"),
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            properties: properties(schema),
            additional: additional(schema),
            items: schema.get("items").map(|items| Box::new(Self::read(items))),
            int_or_string: flag(schema, "x-kubernetes-int-or-string"),
            preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            list_type: match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map,
                _ => ListType::Atomic,
            },
            list_keys: strings(schema, "x-kubernetes-list-map-keys"),
            map_type: match schema.get("x-kubernetes-map-type").and_then(Value::as_str) {
                Some("atomic") => MapType::Atomic,
                _ => MapType::Granular,
            },
            checks: Checks::read(schema),
            rules: list(schema, "x-kubernetes-validations")
                .iter()
                .filter_map(|rule| Rule::read(rule, schema))
                .collect(),
            passed: Passed::default(),
            ..Self::default()
        };
        node.has_rules = !node.rules.is_empty() || node.children().any(|child| child.has_rules);
        node.has_defaults = node.default.is_some() || node.children().any(|child| child.has_defaults);
        node.has_unique_lists =
            node.list_type != ListType::Atomic || node.children().any(|child| child.has_unique_lists);
        node
    }

    /// The schemas of fields, of other values, and of items.
    fn children(&self) -> impl Iterator<Item = &Self> {
        let fields = self.properties.values();
        fields
            .chain(self.additional.schema())
            .chain(self.items.as_deref())
    }

    /// The schema of the member `name` of an object.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.additional.schema())
    }

    /// `additionalProperties: true`.
    pub(crate) fn allows_any(&self) -> bool {
        matches!(self.additional, Additional::Any)
    }
}

impl Checks {
    fn read(schema: &Value) -> Self {
        Self {
            one_of_values: list(schema, "enum").to_vec(),
            maximum: number(schema, "maximum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            minimum: number(schema, "minimum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            multiple_of: number(schema, "multipleOf"),
            max_length: count(schema, "maxLength"),
            min_length: count(schema, "minLength"),
            // The structural check has rejected invalid patterns.
            pattern: text(schema, "pattern").and_then(|pattern| Regex::new(&pattern).ok()),
            max_items: count(schema, "maxItems"),
            min_items: count(schema, "minItems"),
            max_properties: count(schema, "maxProperties"),
            min_properties: count(schema, "minProperties"),
            required: strings(schema, "required"),
            all_of: nodes(schema, "allOf"),
            any_of: nodes(schema, "anyOf"),
            one_of: nodes(schema, "oneOf"),
            not: schema.get("not").map(|not| Box::new(Node::read(not))),
        }
    }
}

fn properties(schema: &Value) -> BTreeMap<String, Node> {
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    properties
        .map(|(name, schema)| (name.clone(), Node::read(schema)))
        .collect()
}

fn additional(schema: &Value) -> Additional {
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => Additional::Any,
        Some(schema @ Value::Object(_)) => Additional::Schema(Box::new(Node::read(schema))),
        _ => Additional::None,
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn nodes(schema: &Value, key: &str) -> Vec<Node> {
    list(schema, key).iter().map(Node::read).collect()
}

fn strings(schema: &Value, key: &str) -> Vec<String> {
    list(schema, key)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn number(schema: &Value, key: &str) -> Option<f64> {
    schema.get(key).and_then(Value::as_f64)
}

fn count(schema: &Value, key: &str) -> Option<u64> {
    schema.get(key).and_then(Value::as_u64)
}

fn text(schema: &Value, key: &str) -> Option<String> {
    schema
        .get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}
