//! Validation of values against a schema without its rules, in the order and with the messages of the real server.
//!
//! An update does not fail because of existing errors: causes below an unchanged value are dropped.

use serde_json::{Value, json};

use super::cause::{Cause, go_float};
use super::changed::Changed;
use super::node::{Checks, Node};
use super::path::Path;
use super::types::Type;
use super::{correlate, formats};

/// The causes of one value, and the number of passed checks (by which a branch of `anyOf` is chosen).
#[derive(Default)]
struct ValidationResult {
    causes: Vec<Cause>,
    matches: usize,
}

impl ValidationResult {
    fn add(&mut self, cause: Cause) {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        other.causes.into_iter().for_each(|cause| self.add(cause));
    }

    fn is_valid(&self) -> bool {
        self.causes.is_empty()
    }
}

/// All validation errors of the changed parts of `new`, which replaces `old`, at `path` (empty for the resource itself).
pub(super) fn check(
    new: &Value,
    old: Option<&Value>,
    node: &Node,
    path: &str,
    changed: &Changed,
) -> Vec<Cause> {
    validate(new, old, node, Path::Root(path), Some(changed)).causes
}

fn validate(
    new: &Value,
    old: Option<&Value>,
    node: &Node,
    path: Path<'_>,
    changed: Option<&Changed>,
) -> ValidationResult {
    let mut outcome = ValidationResult::default();
    let is_same = || old == Some(new);
    let Some(changed) = changed.filter(|changed| **changed != Changed::Whole || !is_same()) else {
        // Existing errors are accepted.
        outcome.matches = 1;
        return outcome;
    };
    let at = At { path, node, changed };
    let checks = if new.is_null() {
        vec![at.ty(new), at.enumeration(new)]
    } else {
        vec![
            at.ty(new),
            at.junctors(new, old),
            at.text(new),
            at.number(new),
            at.list(new, old),
            at.enumeration(new),
            at.object(new, old),
        ]
    };
    for check in checks {
        outcome.matches += 1;
        outcome.merge(check);
    }
    outcome.matches += 1;
    if *changed != Changed::Whole && !outcome.is_valid() && is_same() {
        outcome.causes.clear();
    }
    outcome
}

struct At<'a> {
    path: Path<'a>,
    node: &'a Node,
    changed: &'a Changed,
}

