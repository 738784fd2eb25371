//! Evaluates the rules of a schema on a value and its old value.

use std::sync::Arc;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::parser::Expression;
use kube_cel::cel::{ExecutionError, Value as Cel};
use serde_json::Value;

use super::super::cause::{Cause, reason};
use super::super::changed::Changed;
use super::super::correlate;
use super::super::node::Node;
use super::super::path::Path;
use super::super::rules::Rule;
use super::super::types::{ListType, Type};
use super::values;

/// Validation ratcheting: how a value relates to its old value, so that existing errors are accepted.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    /// The value, or the nearest ancestor with an old value.
    new: &'a Value,
    old: Option<&'a Value>,
}

/// Causes for all rules that the changed parts of `new`, which replaces `old`, violate.
pub(in super::super) fn run(new: &Value, old: Option<&Value>, root: &Node, changed: &Changed) -> Vec<Cause> {
    let mut causes = Vec::new();
    if root.has_rules {
        let ratchet = Ratchet { new, old };
        visit(
            new,
            old,
            root,
            &ValueLocation {
                path: Path::Root(""),
                resource: true,
                ratchet,
                changed,
            },
            &mut causes,
        );
    }
    causes
}

/// The hash of an unchanged item; `None` if it changed, or has no rules.
fn print(item: &Value, old: Option<&Value>, schema: &Node) -> Option<u64> {
    (schema.has_rules && old == Some(item)).then(|| schema.passed.print(item))
}

struct ValueLocation<'a> {
    path: Path<'a>,
    resource: bool,
    ratchet: Ratchet<'a>,
    changed: &'a Changed,
}

fn visit<'a>(
    new: &'a Value,
    old: Option<&'a Value>,
    node: &Node,
    place: &ValueLocation<'a>,
    causes: &mut Vec<Cause>,
) {
    if new.is_null() || !node.has_rules {
        return;
    }
    if !node.rules.is_empty() {
        node_rules(new, old.filter(|old| !old.is_null()), node, place, causes);
    }
    match new {
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let Some(changed) = place.changed.item(index) else {
                    continue;
                };
                let old = correlate::correlated_item(old, node, index, item);
                let print = print(item, old, schema);
                if print.is_some_and(|print| schema.passed.has(print)) {
                    continue;
                }
                let before = causes.len();
                let ratchet = place.ratchet.below(old, item, node.list_type == ListType::Map);
                let path = Path::Item(&place.path, index);
                visit(
                    item,
                    old,
                    schema,
                    &ValueLocation {
                        path,
                        resource: schema.embedded,
                        ratchet,
                        changed,
                    },
                    causes,
                );
                if let Some(print) = print.filter(|_| causes.len() == before) {
                    schema.passed.add(print);
                }
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let (Some(schema), Some(changed)) = (node.member(name), place.changed.member(name)) else {
                    continue;
                };
                let old = correlate::member(old, name);
                let ratchet = place.ratchet.below(old, value, true);
                let path = if node.properties.contains_key(name) {
                    Path::Field(&place.path, name)
                } else {
                    Path::Key(&place.path, name)
                };
                visit(
                    value,
                    old,
                    schema,
                    &ValueLocation {
                        path,
                        resource: schema.embedded,
                        ratchet,
                        changed,
                    },
                    causes,
                );
            }
        }
        _ => {}
    }
}

impl<'a> Ratchet<'a> {
    const fn below(self, old: Option<&'a Value>, new: &'a Value, correlated: bool) -> Self {
        if correlated { Self { new, old } } else { self }
    }

    /// Compared only for a broken rule, as most values keep theirs.
    fn is_unchanged(self) -> bool {
        self.old == Some(self.new)
    }
}

