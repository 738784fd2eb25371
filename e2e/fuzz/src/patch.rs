//! Laws of patches: applying the difference of two values to the first yields the second, a patch that fails anywhere
//! fails as a whole, lists with keys keep items that are not named, and merge patch follows its RFC.

use arbitrary::{Result, Unstructured};
use muster_apiserver::patch::{self, PatchError};
use serde_json::{Map, Value, json};

use crate::json;

/// Types with and without lists that have keys, and one that does not exist.
const TYPES: [&str; 6] = [
    "core.v1.PodSpec",
    "apps.v1.Deployment",
    "meta.v1.ObjectMeta",
    "core.v1.Service",
    "core.v1.ConfigMap",
    "none.such",
];

/// The number of bytes that the real server lets `copy` add in one patch.
const MOST_COPIED: usize = 3 << 20;

/// The laws, for values and patches that are derived from the bytes.
pub fn check(bytes: &[u8]) {
    // The remaining bytes are not needed.
    let _ = json_patches(&mut Unstructured::new(bytes));
    let _ = merge_patches(&mut Unstructured::new(bytes));
    let _ = strategic_patches(&mut Unstructured::new(bytes));
}

fn json_patches(u: &mut Unstructured<'_>) -> Result<()> {
    let (one, other) = (json::value(u, false)?, json::value(u, false)?);
    let difference = json!(json_patch::diff(&one, &other));
    assert!(
        patch::json(&one, &difference).as_ref() == Ok(&other),
        "{one} and {difference} are not {other}"
    );
    let first = operations(u, &one)?;
    let patched = patch::json(&one, &json!(first));
    let second = operations(u, patched.as_ref().unwrap_or(&one))?;
    let both = patch::json(&one, &json!([first.clone(), second.clone()].concat()));
    if let Ok(patched) = &patched {
        assert!(
            both == patch::json(patched, &json!(second)),
            "{one}: {first:?}, then {second:?}: {both:?}"
        );
        assert!(
            patched.to_string().len() <= one.to_string().len() + json!(first).to_string().len() + MOST_COPIED
        );
        let last = json!({"op": "test", "path": "", "value": [patched]});
        let failing = json!([first, vec![last]].concat());
        assert!(
            patch::json(&one, &failing) == Err(PatchError::Rejected),
            "{one}: {failing}"
        );
    } else {
        assert!(
            both.is_err(),
            "{one}: {first:?} fails, and with {second:?} it does not"
        );
    }
    Ok(())
}

/// Operations, most of which fit the value.
pub(crate) fn operations(u: &mut Unstructured<'_>, value: &Value) -> Result<Vec<Value>> {
    let operation = |u: &mut Unstructured<'_>| {
        let op = *u.choose(&["add", "remove", "replace", "move", "copy", "test", "add", "bogus"])?;
        let path = pointer(u, value)?;
        Ok(match op {
            "move" | "copy" => json!({"op": op, "path": path, "from": pointer(u, value)?}),
            "remove" => json!({"op": op, "path": path}),
            _ => json!({"op": op, "path": path, "value": json::value(u, false)?}),
        })
    };
    (0..u.int_in_range(0..=5)?).map(|_| operation(u)).collect()
}

/// A path that exists in a value, or one that does not.
fn pointer(u: &mut Unstructured<'_>, value: &Value) -> Result<String> {
    let (mut pointer, mut at) = (String::new(), value);
    while u.ratio(3, 4)? {
        let token = match at {
            Value::Object(members) if !members.is_empty() && u.ratio(3, 4)? => {
                let names: Vec<&String> = members.keys().collect();
                (*u.choose(&names)?).clone()
            }
            Value::Array(items) if u.ratio(7, 8)? => u.int_in_range(0..=items.len())?.to_string(),
            _ => (*u.choose(&["-", "a", "name", "", "01", "-1", "~", "18446744073709551616"])?).to_owned(),
        };
        let below = match at {
            Value::Object(members) => members.get(&token),
            Value::Array(items) => token.parse().ok().and_then(|index: usize| items.get(index)),
            _ => None,
        };
        let escaped = if u.ratio(1, 16)? {
            token
        } else {
            token.replace('~', "~0").replace('/', "~1")
        };
        pointer = format!("{pointer}/{escaped}");
        let Some(below) = below else { break };
        at = below;
    }
    Ok(pointer)
}

