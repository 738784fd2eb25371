//! The JSONPath of print columns: `.spec.a`, `['a.b']`, `[0]`, `[-1]`, `[*]`, `[?(@.type=="Ready")]`, `..['a','b']`,
//! `\.` in names.

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Several fields, in this order.
    Fields(Vec<String>),
    Index(i64),
    All,
    /// The value itself and all below it.
    Below,
    Filter {
        path: Vec<Self>,
        equal: bool,
        value: Value,
    },
    Exists(Vec<Self>),
}

/// The values at the path; empty if the path is invalid.
pub(crate) fn values_at<'a>(root: &'a Value, path: &str) -> Vec<&'a Value> {
    parse(path)
        .map(|steps| walk(vec![root], &steps))
        .unwrap_or_default()
}

/// The path without its leading dot, as in field selectors.
pub(crate) fn dotted(path: &str) -> &str {
    path.trim_start_matches('.')
}

/// A value as text of a table cell.
pub(crate) fn cell_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn walk<'a>(mut values: Vec<&'a Value>, steps: &[Step]) -> Vec<&'a Value> {
    for step in steps {
        values = values.into_iter().flat_map(|value| take(value, step)).collect();
    }
    values
}

fn take<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Fields(names) => names.iter().filter_map(|name| value.get(name)).collect(),
        Step::Below => below(value),
        Step::Index(index) => item(value, *index).into_iter().collect(),
        Step::All => children(value),
        Step::Filter {
            path,
            equal,
            value: wanted,
        } => {
            let holds = |child: &&Value| walk(vec![child], path).contains(&wanted) == *equal;
            children(value).into_iter().filter(holds).collect()
        }
        Step::Exists(path) => children(value)
            .into_iter()
            .filter(|child| !walk(vec![child], path).is_empty())
            .collect(),
    }
}

fn item(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let index = if index < 0 {
        i64::try_from(items.len()).ok()? + index
    } else {
        index
    }; // lists fit in i64
    items.get(usize::try_from(index).ok()?) // before the start: nothing
}

fn below(value: &Value) -> Vec<&Value> {
    let deeper = children(value).into_iter().flat_map(below);
    [value].into_iter().chain(deeper).collect()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    rest = rest.strip_prefix('$').unwrap_or(rest);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        } else if let Some(tail) = rest.strip_prefix("..") {
            steps.push(Step::Below);
            rest = tail;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, tail) = field(rest);
            if name == "*" {
                steps.push(Step::All);
            } else if !name.is_empty() {
                steps.push(Step::Field(name));
            }
            rest = tail;
        }
    }
    Some(steps)
}

/// The end of a bracket, not counting those within quotes or other brackets.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0usize, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Some(at),
            (']', None) => depth -= 1,
            _ => {}
        }
    }
    None
}

fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    let names: Option<Vec<String>> = text.split(',').map(|name| unquoted(name.trim())).collect();
    match names {
        Some(names) if names.len() > 1 => return Some(Step::Fields(names)),
        Some(_) | None => {}
    }
    if let Some(name) = unquoted(text) {
        return Some(Step::Field(name));
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter(condition.trim());
    }
    text.parse().ok().map(Step::Index) // not a number: not a path
}

fn unquoted(text: &str) -> Option<String> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'')
        .or_else(|| inner('"'))
        .map(|name| name.replace("\\.", "."))
}

fn filter(condition: &str) -> Option<Step> {
    let (left, right, equal) = match (condition.split_once("=="), condition.split_once("!=")) {
        (Some((left, right)), _) => (left, right, true),
        (None, Some((left, right))) => (left, right, false),
        (None, None) => return Some(Step::Exists(parse(condition.strip_prefix('@')?)?)),
    };
    let path = parse(left.trim().strip_prefix('@')?)?;
    let right = right.trim();
    let value = match unquoted(right) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(right).ok()?, // not a value: not a path
    };
    Some(Step::Filter { path, equal, value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(path: &str, expect: &Value) {
        let object = json!({
            "spec": {"a": 1, "list": [{"n": "x"}, {"n": "y"}], "a.b": "dot"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]},
        });
        assert_eq!(json!(values_at(&object, path)), *expect, "{path}");
    }

    #[test]
    fn paths() {
        check(".spec.a", &json!([1]));
        check("$.spec.a", &json!([1]));
        check(".spec.none", &json!([]));
        check(".spec.list[0].n", &json!(["x"]));
        check(".spec.list[-1].n", &json!(["y"]));
        check(".spec.list[*].n", &json!(["x", "y"]));
        check(".spec['a.b']", &json!(["dot"]));
        check(".spec.a\\.b", &json!(["dot"]));
        check(
            ".status.conditions[?(@.type==\"Ready\")].status",
            &json!(["True"]),
        );
        check(".status.conditions[?(@.type=='Ready')].status", &json!(["True"]));
        check(".status.conditions[?(@.type!='Ready')].status", &json!(["False"]));
        check(".status.conditions[?(@.type", &json!([]));
        check(".spec..n", &json!(["x", "y"]));
        check(".spec..['n','a']", &json!([1, "x", "y"]));
        check(
            ".status.conditions[0]['status', 'type']",
            &json!(["True", "Ready"]),
        );
    }
}
