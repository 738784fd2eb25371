//! Secrets without their values. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Replaces a value of a Secret.
pub const MASK: &str = "***";

/// An object before and after a change.
pub(super) struct Sides {
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Masks a Secret: an unchanged value is [`MASK`] on both sides; a changed one is marked with the side it is on.
pub(super) fn secret(sides: &mut Sides) {
    let (before, after) = (data(sides.before.as_ref()), data(sides.after.as_ref()));
    let changed: BTreeSet<&String> = before
        .iter()
        .filter(|(key, value)| after.get(*key).is_some_and(|after| after != *value))
        .map(|(key, _)| key)
        .collect();
    for (side, word) in [(&mut sides.before, "before"), (&mut sides.after, "after")] {
        for field in ["data", "stringData"] {
            match side.as_mut().and_then(|side| side.get_mut(field)) {
                Some(Value::Object(values)) => {
                    for (key, value) in values {
                        *value = Value::String(if changed.contains(key) {
                            format!("{MASK} ({word})")
                        } else {
                            MASK.to_owned()
                        });
                    }
                }
                // The server refuses it; its content must not be shown either.
                Some(other) => *other = Value::String(MASK.to_owned()),
                None => {}
            }
        }
    }
}

/// The values of a Secret by key. `stringData` is merged into `data` already, or is not text.
fn data(secret: Option<&Value>) -> Map<String, Value> {
    let data = secret.and_then(|secret| secret.get("data")?.as_object());
    data.cloned().unwrap_or_default()
}
