//! Patches of lists with named entries: only the entries that changed, each behind a test of what it replaces. Pure.
//!
//! In a list of a hundred entries one changes at a time. Sent as a whole, on the condition of a resourceVersion, it
//! would conflict with each write of any other field.
//! Invariant: an operation is applied only to the entry that it was decided for.

use std::collections::BTreeMap;

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation, jsonptr::PointerBuf,
};
use serde::Serialize;
use serde_json::Value;

/// The path of a field in an object.
pub type Path<'a> = &'a [&'a str];

/// A test that a value is the same as when the write was decided.
pub fn test(path: Path<'_>, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: pointer(path),
        value,
    })
}

/// Adds a value that did not exist, or appends to a list (`-`).
fn add(path: Path<'_>, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(path),
        value,
    })
}

/// The operations that change a field from one value to another.
pub fn field(path: Path<'_>, old: Option<&Value>, new: Option<&Value>) -> Vec<PatchOperation> {
    match (old, new) {
        (Some(old), Some(new)) if old != new => vec![
            test(path, old.clone()),
            PatchOperation::Replace(ReplaceOperation {
                path: pointer(path),
                value: new.clone(),
            }),
        ],
        (None, Some(new)) => vec![add(path, new.clone())],
        (Some(old), None) => vec![
            test(path, old.clone()),
            PatchOperation::Remove(RemoveOperation { path: pointer(path) }),
        ],
        (Some(_), Some(_)) | (None, None) => Vec::new(),
    }
}

/// A list entry that is identified by its name.
pub trait Entry: Serialize + PartialEq + Clone {
    /// Unique name in the list.
    fn name(&self) -> &str;
}

/// The operations that change one list to another. The order of entries has no meaning: new ones are appended. `None`
/// if an entry has no unique name, or the list was empty: nothing in an empty list can be tested, so a list added
/// meanwhile would be overwritten.
pub fn list<T: Entry>(path: Path<'_>, old: &[T], new: &[T]) -> Option<Vec<PatchOperation>> {
    by_name(old)?;
    let mut news = by_name(new)?;
    if old.is_empty() && !new.is_empty() {
        return None;
    }
    let value = |entry: &T| serde_json::to_value(entry).ok();
    let mut steps = Vec::new();
    // From the end, so that a removal does not move entries that are still to be tested.
    for (position, old) in old.iter().enumerate().rev() {
        let new = news.remove(old.name());
        if new == Some(old) {
            continue;
        }
        let position = position.to_string();
        let entry = [path, &[&position]].concat();
        let new = match new {
            Some(new) => Some(value(new)?),
            None => None,
        };
        steps.extend(field(&entry, Some(&value(old)?), new.as_ref()));
    }
    let end = [path, &["-"]].concat();
    for new in news.into_values() {
        steps.push(add(&end, value(new)?));
    }
    Some(steps)
}

/// The entries as the operations of [`list`] leave them: existing ones in place, new ones appended.
pub fn in_place<T: Entry>(before: &[T], wanted: &[T]) -> Vec<T> {
    let mut wanted: BTreeMap<&str, &T> = wanted.iter().map(|entry| (entry.name(), entry)).collect();
    let there: Vec<&T> = before
        .iter()
        .filter_map(|entry| wanted.remove(entry.name()))
        .collect();
    there.into_iter().chain(wanted.into_values()).cloned().collect()
}

fn by_name<T: Entry>(list: &[T]) -> Option<BTreeMap<&str, &T>> {
    let names: BTreeMap<&str, &T> = list.iter().map(|entry| (entry.name(), entry)).collect();
    (names.len() == list.len()).then_some(names)
}

fn pointer(path: Path<'_>) -> PointerBuf {
    PointerBuf::from_tokens(path.iter().copied())
}

#[cfg(test)]
mod tests {
    use json_patch::{Patch, patch};
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    struct Numbered {
        name: String,
        value: u8,
    }

