//! `fieldPath` of a rule and `jsonPath` of a selectable field: a path of members (`.spec.text`, `.map['key']`) that
//! must exist in the schema.

use serde_json::Value;

/// The path as printed in messages: properties after dots, keys of maps in brackets. `Err` if it is not a path in
/// `schema`.
pub(super) fn normal(path: &str, schema: &Value) -> Result<String, ()> {
    let mut printed = String::new();
    let print = |step: Step<'_>| match step {
        Step::Property(name) if printed.is_empty() => printed.push_str(name),
        Step::Property(name) => printed.extend([".", name]),
        Step::Key(key) => printed.extend(["[", key, "]"]),
    };
    walk(path, schema, print).ok_or(())?;
    Ok(printed)
}

/// The schema at `path`; `None` if it is not a path in `schema`.
pub(crate) fn schema_at<'a>(path: &str, schema: &'a Value) -> Option<&'a Value> {
    walk(path, schema, |_| ())
}

/// A step of a path.
enum Step<'a> {
    /// A property.
    Property(&'a str),
    /// A key of a map.
    Key(&'a str),
}

fn walk<'a>(path: &str, mut schema: &'a Value, mut step: impl FnMut(Step<'_>)) -> Option<&'a Value> {
    let mut rest = path.trim();
    while !rest.is_empty() {
        let (name, after) = next_name(rest)?;
        rest = after;
        if let Some(properties) = schema.get("properties") {
            schema = properties.get(&name)?;
            step(Step::Property(&name));
        } else {
            schema = schema
                .get("additionalProperties")
                .filter(|schema| schema.is_object())?;
            step(Step::Key(&name));
        }
    }
    Some(schema)
}

fn next_name(rest: &str) -> Option<(String, &str)> {
    if let Some(rest) = rest.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        return Some((rest[..end].to_owned(), &rest[end..])).filter(|(name, _)| !name.is_empty());
    }
    let quoted = rest.strip_prefix("['")?;
    let mut name = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '\'' => return Some((name, quoted[index + 1..].strip_prefix(']')?)),
            other => name.push(other),
        }
    }
    None
}
