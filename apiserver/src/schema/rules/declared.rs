//! A small part of CEL's type check: undeclared names and fields, for which the real server rejects a CRD.

use kube_cel::cel::common::ast::{Expr, IdedExpr};
use serde_json::{Map, Value};

use super::names::escaped;

/// Names that every expression may use: types, and the namespace of optional values.
const GLOBALS: [&str; 15] = [
    "self",
    "oldSelf",
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "type",
    "uint",
    "optional",
];
/// Namespaces of functions.
const NAMESPACES: [&str; 6] = ["base64", "format", "jsonpatch", "math", "sets", "strings"];

/// The first error in `expression` over a node with `schema`, with the compiler's message; `None` if there is none.
pub(super) fn check(
    expression: &IdedExpr,
    source: &str,
    schema: &Map<String, Value>,
    root: bool,
) -> Option<String> {
    let schema = Value::Object(schema.clone());
    let mut scope = Scope {
        this: &schema,
        root,
        source,
        names: Vec::new(),
        problem: None,
    };
    scope.visit(expression);
    scope.problem
}

struct Scope<'a> {
    this: &'a Value,
    root: bool,
    source: &'a str,
    /// Variables of comprehensions, innermost last, with the schema of their values if known.
    names: Vec<(String, Option<&'a Value>)>,
    problem: Option<String>,
}

impl<'a> Scope<'a> {
    /// The schema of the value of `expression`, if known.
    fn visit(&mut self, expression: &IdedExpr) -> Option<&'a Value> {
        match &expression.expr {
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => {
                let schema = self.visit(&select.operand)?;
                self.field(schema, &select.field)
            }
            Expr::Call(call) => {
                let target = call
                    .target
                    .as_deref()
                    .and_then(|target| self.visit_target(target));
                let arguments: Vec<Option<&Value>> =
                    call.args.iter().map(|argument| self.visit(argument)).collect();
                match (
                    call.func_name.as_str(),
                    target,
                    arguments.first().copied().flatten(),
                ) {
                    ("_[_]", _, Some(list)) => list.get("items").or_else(|| list.get("additionalProperties")),
                    ("filter", Some(list), _) => Some(list),
                    _ => None,
                }
            }
            Expr::Comprehension(comprehension) => {
                let over = self.visit(&comprehension.iter_range);
                self.visit(&comprehension.accu_init);
                let element = over.and_then(|schema| schema.get("items"));
                self.names.push((comprehension.iter_var.clone(), element));
                self.names
                    .extend(comprehension.iter_var2.clone().map(|name| (name, None)));
                self.names.push((comprehension.accu_var.clone(), None));
                for part in [
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.visit(part);
                }
                let added = 2 + usize::from(comprehension.iter_var2.is_some());
                self.names.truncate(self.names.len() - added);
                None
            }
            Expr::List(list) => {
                list.elements.iter().for_each(|element| {
                    self.visit(element);
                });
                None
            }
            Expr::Map(_) | Expr::Struct(_) | Expr::Literal(_) | Expr::Unspecified => None,
        }
    }

    /// The receiver of a call may be a namespace (`math.greatest(...)`).
    fn visit_target(&mut self, target: &IdedExpr) -> Option<&'a Value> {
        match &target.expr {
            Expr::Ident(name) if NAMESPACES.contains(&name.as_str()) => None,
            _ => self.visit(target),
        }
    }

    fn name(&mut self, name: &str) -> Option<&'a Value> {
        if let Some((_, schema)) = self.names.iter().rev().find(|(known, _)| known == name) {
            return *schema;
        }
        if !GLOBALS.contains(&name) && !name.starts_with('@') {
            self.report(
                name,
                &format!("undeclared reference to '{name}' (in container '')"),
            );
        }
        matches!(name, "self" | "oldSelf").then_some(self.this)
    }

    fn field(&mut self, schema: &'a Value, field: &str) -> Option<&'a Value> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return schema
                .get("additionalProperties")
                .filter(|schema| schema.is_object());
        };
        if let Some((_, schema)) = properties.iter().find(|(name, _)| escaped(name) == field) {
            return Some(schema);
        }
        let whole = schema.get("x-kubernetes-embedded-resource").is_some()
            || (self.root && std::ptr::eq(schema, self.this));
        if !(whole && matches!(field, "apiVersion" | "kind" | "metadata")) {
            self.report(&format!(".{field}"), &format!("undefined field '{field}'"));
        }
        None
    }

    /// Records the first error, with the line and a caret under `text`.
    fn report(&mut self, text: &str, problem: &str) {
        let at = self.source.find(text).unwrap_or_default();
        let line_start = self.source[..at].rfind('\n').map_or(0, |index| index + 1);
        let line = self.source[line_start..].lines().next().unwrap_or_default();
        let (row, column) = (self.source[..at].matches('\n').count() + 1, at - line_start);
        let dots = ".".repeat(column);
        self.problem.get_or_insert_with(|| {
            format!(
                "ERROR: <input>:{row}:{}: {problem}\n | {line}\n | {dots}^",
                column + 1
            )
        });
    }
}
