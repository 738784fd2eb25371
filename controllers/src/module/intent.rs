//! What is to become of one row, and the write that does it: pure.
//!
//! A row is changed by a JSON patch that tests its name and token as they were seen, and only if its token grows (W3): whoever
//! was faster, a stale view or a second leader makes the test fail instead of overwriting. A token never falls.

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use muster_api::assemblage::SyncRow;
use serde_json::{Value, json};

use super::rows::SeenRow;

/// A row as it is to be; its token is the intent's.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// The cluster, and its assemblage's name.
    pub cluster: String,
    /// What is to be done.
    pub change: Change,
}

/// What is to be done with a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The row is to be this, if its token is smaller.
    Put(Box<SyncRow>),
    /// The row's token is raised, its content stays.
    Fence {
        /// The sync.
        name: String,
        /// The raised token.
        token: u64,
    },
    /// The row is to be gone: the last step of a module's own deletion.
    Remove {
        /// The sync.
        name: String,
    },
    /// The row is to be gone although its cluster still has what it says: a person gave that up.
    Abandon {
        /// The sync.
        name: String,
    },
}

/// How a change is carried out on what was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The row is as wanted already, or somebody with a greater token was here.
    Nothing,
    /// Patch the assemblage; a failed test means: observe again.
    Patch(Patch),
    /// There is no such row: append this one.
    Append(Box<SyncRow>),
}

/// The write for a change, given the row as seen.
pub fn write(change: &Change, seen: Option<&SeenRow>) -> Write {
    match (change, seen) {
        (Change::Put(row), Some(seen)) if seen.token >= row.token => Write::Nothing,
        (Change::Put(row), Some(seen)) => tested(seen, [replace(seen, "", json!(row))]),
        (Change::Put(row), None) => Write::Append(row.clone()),
        (Change::Fence { token, .. }, Some(seen)) if seen.token >= Some(*token) => Write::Nothing,
        // `add` of a member sets it, whether it was there or not.
        (Change::Fence { token, .. }, Some(seen)) => tested(seen, [add(seen, "token", json!(token))]),
        (Change::Fence { name, token }, None) => Write::Append(Box::new(SyncRow::bare(name, *token))),
        (Change::Remove { .. } | Change::Abandon { .. }, Some(seen)) => tested(
            seen,
            [PatchOperation::Remove(RemoveOperation {
                path: pointer(seen, ""),
            })],
        ),
        (Change::Remove { .. } | Change::Abandon { .. }, None) => Write::Nothing,
    }
}

/// Appends a row to an assemblage of exactly this version.
pub fn append(row: &SyncRow, resource_version: &str, has_rows: bool) -> Patch {
    let version = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    let (path, value) = if has_rows {
        (PointerBuf::from_tokens(["spec", "syncs", "-"]), json!(row))
    } else {
        (PointerBuf::from_tokens(["spec", "syncs"]), json!([row]))
    };
    Patch(vec![
        PatchOperation::Test(TestOperation {
            path: version,
            value: json!(resource_version),
        }),
        PatchOperation::Add(AddOperation { path, value }),
    ])
}

/// Operations on a row that are only carried out if its name and token are the ones seen.
fn tested(seen: &SeenRow, operations: impl IntoIterator<Item = PatchOperation>) -> Write {
    let test = |field: &str, value: Value| {
        PatchOperation::Test(TestOperation {
            path: pointer(seen, field),
            value,
        })
    };
    let mut all = vec![test("name", json!(seen.name))];
    // A row without a token (of another writer, or never ours) has nothing to test but its name.
    all.extend(seen.token.map(|token| test("token", json!(token))));
    all.extend(operations);
    Write::Patch(Patch(all))
}

fn replace(seen: &SeenRow, field: &str, value: Value) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation {
        path: pointer(seen, field),
        value,
    })
}

fn add(seen: &SeenRow, field: &str, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(seen, field),
        value,
    })
}

/// The place of a row, or of one of its fields.
fn pointer(seen: &SeenRow, field: &str) -> PointerBuf {
    let position = seen.position.to_string();
    let mut pointer = PointerBuf::from_tokens(["spec", "syncs", &position]);
    if !field.is_empty() {
        pointer.push_back(field);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::rows::Asks;

    fn seen(token: Option<u64>) -> SeenRow {
        SeenRow {
            name: "web".to_owned(),
            position: 2,
            token,
            digest: None,
            revision: None,
            asks: Asks::Carry,
            echo: None,
        }
    }

    fn put(token: u64) -> Change {
        Change::Put(Box::new(SyncRow::bare("web", token)))
    }

    fn fence(token: u64) -> Change {
        Change::Fence {
            name: "web".to_owned(),
            token,
        }
    }

    fn check(change: &Change, row: Option<&SeenRow>, expect: &str) {
        let said = match write(change, row) {
            Write::Nothing => "nothing".to_owned(),
            Write::Append(row) => format!("append {}", json!(row)),
            Write::Patch(patch) => patch
                .iter()
                .map(|operation| json!(operation).to_string())
                .collect::<Vec<_>>()
                .join("\n"),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn a_row_changes_only_from_the_name_and_token_that_were_seen() {
        check(
            &put(5),
            Some(&seen(Some(4))),
            "{\"op\":\"test\",\"path\":\"/spec/syncs/2/name\",\"value\":\"web\"}\n\
             {\"op\":\"test\",\"path\":\"/spec/syncs/2/token\",\"value\":4}\n\
             {\"op\":\"replace\",\"path\":\"/spec/syncs/2\",\"value\":{\"name\":\"web\",\"token\":5}}",
        );
        check(
            &fence(5),
            Some(&seen(Some(4))),
            "{\"op\":\"test\",\"path\":\"/spec/syncs/2/name\",\"value\":\"web\"}\n\
             {\"op\":\"test\",\"path\":\"/spec/syncs/2/token\",\"value\":4}\n\
             {\"op\":\"add\",\"path\":\"/spec/syncs/2/token\",\"value\":5}",
        );
    }

    #[test]
    fn a_token_never_falls() {
        check(&put(5), Some(&seen(Some(5))), "nothing");
        check(&put(5), Some(&seen(Some(6))), "nothing");
        check(&fence(5), Some(&seen(Some(5))), "nothing");
        check(&fence(5), Some(&seen(Some(6))), "nothing");
    }

    #[test]
    fn an_absent_row_is_appended() {
        check(&put(5), None, "append {\"name\":\"web\",\"token\":5}");
        check(&fence(5), None, "append {\"name\":\"web\",\"token\":5}");
        check(
            &Change::Remove {
                name: "web".to_owned(),
            },
            None,
            "nothing",
        );
    }

    #[test]
    fn an_append_tests_the_version_of_the_whole_assemblage() {
        let patch = append(&SyncRow::bare("web", 5), "77", true);
        let said: Vec<String> = patch
            .iter()
            .map(|operation| json!(operation).to_string())
            .collect();
        assert_eq!(
            said,
            [
                "{\"op\":\"test\",\"path\":\"/metadata/resourceVersion\",\"value\":\"77\"}",
                "{\"op\":\"add\",\"path\":\"/spec/syncs/-\",\"value\":{\"name\":\"web\",\"token\":5}}",
            ]
        );
    }
}
