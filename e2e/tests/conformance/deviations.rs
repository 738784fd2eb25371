//! `e2e/conformance/deviations.toml`: where muster intentionally decides otherwise, as rules over the input.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use cel::{Context, Program};
use serde::Deserialize;
use serde_json::Value;

/// The committed rules.
const FILE: &str = include_str!("../../conformance/deviations.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    deviation: Vec<Rule>,
}

/// One rule: cases of the table whose input matches may differ in these keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// The directory of the system.
    pub system: String,
    /// The file of the table.
    pub file: String,
    /// A CEL expression over `input`.
    pub when: String,
    /// Keys of `expect` that may differ, or paths in it without the indexes of steps (`after.written`); the empty text
    /// if `expect` is not an object.
    pub differs: Vec<String>,
    /// Why muster decides otherwise.
    pub reason: String,
}

/// The rules of the repository.
pub(crate) fn rules() -> anyhow::Result<Vec<Rule>> {
    parse(FILE).context("e2e/conformance/deviations.toml")
}

/// Reads rules, each of which says what may differ, and why.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Rule>> {
    let document: Document = toml::from_str(text)?;
    for rule in &document.deviation {
        ensure!(
            !rule.reason.trim().is_empty(),
            "{}: a rule without a reason",
            rule.file
        );
        ensure!(
            !rule.differs.is_empty(),
            "{}: a rule under which nothing may differ",
            rule.file
        );
        Program::compile(&rule.when).with_context(|| format!("{}: {:?}", rule.file, rule.when))?;
    }
    Ok(document.deviation)
}

impl Rule {
    /// Whether the rule matches this case. A missing field makes the expression false.
    pub(crate) fn applies(&self, system: &str, file: &str, input: &Value) -> anyhow::Result<bool> {
        if self.system != system || self.file != file {
            return Ok(false);
        }
        let mut context = Context::default();
        context.add_variable_from_value("input", variable(input));
        match Program::compile(&self.when)?.execute(&context) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(other) => anyhow::bail!("{:?} gives {other:?} and no boolean", self.when),
            Err(cel::ExecutionError::NoSuchKey(_) | cel::ExecutionError::NoSuchOverload) => Ok(false),
            Err(error) => Err(error).with_context(|| self.when.clone()),
        }
    }
}

/// JSON as CEL values: integers are signed, like literals of an expression.
fn variable(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => cel::Value::Int(whole),
            None => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::String(text.clone().into()),
        Value::Array(items) => cel::Value::List(items.iter().map(variable).collect::<Vec<_>>().into()),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), variable(value)));
            cel::Value::Map(entries.collect::<HashMap<_, _>>().into())
        }
    }
}
