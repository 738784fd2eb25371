//! `fieldPath` of a rule: a path of members (`.spec.text`, `.map['key']`) that the schema must know.

use serde_json::Value;

/// The path as messages print it: properties after dots, keys of maps in brackets. `Err` if it is not a path into
/// `schema`.
pub(super) fn normal(path: &str, schema: &Value) -> Result<String, ()> {
    let mut printed = String::new();
    let mut schema = schema;
    let mut rest = path.trim();
    while !rest.is_empty() {
        let (name, after) = next_name(rest).ok_or(())?;
        rest = after;
        if let Some(properties) = schema.get("properties") {
            schema = properties.get(&name).ok_or(())?;
            if !printed.is_empty() {
                printed.push('.');
            }
            printed.push_str(&name);
        } else {
            schema = schema
                .get("additionalProperties")
                .filter(|schema| schema.is_object())
                .ok_or(())?;
            printed.push('[');
            printed.push_str(&name);
            printed.push(']');
        }
    }
    Ok(printed)
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
