//! CEL rules (`x-kubernetes-validations`): parsing and validation ([`check`]). Their evaluation: [`super::evaluate`].
//!
//! Expressions are parsed once per schema.

mod declared;
mod field_path;
mod members;
mod names;
mod optional;
mod passed;

use std::collections::BTreeSet;

use kube_cel::cel::parser::{Expression, Parser};
use serde_json::{Map, Value, json};

pub(crate) use field_path::schema_at as member_at;
pub(super) use names::escaped;
pub(crate) use passed::Passed;

use super::cause::{Cause, go_json, reason};

/// One rule with its parsed expressions.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) text: String,
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
    /// Relative to the node, as printed: `text`, `map[key]`.
    pub(super) field_path: Option<String>,
    pub(super) uses_old: bool,
    pub(super) optional_old: bool,
    /// The members of the value that the rule and its message use; `None`: the whole value.
    pub(super) members: Option<BTreeSet<String>>,
}

impl Rule {
    /// Parses a rule of a node with the given `schema`; `None` if it is invalid ([`check`] has rejected it).
    pub(super) fn read(rule: &Value, schema: &Value) -> Option<Self> {
        let text = text(rule, "rule").trim();
        // `check` has reported both errors.
        let expression = parse(text).ok()?;
        let message_expression =
            Some(self::text(rule, "messageExpression").trim()).filter(|text| !text.is_empty());
        let field_path = Some(self::text(rule, "fieldPath")).filter(|path| !path.is_empty());
        let message_expression = message_expression.and_then(|text| parse(text).ok());
        let expressions = [Some(&expression), message_expression.as_ref()];
        Some(Self {
            text: text.to_owned(),
            uses_old: uses_old(&expression),
            members: members::selected_members(expressions.into_iter().flatten()),
            expression: evaluable(expression),
            message: self::text(rule, "message").trim().to_owned(),
            message_expression: message_expression.map(evaluable),
            reason: self::text(rule, "reason").to_owned(),
            field_path: field_path.and_then(|path| field_path::normal(path, schema).ok()),
            optional_old: rule
                .get("optionalOldSelf")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        })
    }

    /// The rule as named in messages.
    pub(super) fn name(&self) -> &str {
        if self.message.is_empty() {
            &self.text
        } else {
            &self.message
        }
    }
}

/// Causes for the invalid rules of `schema` and below; fields start with `path`.
pub(super) fn check(schema: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    check_node(schema, None, true, path, causes);
}

/// `uncorrelated` is the outermost list around the node whose items do not correlate with old ones.
fn check_node(
    schema: &Map<String, Value>,
    uncorrelated: Option<&str>,
    root: bool,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for (index, rule) in rules.enumerate() {
        let at = format!("{path}.x-kubernetes-validations[{index}]");
        let before = causes.len();
        check_texts(rule, &at, causes);
        if causes.len() == before {
            check_expressions(rule, schema, uncorrelated, root, &at, causes);
        }
    }
    if let Some(Value::Object(items)) = schema.get("items") {
        let correlated = schema.get("x-kubernetes-list-type") == Some(&json!("map"));
        let inner = uncorrelated.or_else(|| (!correlated).then_some(path));
        check_node(items, inner, false, &format!("{path}.items"), causes);
    }
    if let Some(Value::Object(additional)) = schema.get("additionalProperties") {
        check_node(
            additional,
            uncorrelated,
            false,
            &format!("{path}.additionalProperties"),
            causes,
        );
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Value::Object(property) = property {
            check_node(
                property,
                uncorrelated,
                false,
                &format!("{path}.properties[{name}]"),
                causes,
            );
        }
    }
}

