//! The writes of a module's rows: pure.
//!
//! A row is changed by a JSON patch that tests its observed name and token, and only if its token increases (W3): after
//! a concurrent write, with a stale view or with a second leader the test fails instead of overwriting. A token never
//! decreases.

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use muster_api::{
    assemblage::{SyncPhase, SyncRow, Withdraw},
    plan::PlanControl,
};
use muster_driver::{Change, NewContent, Planned};
use muster_rollout::{Digest, How, Token, UnitId};
use serde_json::{Value, json};

use super::{contents::Content, observation::Observation, rows::ObservedRow};

/// How a change is written, given what was observed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// Patch the assemblage; if a test fails, observe again.
    Patch(Patch),
    /// The row does not exist: append it.
    Append {
        /// The row to append.
        row: Box<SyncRow>,
        /// Uid of the Cluster that the decision was made for; another Cluster of that name must not get the row.
        cluster: String,
    },
    /// Remove the row at this index; if a test fails, observe again.
    Remove(usize, Patch),
}

/// The rows of a module, as they were observed.
pub(crate) struct Rows<'a> {
    /// The module's name, which is also that of its rows.
    pub module: &'a str,
    /// The observation.
    pub observed: &'a Observation,
}

impl muster_driver::Assignments for Rows<'_> {
    type Write = Write;

    fn token(&self, unit: &UnitId) -> Option<Token> {
        let row = self.observed.cluster(unit.as_str())?.row.as_deref()?;
        Some(row.engine_token())
    }

    fn knows(&self, unit: &UnitId, change: Change) -> bool {
        match change.then {
            NewContent::Assigned { digest, .. } => self.content(unit, digest).is_some(),
            NewContent::Withdrawn(_) | NewContent::Fenced | NewContent::Abandoned => true,
        }
    }

    /// The rows of a deleted module whose clusters have nothing of it any more.
    fn over(&self) -> Vec<UnitId> {
        let clusters = self.observed.clusters().iter().filter(|_| self.observed.deleting);
        let over = clusters.filter(|cluster| cluster.row.as_deref().is_some_and(ObservedRow::is_withdrawn));
        over.map(|cluster| cluster.name.as_str().into()).collect()
    }

    fn write(&self, planned: &Planned) -> Option<Write> {
        let cluster = self.observed.cluster(planned.unit.as_str());
        let row = cluster.and_then(|cluster| cluster.row.as_deref());
        let uid = cluster.map_or("", |cluster| &cluster.uid);
        let Some(change) = planned.change else {
            return row.map(removal);
        };
        let token = change.token.0;
        let content = match change.then {
            NewContent::Assigned { digest, .. } => {
                let content = self.content(&planned.unit, digest)?.row.clone();
                SyncRow {
                    token: Some(token),
                    attempt: row.and_then(|row| attempt(row, &content, token)),
                    ..content
                }
            }
            NewContent::Withdrawn(How::Prune) => SyncRow::withdrawal(self.module, token, Withdraw::Prune),
            NewContent::Withdrawn(How::Orphan) => SyncRow::withdrawal(self.module, token, Withdraw::Orphan),
            NewContent::Fenced | NewContent::Abandoned => SyncRow::bare(self.module, token),
        };
        Some(match row {
            Some(row) if change.then == NewContent::Fenced => raise(row, token),
            Some(row) => put(row, &content),
            None => append(content, uid),
        })
    }
}

impl Rows<'_> {
    fn content(&self, unit: &UnitId, digest: Digest) -> Option<&Content> {
        self.observed.view.units.contents.get(unit.as_str(), digest)
    }
}

/// The attempt number of the content, for a row with a plan: content that failed and is assigned again restarts its
/// plan. A new token over content that did not fail, as after the cluster was away, restarts nothing.
fn attempt(current: &ObservedRow, content: &SyncRow, token: u64) -> Option<u64> {
    content.package.as_ref()?.plan.as_ref()?;
    let is_same = current.digest == content.digest && current.digest.is_some();
    let failed = current.report.as_ref().is_some_and(|report| {
        report.phase == SyncPhase::Failed && report.digest == current.digest && report.token == current.token
    });
    if is_same && failed && current.token.is_none_or(|before| before < token) {
        Some(token)
    } else {
        current.attempt.filter(|_| is_same)
    }
}

