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
    /// Name and token are to be left of the row although its cluster still has what it says: a person gave that up.
    Abandon {
        /// The sync.
        name: String,
        /// The raised token.
        token: u64,
    },
}

impl Change {
    /// The token that the row gets; 0 if it is to be gone.
    pub fn token(&self) -> u64 {
        match self {
            Self::Put(row) => row.token.unwrap_or(0),
            Self::Fence { token, .. } | Self::Abandon { token, .. } => *token,
            Self::Remove { .. } => 0,
        }
    }

    /// Whether it stands in a row, or somebody with a greater token was there.
    pub fn stands(&self, row: Option<&SeenRow>) -> bool {
        let token = row.and_then(|row| row.token);
        match self {
            Self::Put(wanted) => row.is_some() && token >= wanted.token,
            Self::Fence { token: wanted, .. } | Self::Abandon { token: wanted, .. } => token >= Some(*wanted),
            Self::Remove { .. } => row.is_none(),
        }
    }
}

/// How a change is carried out on what was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The row is as wanted already, or somebody with a greater token was here.
    Nothing,
    /// Patch the assemblage; a failed test means: observe again.
    Patch(Patch),
    /// There is no such row: append this one.
    Append {
        /// The row.
        row: Box<SyncRow>,
        /// The uid of the Cluster for which that was decided: another of its name is not meant.
        cluster: String,
    },
    /// Take the row at this place out; a failed test means: observe again.
    Remove(usize, Patch),
}

/// The write for a change, given the row as seen. `cluster` is the uid of the Cluster as seen.
pub fn write(change: &Change, cluster: &str, seen: Option<&SeenRow>) -> Write {
    let append = |row: Box<SyncRow>| Write::Append {
        row,
        cluster: cluster.to_owned(),
    };
    match (change, seen) {
        (Change::Put(_) | Change::Fence { .. } | Change::Abandon { .. }, Some(_)) if change.stands(seen) => {
            Write::Nothing
        }
        (Change::Put(row), Some(seen)) => Write::Patch(tested(seen, replace(seen, "", json!(row)))),
        (Change::Put(row), None) => append(row.clone()),
        // `add` of a member sets it, whether it was there or not.
        (Change::Fence { token, .. }, Some(seen)) => {
            Write::Patch(tested(seen, add(seen, "token", json!(token))))
        }
        (Change::Abandon { name, token }, Some(seen)) => Write::Patch(tested(
            seen,
            replace(seen, "", json!(SyncRow::bare(name, *token))),
        )),
        (Change::Fence { name, token } | Change::Abandon { name, token }, None) => {
            append(Box::new(SyncRow::bare(name, *token)))
        }
        (Change::Remove { .. }, Some(seen)) => {
            let path = pointer(seen, "");
            let remove = PatchOperation::Remove(RemoveOperation { path });
            Write::Remove(seen.position, tested(seen, remove))
        }
        (Change::Remove { .. }, None) => Write::Nothing,
    }
}

/// An assemblage to which rows are appended: exactly this version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Its resourceVersion.
    pub version: &'a str,
    /// It has rows: without any there is no list to append to.
    pub has_rows: bool,
}

/// One patch that carries several writes out, all or none. Rows are changed where they stand, then appended, then taken out from the
/// last to the first: so no operation moves the place of another. Appending needs the assemblage as `seen`.
pub fn merged(writes: &[&Write], seen: Option<Seen<'_>>) -> Patch {
    let mut operations = Vec::new();
    let mut appended = Vec::new();
    let mut removed = Vec::new();
    for write in writes {
        match write {
            Write::Nothing => {}
            Write::Patch(patch) => operations.extend(patch.0.iter().cloned()),
            Write::Append { row, .. } => appended.push(&**row),
            Write::Remove(position, patch) => removed.push((*position, patch)),
        }
    }
    if let Some(seen) = seen {
        operations.insert(0, version(seen.version));
        operations.extend(appends(&appended, seen.has_rows));
    }
    removed.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
    operations.extend(removed.into_iter().flat_map(|(_, patch)| patch.0.iter().cloned()));
    Patch(operations)
}

fn version(version: &str) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
        value: json!(version),
    })
}

fn appends(rows: &[&SyncRow], has_rows: bool) -> Vec<PatchOperation> {
    let add = |path: PointerBuf, value: Value| PatchOperation::Add(AddOperation { path, value });
    if has_rows {
        let end = || PointerBuf::from_tokens(["spec", "syncs", "-"]);
        return rows.iter().map(|row| add(end(), json!(row))).collect();
    }
    if rows.is_empty() {
        return Vec::new();
    }
    vec![add(PointerBuf::from_tokens(["spec", "syncs"]), json!(rows))]
}

