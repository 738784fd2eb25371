//! CEL expressions without a schema, such as a `matchCondition` of a webhook.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::Expression;
use kube_cel::cel::{ExecutionError, Value as Cel};
use serde_json::Value;

use super::super::rules::{evaluable, parse};
use super::values::{self, FUNCTIONS};

/// A boolean expression.
#[derive(Debug)]
pub(crate) struct Condition(Expression);

impl Condition {
    /// Parses an expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse(text.trim()).map(|expression| Self(evaluable(expression)))
    }

    /// Whether the expression is true with these variables; an error if the evaluation fails.
    pub(crate) fn holds(&self, variables: &[(&'static str, &Value)]) -> Result<bool, String> {
        let value = FUNCTIONS.with(|functions| {
            let mut scope = functions.new_inner_scope();
            for (name, value) in variables {
                scope.add_variable_from_value(*name, plain(value));
            }
            scope.resolve(&self.0)
        });
        match value {
            Ok(Cel::Bool(value)) => Ok(value),
            Ok(_) => Err("must evaluate to bool".to_owned()),
            Err(ExecutionError::NoSuchKey(key)) => Err(format!("no such key: {key}")),
            Err(ExecutionError::NoSuchOverload) => Err("no such overload".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A value without escaped member names.
fn plain(value: &Value) -> Cel {
    match value {
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| (Key::String(Arc::new(name.clone())), plain(value));
            let members: HashMap<Key, Cel> = members.iter().map(member).collect();
            Cel::Map(Map {
                map: Arc::new(members),
            })
        }
        scalar => values::untyped(scalar),
    }
}