/// The write of a plan's control into its row. The row's token and content stay the same.
pub(crate) fn control(current: &ObservedRow, control: &PlanControl) -> Write {
    Write::Patch(tested(current, add(current, "planControl", json!(control))))
}

/// Replaces the row.
fn put(current: &ObservedRow, row: &SyncRow) -> Write {
    Write::Patch(tested(current, replace(current, "", json!(row))))
}

/// Increases the row's token and keeps its content. `add` sets the member whether it exists or not.
fn raise(current: &ObservedRow, token: u64) -> Write {
    Write::Patch(tested(current, add(current, "token", json!(token))))
}

/// Appends a row. `cluster` is the uid of the observed Cluster.
fn append(row: SyncRow, cluster: &str) -> Write {
    Write::Append {
        row: Box::new(row),
        cluster: cluster.to_owned(),
    }
}

/// Removes the row: the last step of a module's deletion.
fn removal(current: &ObservedRow) -> Write {
    let path = pointer(current, "");
    let remove = PatchOperation::Remove(RemoveOperation { path });
    Write::Remove(current.position, tested(current, remove))
}

/// An assemblage to append rows to, at exactly this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendTarget<'a> {
    /// Its resourceVersion, tested by the patch.
    pub version: &'a str,
    /// Whether it has rows: otherwise there is no list to append to.
    pub has_rows: bool,
}

/// One patch for several writes, all or none. Rows are changed in place, then appended, then removed from the last to
/// the first, so that no operation moves the index of another. Appending needs the assemblage of `target` as it was
/// read.
pub(crate) fn merged(writes: &[&Write], target: Option<AppendTarget<'_>>) -> Patch {
    let mut operations = Vec::new();
    let mut appended = Vec::new();
    let mut removed = Vec::new();
    for write in writes {
        match write {
            Write::Patch(patch) => operations.extend(patch.0.iter().cloned()),
            Write::Append { row, .. } => appended.push(&**row),
            Write::Remove(position, patch) => removed.push((*position, patch)),
        }
    }
    if let Some(target) = target {
        operations.insert(0, version(target.version));
        operations.extend(appends(&appended, target.has_rows));
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

/// An operation on a row, guarded by tests of its observed name and token.
fn tested(current: &ObservedRow, operation: PatchOperation) -> Patch {
    let test = |field: &str, value: Value| {
        PatchOperation::Test(TestOperation {
            path: pointer(current, field),
            value,
        })
    };
    let mut all = vec![test("name", json!(current.name))];
    // A row without a token (another writer's) has only its name to test.
    all.extend(current.token.map(|token| test("token", json!(token))));
    all.push(operation);
    Patch(all)
}

fn replace(current: &ObservedRow, field: &str, value: Value) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation {
        path: pointer(current, field),
        value,
    })
}

fn add(current: &ObservedRow, field: &str, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(current, field),
        value,
    })
}