/// An operation on a row that is only carried out if its name and token are the ones seen.
fn tested(seen: &SeenRow, operation: PatchOperation) -> Patch {
    let test = |field: &str, value: Value| {
        PatchOperation::Test(TestOperation {
            path: pointer(seen, field),
            value,
        })
    };
    let mut all = vec![test("name", json!(seen.name))];
    // A row without a token (of another writer, or never ours) has nothing to test but its name.
    all.extend(seen.token.map(|token| test("token", json!(token))));
    all.push(operation);
    Patch(all)
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

    fn seen_at(position: usize, name: &str, token: Option<u64>) -> SeenRow {
        SeenRow {
            name: name.to_owned(),
            position,
            token,
            digest: None,
            print: 0,
            revision: None,
            asks: Asks::Carry,
            echo: None,
            assigned: muster_rollout::Row {
                token: muster_rollout::Token(0),
                content: muster_rollout::Content::Nothing,
            },
            reported: None,
        }
    }

    fn seen(token: Option<u64>) -> SeenRow {
        seen_at(2, "web", token)
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

    fn abandon(token: u64) -> Change {
        Change::Abandon {
            name: "web".to_owned(),
            token,
        }
    }

    fn remove() -> Change {
        Change::Remove {
            name: "web".to_owned(),
        }
    }

    fn lines(patch: &Patch) -> String {
        let line = |operation: &PatchOperation| json!(operation).to_string();
        patch.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn check(change: &Change, row: Option<&SeenRow>, expect: &str) {
        let said = match write(change, "uid", row) {
            Write::Nothing => "nothing".to_owned(),
            Write::Append { row, .. } => format!("append {}", json!(row)),
            Write::Patch(patch) | Write::Remove(_, patch) => lines(&patch),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn a_row_changes_only_from_the_name_and_token_that_were_seen() {
        let tests = "{\"op\":\"test\",\"path\":\"/spec/syncs/2/name\",\"value\":\"web\"}\n\
                     {\"op\":\"test\",\"path\":\"/spec/syncs/2/token\",\"value\":4}\n";
        let check =
            |change: &Change, expect: &str| check(change, Some(&seen(Some(4))), &format!("{tests}{expect}"));
        check(
            &put(5),
            "{\"op\":\"replace\",\"path\":\"/spec/syncs/2\",\"value\":{\"name\":\"web\",\"token\":5}}",
        );
        check(
            &fence(5),
            "{\"op\":\"add\",\"path\":\"/spec/syncs/2/token\",\"value\":5}",
        );
        check(
            &abandon(5),
            "{\"op\":\"replace\",\"path\":\"/spec/syncs/2\",\"value\":{\"name\":\"web\",\"token\":5}}",
        );
        check(&remove(), "{\"op\":\"remove\",\"path\":\"/spec/syncs/2\"}");
    }

    #[test]
    fn a_token_never_falls() {
        check(&put(5), Some(&seen(Some(5))), "nothing");
        check(&put(5), Some(&seen(Some(6))), "nothing");
        check(&fence(5), Some(&seen(Some(5))), "nothing");
        check(&fence(5), Some(&seen(Some(6))), "nothing");
        check(&abandon(5), Some(&seen(Some(5))), "nothing");
        check(&abandon(5), Some(&seen(Some(6))), "nothing");
    }

    #[test]
    fn an_absent_row_is_appended() {
        check(&put(5), None, "append {\"name\":\"web\",\"token\":5}");
        check(&fence(5), None, "append {\"name\":\"web\",\"token\":5}");
        check(&abandon(5), None, "append {\"name\":\"web\",\"token\":5}");
        check(&remove(), None, "nothing");
    }

    #[test]
    fn an_append_tests_the_version_of_the_whole_assemblage() {
        let row = write(&put(5), "uid", None);
        let check = |has_rows: bool, expect: &str| {
            let version = Seen {
                version: "77",
                has_rows,
            };
            let expect = format!(
                "{{\"op\":\"test\",\"path\":\"/metadata/resourceVersion\",\"value\":\"77\"}}\n{expect}"
            );
            assert_eq!(lines(&merged(&[&row], Some(version))), expect);
        };
        check(
            true,
            "{\"op\":\"add\",\"path\":\"/spec/syncs/-\",\"value\":{\"name\":\"web\",\"token\":5}}",
        );
        check(
            false,
            "{\"op\":\"add\",\"path\":\"/spec/syncs\",\"value\":[{\"name\":\"web\",\"token\":5}]}",
        );
    }

    #[test]
    fn merged_writes_do_not_move_each_others_rows() {
        let rows = ["a", "b", "c", "d"].map(|name| SyncRow::bare(name, 1));
        let seen = |position: usize| seen_at(position, &rows[position].name, Some(1));
        let named = |name: &str| name.to_owned();
        let writes = [
            write(&Change::Remove { name: named("a") }, "uid", Some(&seen(0))),
            write(&Change::Remove { name: named("c") }, "uid", Some(&seen(2))),
            write(&Change::Put(Box::new(SyncRow::bare("e", 9))), "uid", None),
            write(&Change::Put(Box::new(SyncRow::bare("f", 9))), "uid", None),
            write(
                &Change::Put(Box::new(SyncRow::bare("d", 9))),
                "uid",
                Some(&seen(3)),
            ),
            write(
                &Change::Fence {
                    name: named("b"),
                    token: 9,
                },
                "uid",
                Some(&seen(1)),
            ),
        ];
        let mut orders = vec![writes.iter().collect::<Vec<&Write>>()];
        orders.push(writes.iter().rev().collect());
        for order in orders {
            let mut object = json!({"metadata": {"resourceVersion": "7"}, "spec": {"syncs": rows}});
            let version = Seen {
                version: "7",
                has_rows: true,
            };
            json_patch::patch(&mut object, &merged(&order, Some(version))).unwrap();
            let mut left: Vec<String> = object["spec"]["syncs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| format!("{}{}", row["name"].as_str().unwrap(), row["token"]))
                .collect();
            left.sort();
            assert_eq!(left, ["b9", "d9", "e9", "f9"]);
        }
    }
}