impl At<'_> {
    fn field(&self) -> String {
        without_dot(self.path.to_string())
    }

    fn invalid(&self, value: &Value, detail: &str) -> Cause {
        Cause::invalid(self.field(), value, &format!("{} in body {detail}", self.path))
    }

    fn ty(&self, value: &Value) -> ValidationResult {
        let mut outcome = ValidationResult {
            matches: 1,
            ..ValidationResult::default()
        };
        let wanted = match (self.node.ty, self.node.int_or_string) {
            (_, true) => vec![Type::Integer, Type::String],
            (Some(ty), false) => vec![ty],
            (None, false) => return outcome,
        };
        let is = json_type(value);
        let fits = wanted.iter().any(|ty| match ty {
            Type::Number => matches!(is, "number" | "integer"),
            Type::Integer => is == "integer" || value.as_f64().is_some_and(|number| number.fract() == 0.0),
            ty => ty.name() == is,
        });
        let allowed = fits || (value.is_null() && self.node.nullable);
        if !allowed {
            let names: Vec<&str> = wanted.iter().map(|ty| ty.name()).collect();
            let detail = format!(
                "{} in body must be of type {}: {is:?}",
                self.path,
                names.join(",")
            );
            outcome.add(Cause::type_invalid(self.field(), &json!(is), &detail));
        }
        outcome
    }

    fn enumeration(&self, value: &Value) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let allowed = &self.node.checks.one_of_values;
        if !allowed.is_empty() && !allowed.iter().any(|one| !one.is_null() && equal(one, value)) {
            let supported: Vec<String> = allowed
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            outcome.add(Cause::not_supported(self.field(), value, &supported));
        }
        outcome
    }

    fn text(&self, value: &Value) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let Value::String(text) = value else {
            return outcome;
        };
        let Checks {
            max_length,
            min_length,
            pattern,
            ..
        } = &self.node.checks;
        let length = text.chars().count() as u64;
        if let Some(max) = max_length.filter(|max| length > *max) {
            outcome.add(Cause::too_long(self.field(), max));
        } else if let Some(min) = min_length.filter(|min| length < *min) {
            outcome.add(self.invalid(value, &format!("should be at least {min} chars long")));
        } else if let Some(pattern) = pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            outcome.add(self.invalid(value, &format!("should match '{pattern}'")));
        }
        if let Some(format) = self
            .node
            .format
            .as_deref()
            .filter(|format| !formats::matches(format, text))
        {
            let detail = format!("{} in body must be of type {format}: {text:?}", self.path);
            outcome.add(Cause::type_invalid(self.field(), value, &detail));
        }
        outcome
    }

    fn number(&self, value: &Value) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let Some(number) = value.as_f64().filter(|_| value.is_number()) else {
            return outcome;
        };
        let checks = &self.node.checks;
        if let (Some(format @ "int32"), Some(whole)) = (self.node.format.as_deref(), value.as_i64())
            && i32::try_from(whole).is_err()
        {
            let text = format!(
                "Checked value must be of type integer with format {format} in {}",
                self.path
            );
            outcome.add(Cause::invalid("", &json!(""), &text));
        }
        // The real server compares integers with the integer part of a bound.
        let bound = |bound: f64| if value.is_f64() { bound } else { bound.trunc() };
        if let Some(max) = checks.maximum.map(bound) {
            let (wrong, text) = if checks.exclusive_maximum {
                (number >= max, "less than")
            } else {
                (number > max, "less than or equal to")
            };
            if wrong {
                outcome.add(self.invalid(value, &format!("should be {text} {}", format_bound(max, value))));
            }
        }
        if let Some(min) = checks.minimum.map(bound) {
            let (wrong, text) = if checks.exclusive_minimum {
                (number <= min, "greater than")
            } else {
                (number < min, "greater than or equal to")
            };
            if wrong {
                outcome.add(self.invalid(value, &format!("should be {text} {}", format_bound(min, value))));
            }
        }
        if let Some(factor) = checks.multiple_of.filter(|factor| *factor > 0.0) {
            let times = if factor < 1.0 {
                1.0 / factor * number
            } else {
                number / factor
            };
            if (times - times.round()).abs() > 1e-9 {
                outcome.add(self.invalid(
                    value,
                    &format!("should be a multiple of {}", format_bound(factor, value)),
                ));
            }
        }
        outcome
    }

    fn list(&self, value: &Value, old: Option<&Value>) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let Value::Array(items) = value else {
            return outcome;
        };
        if let Some(schema) = &self.node.items {
            for (index, item) in items.iter().enumerate() {
                let old = correlate::correlated_item(old, self.node, index, item);
                let changed = self.changed.item(index);
                outcome.merge(validate(
                    item,
                    old,
                    schema,
                    Path::Item(&self.path, index),
                    changed,
                ));
            }
        }
        let Checks {
            max_items, min_items, ..
        } = self.node.checks;
        if let Some(min) = min_items.filter(|min| (items.len() as u64) < *min) {
            outcome.add(self.invalid(&json!(items.len()), &format!("should have at least {min} items")));
        }
        if let Some(max) = max_items.filter(|max| items.len() as u64 > *max) {
            outcome.add(Cause::too_many(self.field(), items.len(), max));
        }
        outcome
    }

    fn object(&self, value: &Value, old: Option<&Value>) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let Value::Object(members) = value else {
            return outcome;
        };
        let checks = &self.node.checks;
        if let Some(min) = checks.min_properties.filter(|min| (members.len() as u64) < *min) {
            outcome.add(self.invalid(
                &json!(members.len()),
                &format!("should have at least {min} properties"),
            ));
        }
        if let Some(max) = checks.max_properties.filter(|max| members.len() as u64 > *max) {
            outcome.add(Cause::too_many(self.field(), members.len(), max));
        }
        for (name, value) in members {
            let Some(schema) = self.node.member(name) else {
                continue;
            };
            let path = if self.node.properties.contains_key(name) {
                Path::Field(&self.path, name)
            } else {
                Path::Member(&self.path, name)
            };
            let ratchets = !(self.path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind"));
            let old = correlate::member(old, name).filter(|_| ratchets);
            outcome.merge(validate(value, old, schema, path, self.changed.member(name)));
        }
        for name in checks.required.iter().filter(|name| !members.contains_key(*name)) {
            let path = Path::Member(&self.path, name).to_string();
            outcome.add(Cause::required(without_dot(path), ""));
        }
        outcome
    }

    fn junctors(&self, value: &Value, old: Option<&Value>) -> ValidationResult {
        let mut outcome = ValidationResult {
            matches: 1,
            ..ValidationResult::default()
        };
        let Checks {
            all_of,
            any_of,
            one_of,
            not,
            ..
        } = &self.node.checks;
        let branch = |node: &Node| validate(value, old, node, self.path, Some(self.changed));
        if !any_of.is_empty() {
            let results: Vec<ValidationResult> = any_of.iter().map(branch).collect();
            if !results.iter().any(ValidationResult::is_valid) {
                outcome.add(self.junctor("must validate at least one schema (anyOf)"));
            }
            outcome.merge(chosen(results));
        }
        if !one_of.is_empty() {
            let results: Vec<ValidationResult> = one_of.iter().map(branch).collect();
            match results.iter().filter(|result| result.is_valid()).count() {
                1 => {}
                0 => {
                    outcome
                        .add(self.junctor("must validate one and only one schema (oneOf). Found none valid"));
                }
                valid => outcome.add(self.junctor(&format!(
                    "must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                ))),
            }
            outcome.merge(chosen(results));
        }
        if !all_of.is_empty() {
            let results: Vec<ValidationResult> = all_of.iter().map(branch).collect();
            let valid = results.iter().filter(|result| result.is_valid()).count();
            for result in results {
                outcome.merge(result);
            }
            if valid != all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(self.junctor(&format!("must validate all the schemas (allOf){none}")));
            }
        }
        if not.as_deref().is_some_and(|not| branch(not).is_valid()) {
            outcome.add(self.junctor("must not validate the schema (not)"));
        }
        outcome
    }

    fn junctor(&self, text: &str) -> Cause {
        Cause::invalid("", &json!(""), &format!("{:?} {text}", self.path.to_string()))
    }
}

/// A path below an empty root, as fields are named in causes.
fn without_dot(path: String) -> String {
    path.strip_prefix('.').map(str::to_owned).unwrap_or(path)
}

/// The first valid branch, else the one that passed most checks.
fn chosen(results: Vec<ValidationResult>) -> ValidationResult {
    let mut best: Option<ValidationResult> = None;
    for result in results {
        let better = match &best {
            None => true,
            Some(best) if best.is_valid() => false,
            Some(best) => result.is_valid() || result.matches > best.matches,
        };
        if better {
            best = Some(result);
        }
    }
    best.unwrap_or_default()
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

/// A bound as printed in messages: as an integer for integers.
fn format_bound(bound: f64, value: &Value) -> String {
    if value.is_f64() {
        go_float(bound)
    } else {
        format!("{bound:.0}")
    }
}
