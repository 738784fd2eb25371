//! Secrets without their values. Pure.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// What stands in the place of a value of a Secret.
pub const MASK: &str = "***";

/// An object before and after a change.
pub(super) struct Sides {
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Masks a Secret: a value that stays is [`MASK`] on both sides; one that changes says on which side it stands.
pub(super) fn secret(sides: &mut Sides) {
    for side in [&mut sides.before, &mut sides.after].into_iter().flatten() {
        merge_strings(side);
    }
    let empty = Map::new();
    let of = |side: &Option<Value>| {
        side.as_ref()
            .and_then(|side| side.get("data")?.as_object())
            .unwrap_or(&empty)
            .clone()
    };
    let (before, after) = (of(&sides.before), of(&sides.after));
    let changed: BTreeSet<&String> = before
        .keys()
        .filter(|key| {
            after
                .get(*key)
                .is_some_and(|value| before.get(*key) != Some(value))
        })
        .collect();
    for (side, word) in [(&mut sides.before, "before"), (&mut sides.after, "after")] {
        let Some(data) = side.as_mut().and_then(|side| side.get_mut("data")) else {
            continue;
        };
        match data.as_object_mut() {
            Some(data) => data.iter_mut().for_each(|(key, value)| {
                *value = Value::String(if changed.contains(key) {
                    format!("{MASK} ({word})")
                } else {
                    MASK.to_owned()
                });
            }),
            // No server takes it; what it holds is nobody's business either.
            None => *data = Value::String(MASK.to_owned()),
        }
    }
}

/// Puts `stringData` into `data`, as the server does.
fn merge_strings(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else {
        return;
    };
    let Some(strings) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    match (data.as_object_mut(), strings) {
        (Some(data), Value::Object(strings)) => {
            for (key, value) in strings {
                let encoded = value
                    .as_str()
                    .map(|text| STANDARD.encode(text))
                    .unwrap_or_default();
                data.insert(key, Value::String(encoded));
            }
        }
        _ => *data = Value::String(MASK.to_owned()),
    }
}