/// JSON pointer of a row, or of one of its fields.
fn pointer(current: &ObservedRow, field: &str) -> PointerBuf {
    let position = current.position.to_string();
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

    fn observed_row_at(position: usize, name: &str, token: Option<u64>) -> ObservedRow {
        ObservedRow {
            name: name.to_owned(),
            position,
            token,
            digest: None,
            print: 0,
            revision: None,
            asks: Asks::Carry,
            report: None,
            attempt: None,
            plan: false,
            control: None,
            assigned: muster_rollout::Assignment {
                token: muster_rollout::Token(0),
                content: muster_rollout::Content::Nothing,
            },
            reported: None,
        }
    }

    fn observed_row(token: Option<u64>) -> ObservedRow {
        observed_row_at(2, "web", token)
    }

    fn bare(token: u64) -> SyncRow {
        SyncRow::bare("web", token)
    }

    fn lines(patch: &Patch) -> String {
        let line = |operation: &PatchOperation| json!(operation).to_string();
        patch.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn check(write: &Write, expect: &str) {
        let text = match write {
            Write::Append { row, .. } => format!("append {}", json!(row)),
            Write::Patch(patch) | Write::Remove(_, patch) => lines(patch),
        };
        assert_eq!(text, expect);
    }

    #[test]
    fn a_row_is_patched_only_if_name_and_token_are_as_observed() {
        let tests = "{\"op\":\"test\",\"path\":\"/spec/syncs/2/name\",\"value\":\"web\"}\n\
                     {\"op\":\"test\",\"path\":\"/spec/syncs/2/token\",\"value\":4}\n";
        let check = |write: Write, expect: &str| check(&write, &format!("{tests}{expect}"));
        let current = observed_row(Some(4));
        check(
            put(&current, &bare(5)),
            "{\"op\":\"replace\",\"path\":\"/spec/syncs/2\",\"value\":{\"name\":\"web\",\"token\":5}}",
        );
        check(
            raise(&current, 5),
            "{\"op\":\"add\",\"path\":\"/spec/syncs/2/token\",\"value\":5}",
        );
        check(
            removal(&current),
            "{\"op\":\"remove\",\"path\":\"/spec/syncs/2\"}",
        );
    }

    /// The plan runs again only for content that failed here and is assigned again.
    #[test]
    fn an_attempt_rises_where_the_same_content_failed() {
        use crate::module::rows::Report;
        let content = |digest: &str, plan: bool| SyncRow {
            digest: Some(digest.to_owned()),
            package: Some(
                serde_json::from_value(json!({"plan": plan.then(|| json!({"file": "plan.yaml"}))})).unwrap(),
            ),
            ..SyncRow::default()
        };
        let check =
            |phase: SyncPhase, reported: u64, before: Option<u64>, content: &SyncRow, expect: Option<u64>| {
                let current = ObservedRow {
                    digest: Some("a".to_owned()),
                    attempt: before,
                    report: Some(Report {
                        digest: Some("a".to_owned()),
                        token: Some(reported),
                        phase,
                        reason: None,
                        message: None,
                        progress: None,
                        plan: None,
                        taken: None,
                    }),
                    ..observed_row(Some(4))
                };
                assert_eq!(
                    attempt(&current, content, 5),
                    expect,
                    "{phase:?} {reported} {before:?}"
                );
            };
        let same = content("a", true);
        check(SyncPhase::Failed, 4, None, &same, Some(5));
        check(SyncPhase::Failed, 4, Some(3), &same, Some(5));
        // An old fence, a cluster that was away, another content, a row without a plan.
        check(SyncPhase::Failed, 3, Some(2), &same, Some(2));
        check(SyncPhase::Succeeded, 4, Some(2), &same, Some(2));
        check(SyncPhase::Updating, 4, None, &same, None);
        check(SyncPhase::Failed, 4, Some(2), &content("b", true), None);
        check(SyncPhase::Failed, 4, None, &content("a", false), None);
    }

    #[test]
    fn a_row_without_a_token_is_tested_by_its_name() {
        check(
            &raise(&observed_row(None), 5),
            "{\"op\":\"test\",\"path\":\"/spec/syncs/2/name\",\"value\":\"web\"}\n\
             {\"op\":\"add\",\"path\":\"/spec/syncs/2/token\",\"value\":5}",
        );
    }

    #[test]
    fn an_append_tests_the_version_of_the_whole_assemblage() {
        let row = append(bare(5), "uid");
        let check = |has_rows: bool, expect: &str| {
            let version = AppendTarget {
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
        let current = |position: usize| observed_row_at(position, &rows[position].name, Some(1));
        let writes = [
            removal(&current(0)),
            removal(&current(2)),
            append(SyncRow::bare("e", 9), "uid"),
            append(SyncRow::bare("f", 9), "uid"),
            put(&current(3), &SyncRow::bare("d", 9)),
            raise(&current(1), 9),
        ];
        let mut orders = vec![writes.iter().collect::<Vec<&Write>>()];
        orders.push(writes.iter().rev().collect());
        for order in orders {
            let mut object = json!({"metadata": {"resourceVersion": "7"}, "spec": {"syncs": rows}});
            let version = AppendTarget {
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
