//! Reads a table of cases, and resolves references first.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum nesting of references, to detect cycles.
const DEPTH: usize = 64;

/// A file of cases before references are resolved; keys that the README does not list are an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default, rename = "source")]
    _source: Value,
    #[serde(default, rename = "about")]
    _about: Value,
    #[serde(default, rename = "fields")]
    _fields: Value,
    #[serde(default)]
    now: Option<String>,
    #[serde(default)]
    objects: Map<String, Value>,
    #[serde(default)]
    templates: Map<String, Value>,
    cases: Vec<RawCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawCase {
    name: String,
    input: Value,
    expect: Value,
    safer: Option<RawSafer>,
    #[serde(default)]
    same_as: Names,
    #[serde(default)]
    differs_from: Names,
    #[serde(rename = "note")]
    _note: Option<Value>,
    #[serde(rename = "origin")]
    _origin: Option<Value>,
    #[serde(rename = "line")]
    _line: Option<Value>,
    #[serde(rename = "covers")]
    _covers: Option<Value>,
}

/// The name of a case, or several.
#[derive(Clone, Default, Deserialize)]
#[serde(untagged)]
enum Names {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

impl Names {
    fn all(&self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSafer {
    expect: Value,
    #[serde(rename = "why")]
    _why: Value,
}

/// A table of cases.
#[derive(Debug)]
pub(crate) struct Table {
    /// The cases, in the order of the file.
    pub cases: Vec<Case>,
}

/// A case without references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub name: String,
    /// The current time of the file, RFC 3339.
    pub now: Option<String>,
    /// Templates of the file that its cases refer to.
    pub templates: Map<String, Value>,
    /// Objects of the file, for inputs that are patches of one.
    pub objects: Map<String, Value>,
    pub input: Value,
    pub expect: Value,
    /// What muster must decide instead.
    pub safer: Option<Value>,
    /// The cases with the same identity.
    pub same_as: Vec<String>,
    /// The cases that must have another identity.
    pub differs_from: Vec<String>,
}

/// Reads a file of cases.
pub(crate) fn read(file: &Path) -> anyhow::Result<Table> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    parse(&text)
}

/// Parses the text of a file of cases.
pub(crate) fn parse(text: &str) -> anyhow::Result<Table> {
    let file: File = serde_json::from_str(text)?;
    let references = References {
        objects: &file.objects,
    };
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for raw in &file.cases {
        ensure!(names.insert(&raw.name), "two cases are called {:?}", raw.name);
        let resolved = |value: &Value| {
            references
                .resolve(value, 0)
                .with_context(|| format!("case {:?}", raw.name))
        };
        cases.push(Case {
            name: raw.name.clone(),
            now: file.now.clone(),
            templates: file.templates.clone(),
            objects: file.objects.clone(),
            input: resolved(&raw.input)?,
            expect: resolved(&raw.expect)?,
            safer: raw
                .safer
                .as_ref()
                .map(|safer| resolved(&safer.expect))
                .transpose()?,
            same_as: raw.same_as.all(),
            differs_from: raw.differs_from.all(),
        });
    }
    Ok(Table { cases })
}

/// The objects of a file that its cases refer to.
struct References<'a> {
    objects: &'a Map<String, Value>,
}

impl References<'_> {
    /// `value` with each `{"$o": KEY}` and `{"$ref": KEY, "$patch": PATCH}` replaced by its referent.
    fn resolve(&self, value: &Value, depth: usize) -> anyhow::Result<Value> {
        ensure!(depth < DEPTH, "references stand in a circle");
        match value {
            Value::Array(items) => items.iter().map(|item| self.resolve(item, depth)).collect(),
            Value::Object(map) if map.contains_key("$ref") || map.contains_key("$o") => {
                self.reference(map, depth)
            }
            Value::Object(map) => {
                if let Some(unknown) = map.keys().find(|key| key.starts_with('$')) {
                    bail!("unknown reference {unknown:?}");
                }
                map.iter()
                    .map(|(key, value)| Ok((key.clone(), self.resolve(value, depth)?)))
                    .collect()
            }
            plain => Ok(plain.clone()),
        }
    }

    fn reference(&self, map: &Map<String, Value>, depth: usize) -> anyhow::Result<Value> {
        if let Some(unknown) = map
            .keys()
            .find(|key| !["$ref", "$o", "$patch"].contains(&key.as_str()))
        {
            bail!("{unknown:?} beside a reference");
        }
        let ((Some(Value::String(key)), None) | (None, Some(Value::String(key)))) =
            (map.get("$ref"), map.get("$o"))
        else {
            bail!("a reference is one key of objects");
        };
        let object = self
            .objects
            .get(key)
            .with_context(|| format!("unknown reference {key:?}"))?;
        let mut resolved = self.resolve(object, depth + 1)?;
        if let Some(patch) = map.get("$patch") {
            json_patch::merge(&mut resolved, &self.resolve(patch, depth + 1)?);
        }
        Ok(resolved)
    }
}