fn merge_patches(u: &mut Unstructured<'_>) -> Result<()> {
    let (one, other) = (json::value(u, false)?, json::object(u, false)?);
    let merged = patch::merge_patch(&one, &other);
    let expected = merged_as_in_the_standard(&one, &other);
    assert!(
        merged.as_ref() == Ok(&expected),
        "{one} and {other} are {merged:?}, not {expected}"
    );
    assert!(
        patch::merge_patch(&expected, &other).as_ref() == Ok(&expected),
        "{other} is not idempotent on {one}"
    );
    let (from, to) = (json::object(u, false)?, without_nulls(&other));
    let difference = difference(&from, &to);
    assert!(
        patch::merge_patch(&from, &difference).as_ref() == Ok(&to),
        "{from} and {difference} are not {to}"
    );
    let refused = json::value(u, false)?;
    assert!(
        refused.is_object() || matches!(patch::merge_patch(&one, &refused), Err(PatchError::Malformed(_)))
    );
    Ok(())
}

/// RFC 7386, section 2.
fn merged_as_in_the_standard(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = target.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let before = target.get(name).cloned().unwrap_or_default();
            target.insert(name.clone(), merged_as_in_the_standard(&before, value));
        }
    }
    Value::Object(target)
}

/// The merge patch from `from` to `to`; it exists if `to` contains no null.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let gone = from
        .keys()
        .filter(|name| !to.contains_key(*name))
        .map(|name| (name.clone(), Value::Null));
    let changed = to.iter().filter(|(name, value)| from.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| {
        let was_object = from.get(name).is_some_and(Value::is_object);
        let below = if was_object {
            difference(&from[name], value)
        } else {
            value.clone()
        };
        (name.clone(), below)
    });
    Value::Object(gone.chain(changed).collect())
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

fn strategic_patches(u: &mut Unstructured<'_>) -> Result<()> {
    let ty = *u.choose(&TYPES)?;
    let object = json::object(u, false)?;
    let given = json::object(u, true)?;
    assert!(
        patch::strategic(&object, &json!({}), ty).as_ref() == Ok(&object),
        "{object} is changed by nothing"
    );
    let patched = patch::strategic(&object, &given, ty);
    if ty == "none.such" && is_plain(&given) {
        assert!(
            patched == patch::merge_patch(&object, &given),
            "{object} and {given}: {patched:?}"
        );
    }
    if let (Ok(patched), "core.v1.PodSpec", true) = (&patched, ty, is_plain_above(&given)) {
        for list in ["containers", "volumes", "imagePullSecrets"] {
            assert_keeps(list, &object, &given, patched);
        }
    }
    let bare = json::value(u, true)?;
    assert!(
        bare.is_object()
            || matches!(
                patch::strategic(&object, &bare, ty),
                Err(PatchError::Malformed(_))
            )
    );
    Ok(())
}

/// In a list with keys, every item that the patch does not name stays, and no item is duplicated.
fn assert_keeps(list: &str, object: &Value, given: &Value, patched: &Value) {
    let (Some(old), Some(new)) = (keys(&object[list]), keys(&given[list])) else {
        return;
    };
    let unique = |keys: &[&str]| {
        keys.iter()
            .enumerate()
            .all(|(index, key)| !keys[..index].contains(key))
    };
    if !unique(&old) || !unique(&new) || given[list].to_string().contains("$patch") {
        return;
    }
    let after = keys(&patched[list]);
    assert!(
        after.as_ref().is_some_and(|after| unique(after)),
        "{list}: {object} and {given}: {patched}"
    );
    let item = |of: &Value, key: &str| {
        of[list]
            .as_array()?
            .iter()
            .find(|item| item["name"] == key)
            .cloned()
    };
    for key in old {
        assert!(
            new.contains(&key) || item(patched, key) == item(object, key),
            "{list} {key:?}: {object} and {given}: {patched}"
        );
    }
    assert!(
        new.iter().all(|key| item(patched, key).is_some()),
        "{list}: {object} and {given}: {patched}"
    );
}

/// The keys of a list whose items all have one.
fn keys(list: &Value) -> Option<Vec<&str>> {
    list.as_array()?
        .iter()
        .map(|item| item.get("name")?.as_str())
        .collect()
}

/// A merge patch, if it has no directives and no lists.
fn is_plain(patch: &Value) -> bool {
    match patch {
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| !name.starts_with('$') && is_plain(value)),
        Value::Array(_) => false,
        _ => true,
    }
}

/// Whether a value has no directives.
fn is_plain_above(patch: &Value) -> bool {
    patch
        .as_object()
        .map(Map::keys)
        .is_some_and(|mut names| !names.any(|name| name.starts_with('$')))
}