    impl Entry for Numbered {
        fn name(&self) -> &str {
            &self.name
        }
    }

    fn entries(of: &[(&str, u8)]) -> Vec<Numbered> {
        let entry = |&(name, value): &(&str, u8)| Numbered {
            name: name.to_owned(),
            value,
        };
        of.iter().map(entry).collect()
    }

    fn lines(steps: &[PatchOperation]) -> Vec<String> {
        steps.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_changed_is_sent_and_tested() {
        let (old, new) = (
            entries(&[("a", 1), ("b", 1), ("c", 1)]),
            entries(&[("a", 1), ("b", 2), ("d", 1)]),
        );
        let steps = list(&["spec", "syncs"], &old, &new).unwrap();
        let expect = [
            r#"{"op":"test","path":"/spec/syncs/2","value":{"name":"c","value":1}}"#,
            r#"{"op":"remove","path":"/spec/syncs/2"}"#,
            r#"{"op":"test","path":"/spec/syncs/1","value":{"name":"b","value":1}}"#,
            r#"{"op":"replace","path":"/spec/syncs/1","value":{"name":"b","value":2}}"#,
            r#"{"op":"add","path":"/spec/syncs/-","value":{"name":"d","value":1}}"#,
        ];
        assert_eq!(lines(&steps), expect);
    }

    #[test]
    fn entries_of_one_name_are_not_changed_one_by_one() {
        assert_eq!(list(&["l"], &entries(&[("a", 1), ("a", 2)]), &[]), None);
        assert_eq!(
            list(&["l"], &entries(&[("a", 1)]), &entries(&[("b", 1), ("b", 2)])),
            None
        );
    }

    #[test]
    fn what_came_into_an_empty_list_meanwhile_is_not_overwritten() {
        assert_eq!(list(&["l"], &[], &entries(&[("a", 1)])), None);
        assert_eq!(list::<Numbered>(&["l"], &[], &[]), Some(Vec::new()));
    }

    fn some() -> impl Strategy<Value = Vec<Numbered>> {
        let entries = proptest::collection::btree_map("[a-e]", 0_u8..3, 0..5);
        let shuffled = entries
            .prop_map(|all| all.into_iter().collect::<Vec<_>>())
            .prop_shuffle();
        shuffled.prop_map(|all| {
            let entry = |(name, value)| Numbered { name, value };
            all.into_iter().map(entry).collect()
        })
    }

    fn sorted(list: &[Numbered]) -> Vec<Numbered> {
        let mut all = list.to_vec();
        all.sort();
        all
    }

    proptest! {
        #[test]
        fn the_steps_lead_from_any_list_to_any_other(old in some(), new in some()) {
            let Some(steps) = list(&["list"], &old, &new) else {
                prop_assert!(old.is_empty() && !new.is_empty());
                return Ok(());
            };
            let mut object = json!({"list": old});
            patch(&mut object, &Patch(steps.clone())).unwrap();
            let after: Vec<Numbered> = serde_json::from_value(object["list"].take()).unwrap();
            prop_assert_eq!(sorted(&after), sorted(&new));
            prop_assert_eq!(after, in_place(&old, &new));
            prop_assert_eq!(steps.is_empty(), sorted(&old) == sorted(&new));
        }

        #[test]
        fn no_step_is_carried_out_on_another_entry(old in some(), new in some(), meanwhile in some()) {
            let Some(steps) = list(&["list"], &old, &new) else {
                return Ok(());
            };
            let mut object = json!({"list": meanwhile});
            let done = patch(&mut object, &Patch(steps.clone())).is_ok();
            // If it was applied, every entry that it replaced or removed was as expected.
            let stood = steps.iter().all(|step| match step {
                PatchOperation::Test(test) => json!({"list": meanwhile}).pointer(test.path.as_str()) == Some(&test.value),
                _ => true,
            });
            prop_assert!(!done || stood);
        }
    }
}