fn node_rules(
    new: &Value,
    old: Option<&Value>,
    node: &Node,
    place: &ValueLocation<'_>,
    causes: &mut Vec<Cause>,
) {
    for rule in &node.rules {
        if rule.uses_old && old.is_none() && !rule.optional_old {
            continue;
        }
        let typed = |value: &Value| values::typed_members(value, node, place.resource, rule.members.as_ref());
        let this = typed(new);
        let before = old.filter(|_| rule.uses_old).map(typed);
        let before = match (rule.uses_old, rule.optional_old, &before) {
            (false, ..) => None,
            (true, false, before) => before.clone(),
            (true, true, None) => Some(Cel::Opaque(Arc::new(OptionalValue::none()))),
            (true, true, Some(before)) => Some(Cel::Opaque(Arc::new(OptionalValue::of(before.clone())))),
        };
        let cause = match evaluate(&rule.expression, &this, before.as_ref()) {
            Ok(Cel::Bool(true)) => continue,
            Ok(_) => broken(rule, new, node, place, || {
                let message = rule.message_expression.as_ref()?;
                message_of(evaluate(message, &this, before.as_ref()))
            }),
            Err(error) => {
                let text = failure(&error, rule);
                causes.push(Cause::invalid(
                    place.path.to_string(),
                    &Value::from(type_name(node)),
                    &text,
                ));
                continue;
            }
        };
        if rule.uses_old || !place.ratchet.is_unchanged() {
            causes.push(cause);
        }
    }
}

fn evaluate(expression: &Expression, this: &Cel, before: Option<&Cel>) -> Result<Cel, ExecutionError> {
    values::FUNCTIONS.with(|functions| {
        let mut scope = functions.new_inner_scope();
        scope.add_variable_from_value("self", this.clone());
        if let Some(before) = before {
            scope.add_variable_from_value("oldSelf", before.clone());
        }
        scope.resolve(expression)
    })
}

fn broken(
    rule: &Rule,
    new: &Value,
    node: &Node,
    place: &ValueLocation<'_>,
    message: impl FnOnce() -> Option<String>,
) -> Cause {
    let detail = message().unwrap_or_else(|| {
        if rule.message.is_empty() {
            format!("failed rule: {}", rule.name())
        } else {
            rule.message.clone()
        }
    });
    let field = match &rule.field_path {
        None => place.path.to_string(),
        Some(field) => Path::Field(&place.path, field).to_string(),
    };
    let unprinted = matches!(node.ty, Some(Type::Object | Type::Array)) || place.resource;
    match rule.reason.as_str() {
        reason::FORBIDDEN => Cause::forbidden(field, &detail),
        reason::REQUIRED => Cause::required(field, &detail),
        reason::DUPLICATE if unprinted => Cause::new(reason::DUPLICATE, field, "Duplicate value"),
        reason::DUPLICATE => Cause::duplicate(field, new),
        _ if unprinted => Cause::invalid_unprinted(field, &detail),
        _ => Cause::invalid(field, new, &detail),
    }
}

/// The result of a message expression, if it is valid.
fn message_of(result: Result<Cel, ExecutionError>) -> Option<String> {
    const LONGEST: usize = 5 * 1024;
    let Ok(Cel::String(text)) = result else {
        return None;
    };
    let text = text.trim();
    (!text.is_empty() && text.len() <= LONGEST && !text.contains('\n')).then(|| text.to_owned())
}

fn failure(error: &ExecutionError, rule: &Rule) -> String {
    match error {
        ExecutionError::NoSuchOverload => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature \
             for rule: {}",
            rule.name()
        ),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key} evaluating rule: {}", rule.name()),
        ExecutionError::DivisionByZero(_) => format!("division by zero evaluating rule: {}", rule.name()),
        ExecutionError::RemainderByZero(_) => format!("modulus by zero evaluating rule: {}", rule.name()),
        ExecutionError::Overflow(..) => format!("integer overflow evaluating rule: {}", rule.name()),
        error => format!("{error} evaluating rule: {}", rule.name()),
    }
}

fn type_name(node: &Node) -> &'static str {
    node.ty.map_or("", Type::name)
}