fn check_texts(rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (message, expression) = (text(rule, "message"), text(rule, "rule").trim());
    if expression.is_empty() {
        causes.push(Cause::required(format!("{at}.rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        causes.push(Cause::invalid(
            format!("{at}.message"),
            &json!(message),
            "must be non-empty if specified",
        ));
    } else if message.trim().contains('\n') {
        causes.push(Cause::invalid(
            format!("{at}.message"),
            &json!(message),
            "must not contain line breaks",
        ));
    } else if expression.contains('\n') && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(format!("{at}.message"), detail));
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(format!("{at}.messageExpression"), detail));
    }
    let reasons = [
        reason::DUPLICATE,
        reason::FORBIDDEN,
        reason::INVALID,
        reason::REQUIRED,
    ]
    .map(str::to_owned);
    let given = text(rule, "reason");
    if !given.is_empty() && !reasons.iter().any(|known| known == given) {
        causes.push(Cause::not_supported(
            format!("{at}.reason"),
            &json!(given),
            &reasons,
        ));
    }
}

fn check_expressions(
    rule: &Value,
    schema: &Map<String, Value>,
    uncorrelated: Option<&str>,
    root: bool,
    at: &str,
    causes: &mut Vec<Cause>,
) {
    let field_path = text(rule, "fieldPath");
    if !field_path.is_empty() && field_path::normal(field_path, &Value::Object(schema.clone())).is_err() {
        causes.push(Cause::invalid(
            format!("{at}.fieldPath"),
            &json!(field_path),
            "must be a valid path",
        ));
    }
    let compiled = |name: &str| -> Result<Expression, Cause> {
        let source = text(rule, name).trim();
        let problem = match parse(source) {
            Ok(expression) => match declared::check(&expression, source, schema, root) {
                None => return Ok(expression),
                Some(problem) => problem,
            },
            Err(problem) => problem,
        };
        let kind = if name == "rule" {
            "compilation failed"
        } else {
            "messageExpression compilation failed"
        };
        let text = format!("Invalid value: {}: {kind}: {problem}", as_go_struct(rule));
        Err(Cause::new(reason::INVALID, format!("{at}.{name}"), text))
    };
    if !text(rule, "messageExpression").trim().is_empty()
        && let Err(cause) = compiled("messageExpression")
    {
        causes.push(cause);
    }
    let uses_old = match compiled("rule") {
        Ok(expression) => uses_old(&expression),
        Err(cause) => return causes.push(cause),
    };
    if let (true, Some(path)) = (uses_old, uncorrelated) {
        let detail =
            format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
        causes.push(Cause::invalid(
            format!("{at}.rule"),
            &json!(text(rule, "rule")),
            &detail,
        ));
    }
    if let (false, Some(optional)) = (uses_old, rule.get("optionalOldSelf")) {
        let detail = "may not be set if oldSelf is not used in rule";
        causes.push(Cause::invalid(format!("{at}.optionalOldSelf"), optional, detail));
    }
}

/// The rule as Go prints its struct: in the order of its fields.
fn as_go_struct(rule: &Value) -> String {
    let or_null = |key: &str| rule.get(key).cloned().unwrap_or_default();
    let members = [
        ("Rule", json!(text(rule, "rule"))),
        ("Message", json!(text(rule, "message"))),
        ("MessageExpression", json!(text(rule, "messageExpression"))),
        ("Reason", or_null("reason")),
        ("FieldPath", json!(text(rule, "fieldPath"))),
        ("OptionalOldSelf", or_null("optionalOldSelf")),
    ];
    let members = members.map(|(name, value)| format!("{name:?}:{}", go_json(&value)));
    format!("{{{}}}", members.join(","))
}

/// Parses an expression.
pub(super) fn parse(source: &str) -> Result<Expression, String> {
    Parser::default()
        .enable_optional_syntax(true)
        .parse(source)
        .map_err(|error| error.to_string())
}

/// Rewrites the expression for the evaluator.
pub(super) fn evaluable(mut expression: Expression) -> Expression {
    optional::rewrite(&mut expression);
    expression
}

fn uses_old(expression: &Expression) -> bool {
    expression.references().has_variable("oldSelf")
}

fn text<'a>(rule: &'a Value, key: &str) -> &'a str {
    rule.get(key).and_then(Value::as_str).unwrap_or_default()
}
