//! StatefulSets of a rollout group: their pods are not replaced by the StatefulSet controller, but by a rollout that
//! goes zone by zone and reports in the group's ZoneRollout when a zone is done.
//!
//! A set is healthy when each of its expected pods belongs to it, is Ready and is at `status.updateRevision`, and its
//! ZoneRollout confirms that for this set and revision. The counts in the set's status are never enough: they may be
//! outdated.

use muster_api::{
    evidence::Progress,
    kind::API_VERSION,
    labels::label::{CONTROLLER_REVISION, ROLLOUT_GROUP},
    names,
    zonerollout::PROGRESS_DEADLINE_EXCEEDED,
};
use serde_json::Value;

use super::{
    Health, evidence,
    fields::{condition, conditions, integer, integer_or, selector, string_at},
    generic,
    judged::{Judged, Zone},
};
use crate::{
    cluster::{CallError, Cluster},
    inventory::ObjectId,
};

/// The maximum number of pods read per set; a larger set is not rolled pod by pod.
const PODS: u16 = 5_000;

/// The rollout group of a live object, if it is a StatefulSet that belongs to one.
pub(super) fn group(live: &Value) -> Option<&str> {
    let is_set =
        string_at(live, "/apiVersion") == Some("apps/v1") && string_at(live, "/kind") == Some("StatefulSet");
    let labels = live.pointer("/metadata/labels").filter(|_| is_set)?;
    labels[ROLLOUT_GROUP].as_str()
}

/// Whether an object is a ZoneRollout whose `Stalled` reason is about one of its sets. The failure then counts for that
/// set, at the revision that the ZoneRollout gave up on: a Module that declares both, and now has another template,
/// does not fail because of the previous template.
pub(super) fn is_about_a_set(object: &Value, reason: &str) -> bool {
    string_at(object, "/apiVersion") == Some(API_VERSION)
        && string_at(object, "/kind") == Some("ZoneRollout")
        && reason == PROGRESS_DEADLINE_EXCEEDED
}

/// Reads the pods and the ZoneRollout of a set and determines its health. Objects that the server refuses to show count
/// as missing.
pub(super) async fn judge_zones(cluster: &Cluster, set: &Value, group: &str) -> Result<Judged, CallError> {
    let namespace = string_at(set, "/metadata/namespace").unwrap_or_default();
    let pods = match selector(set) {
        Some(selector) => {
            if_readable(cluster.pods(namespace, &selector, PODS.into()).await)?.unwrap_or_default()
        }
        None => Vec::new(),
    };
    let rollout = match cluster.kind(API_VERSION, "ZoneRollout").await? {
        Some(kind) => {
            let id = ObjectId {
                namespace: namespace.to_owned(),
                name: names::zone_rollout_name(group),
                group: muster_api::kind::GROUP.to_owned(),
                kind: "ZoneRollout".to_owned(),
            };
            if_readable(cluster.get(&kind, &id).await)?.flatten()
        }
        None => None,
    };
    Ok(of_group(set, &pods, rollout.as_ref()))
}

fn if_readable<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_of_cluster() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The health of a set by its pods and the ZoneRollout of its group.
fn of_group(set: &Value, pods: &[Value], rollout: Option<&Value>) -> Judged {
    let pods = Pods::of(set, pods);
    let not_observed = generic(set).or_else(|| not_observed(set));
    // Until then the status has the previous revision, and its pods do not count as progress.
    let done = if not_observed.is_none() { pods.done } else { 0 };
    let health = not_observed
        .or_else(|| rollout.and_then(|rollout| gave_up(set, rollout)))
        .or_else(|| pods.unfinished())
        .or_else(|| rollout.and_then(|rollout| not_done(set, rollout)))
        .unwrap_or_else(|| {
            Health::current(format!(
                "All pods are at the new revision. Replicas: {}",
                pods.wanted
            ))
        });
    let waiting = rollout
        .and_then(evidence::progress)
        .and_then(|progress| progress.waiting);
    let zone = Zone {
        has_rollout: rollout.is_some(),
        progress: Progress {
            done,
            total: pods.wanted,
            waiting,
        },
    };
    Judged {
        zone: Some(zone),
        ..health.into()
    }
}

fn not_observed(set: &Value) -> Option<Health> {
    let missing = ["/status/observedGeneration", "/status/updateRevision"]
        .into_iter()
        .find(|field| {
            set.pointer(field)
                .is_none_or(|value| value.is_null() || value == "")
        })?;
    let field = missing.trim_start_matches('/').replace('/', ".");
    Some(Health::in_progress(
        "NotObserved",
        format!("StatefulSet {field} not found"),
    ))
}

/// The expected pods of a set, and the first one that is not done.
struct Pods {
    wanted: u32,
    done: u32,
    first: Option<String>,
    revision: String,
}

impl Pods {
    /// The declared pods, and those that the set still has.
    fn of(set: &Value, pods: &[Value]) -> Self {
        let start = integer_or(set, "/spec/ordinals/start", 0);
        let declared = integer_or(set, "/spec/replicas", 1);
        let observed = integer_or(set, "/status/replicas", 0);
        let wanted = declared.max(observed).clamp(0, i64::from(PODS));
        let name = string_at(set, "/metadata/name").unwrap_or_default();
        let uid = string_at(set, "/metadata/uid");
        let revision = string_at(set, "/status/updateRevision").unwrap_or_default();
        let mut done = 0;
        let mut first = None;
        for ordinal in start..start.saturating_add(wanted) {
            let name = format!("{name}-{ordinal}");
            let pod = pods
                .iter()
                .find(|pod| string_at(pod, "/metadata/name") == Some(&name));
            match unfinished(pod, uid, revision) {
                None => done += 1,
                Some(why) => {
                    first.get_or_insert_with(|| format!("pod {name} {why}"));
                }
            }
        }
        Self {
            wanted: u32::try_from(wanted).unwrap_or_default(), // it was clamped
            done,
            first,
            revision: revision.to_owned(),
        }
    }

    fn unfinished(&self) -> Option<Health> {
        let first = self.first.as_ref()?;
        Some(Health::in_progress(
            "LessUpdated",
            format!(
                "{}/{} pods are Ready at revision {}: {first}",
                self.done, self.wanted, self.revision
            ),
        ))
    }
}

/// Why a pod is not done yet, if it is not.
fn unfinished(pod: Option<&Value>, set: Option<&str>, revision: &str) -> Option<String> {
    let Some(pod) = pod else {
        return Some("is missing".to_owned());
    };
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owned = owners.into_iter().flatten().any(|owner| {
        owner["controller"] == true && owner["kind"] == "StatefulSet" && owner["uid"].as_str() == set
    });
    let labels = pod.pointer("/metadata/labels");
    let at = labels.and_then(|labels| labels[CONTROLLER_REVISION].as_str());
    if !owned {
        Some("does not belong to this StatefulSet".to_owned())
    } else if pod.pointer("/metadata/deletionTimestamp").is_some() {
        Some("is being deleted".to_owned())
    } else if at != Some(revision) {
        Some(at.map_or_else(
            || "has no revision".to_owned(),
            |at| format!("is at revision {at}"),
        ))
    } else if condition(pod, "Ready").is_none_or(|ready| ready.status != "True") {
        Some("is not Ready".to_owned())
    } else {
        None
    }
}

/// The entry of a ZoneRollout for this set and revision, if there is one.
fn reported_set<'a>(set: &Value, rollout: &'a Value) -> Option<&'a Value> {
    let sets = rollout.pointer("/status/sets")?;
    let entry = sets.get(string_at(set, "/metadata/name")?)?;
    let is_of =
        |field: &str, own: &str| entry[field].is_string() && entry[field].as_str() == string_at(set, own);
    (is_of("uid", "/metadata/uid") && is_of("updateRevision", "/status/updateRevision")).then_some(entry)
}

/// The failure, if the rollout of the group is stalled. A report about an older revision or another set is ignored.
fn gave_up(set: &Value, rollout: &Value) -> Option<Health> {
    let entry = reported_set(set, rollout)?;
    let generation = integer(rollout, "/metadata/generation");
    if integer(rollout, "/status/observedGeneration") != generation {
        return None;
    }
    let stalled =
        conditions(rollout).find(|condition| (condition.kind, condition.status) == ("Stalled", "True"))?;
    if is_about_a_set(rollout, stalled.reason) && entry["condemned"] != true {
        return None;
    }
    Some(Health::stalled(
        stalled.reason,
        format!("{}: {}", rollout_label(rollout), stalled.message),
    ))
}

fn not_done(set: &Value, rollout: &Value) -> Option<Health> {
    let done = reported_set(set, rollout).is_some_and(|entry| entry["done"] == true);
    (!done).then(|| {
        Health::in_progress(
            "ZoneRolloutNotDone",
            format!(
                "{} has not finished this StatefulSet at revision {}",
                rollout_label(rollout),
                string_at(set, "/status/updateRevision").unwrap_or_default()
            ),
        )
    })
}

fn rollout_label(rollout: &Value) -> String {
    format!(
        "ZoneRollout {}",
        string_at(rollout, "/metadata/name").unwrap_or_default()
    )
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(more: Value) -> Value {
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db-a", "uid": "u", "generation": 2, "labels": {"rollout-group": "db"}},
            "spec": {"replicas": 2, "updateStrategy": {"type": "OnDelete"}},
            "status": {"observedGeneration": 2, "replicas": 2, "updateRevision": "r2", "currentRevision": "r1"},
        });
        json_patch(&mut set, more);
        set
    }

    fn pod(ordinal: u8, more: Value) -> Value {
        let mut pod = json!({
            "metadata": {
                "name": format!("db-a-{ordinal}"), "labels": {"controller-revision-hash": "r2"},
                "ownerReferences": [{"kind": "StatefulSet", "controller": true, "uid": "u"}],
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        json_patch(&mut pod, more);
        pod
    }

    fn rollout(of_set: Value, conditions: Value) -> Value {
        json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ZoneRollout", "metadata": {"name": "db-x", "generation": 1},
            "status": {
                "observedGeneration": 1, "conditions": conditions, "sets": {"db-a": of_set},
                "progress": {"done": 1, "total": 4, "waiting": "soak"},
            },
        })
    }

    /// Applies a JSON merge patch.
    fn json_patch(object: &mut Value, more: Value) {
        match (object, more) {
            (Value::Object(object), Value::Object(more)) => {
                for (key, value) in more {
                    json_patch(object.entry(key).or_insert(Value::Null), value);
                }
            }
            (object, more) => *object = more,
        }
    }

    #[track_caller]
    fn check(set: Value, pods: &[Value], rollout: Option<Value>, expect: &str, done: u32) {
        let judged = of_group(&set, pods, rollout.as_ref());
        let health = &judged.health;
        assert_eq!(format!("{}: {}", health.state.as_str(), health.message), expect);
        let zone = judged.zone.unwrap();
        assert_eq!(zone.progress.done, done);
        assert_eq!(zone.has_rollout, rollout.is_some());
    }

    const CURRENT: &str = "Current: All pods are at the new revision. Replicas: 2";

    #[test]
    fn each_pod_is_ready_at_the_new_revision() {
        let well = || pod(1, json!({}));
        let first = |why: &str| format!("InProgress: 1/2 pods are Ready at revision r2: pod db-a-0 {why}");
        check(set(json!({})), &[pod(0, json!({})), well()], None, CURRENT, 2);
        for (more, why) in [
            (
                json!({"metadata": {"labels": {"controller-revision-hash": "r1"}}}),
                "is at revision r1",
            ),
            (
                json!({"metadata": {"labels": {"controller-revision-hash": null}}}),
                "has no revision",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "t"}}),
                "is being deleted",
            ),
            (
                json!({"metadata": {"ownerReferences": [{"kind": "StatefulSet", "controller": true, "uid": "v"}]}}),
                "does not belong to this StatefulSet",
            ),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
                "is not Ready",
            ),
            (json!({"status": {"conditions": []}}), "is not Ready"),
            (json!({"metadata": {"name": "db-b-0"}}), "is missing"),
        ] {
            check(set(json!({})), &[pod(0, more), well()], None, &first(why), 1);
        }
        // A pod that is declared but not created yet, and one that is no longer declared but still exists.
        let missing = "InProgress: 2/3 pods are Ready at revision r2: pod db-a-2 is missing";
        let pods = [pod(0, json!({})), well()];
        check(set(json!({"spec": {"replicas": 3}})), &pods, None, missing, 2);
        check(
            set(json!({"spec": {"replicas": 1}, "status": {"replicas": 3}})),
            &pods,
            None,
            missing,
            2,
        );
        let started = json!({"spec": {"ordinals": {"start": 1}}});
        check(
            set(started),
            &pods,
            None,
            "InProgress: 1/2 pods are Ready at revision r2: pod db-a-2 is missing",
            1,
        );
    }

    #[test]
    fn the_set_was_observed() {
        let pods = [pod(0, json!({})), pod(1, json!({}))];
        for (status, expect) in [
            (
                json!({"observedGeneration": 1}),
                "InProgress: StatefulSet generation is 2, but latest observed generation is 1",
            ),
            (
                json!({"observedGeneration": null}),
                "InProgress: StatefulSet status.observedGeneration not found",
            ),
            (
                json!({"updateRevision": ""}),
                "InProgress: StatefulSet status.updateRevision not found",
            ),
        ] {
            let set = set(json!({ "status": status }));
            assert_eq!(
                {
                    let health = of_group(&set, &pods, None).health;
                    format!("{}: {}", health.state.as_str(), health.message)
                },
                expect
            );
        }
    }

    #[test]
    fn its_zone_rollout_is_done_with_this_set_and_revision() {
        let pods = [pod(0, json!({})), pod(1, json!({}))];
        let not_done = "InProgress: ZoneRollout db-x has not finished this StatefulSet at revision r2";
        let stalled = json!([{"type": "Stalled", "status": "True", "reason": "ProgressDeadlineExceeded", "message": "no pod became Ready"}]);
        for (of_set, conditions, expect) in [
            (
                json!({"uid": "u", "updateRevision": "r2", "done": true}),
                json!([]),
                CURRENT,
            ),
            (
                json!({"uid": "u", "updateRevision": "r2", "done": false}),
                json!([]),
                not_done,
            ),
            (
                json!({"uid": "u", "updateRevision": "r1", "done": true}),
                json!([]),
                not_done,
            ),
            (
                json!({"uid": "v", "updateRevision": "r2", "done": true}),
                json!([]),
                not_done,
            ),
            (json!(null), json!([]), not_done),
            (
                json!({"uid": "u", "updateRevision": "r2", "done": false, "condemned": true}),
                stalled.clone(),
                "Failed: ZoneRollout db-x: no pod became Ready",
            ),
            // A report about another set of the group.
            (
                json!({"uid": "u", "updateRevision": "r2", "done": false}),
                stalled.clone(),
                not_done,
            ),
            (
                json!({"uid": "u", "updateRevision": "r2", "done": true}),
                stalled.clone(),
                CURRENT,
            ),
            // A report about the previous revision.
            (
                json!({"uid": "u", "updateRevision": "r1", "done": false, "condemned": true}),
                stalled,
                not_done,
            ),
            // A report that is not about a set.
            (
                json!({"uid": "u", "updateRevision": "r2", "done": false}),
                json!([{"type": "Stalled", "status": "True", "reason": "NotOnDelete", "message": "a set is not OnDelete"}]),
                "Failed: ZoneRollout db-x: a set is not OnDelete",
            ),
        ] {
            check(
                set(json!({})),
                &pods,
                Some(rollout(of_set, conditions)),
                expect,
                2,
            );
        }
        let waiting = rollout(json!(null), json!([]));
        let zone = of_group(&set(json!({})), &pods, Some(&waiting)).zone.unwrap();
        assert_eq!(zone.progress.waiting.as_deref(), Some("soak"));
    }

    #[test]
    fn a_zone_rollout_is_not_failed_by_a_template_of_a_set() {
        let check = |reason: &str, expect: &str| {
            let stalled = json!([{"type": "Stalled", "status": "True", "reason": reason, "message": "m"}]);
            let health = super::super::health_of(&rollout(json!({}), stalled), jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(
                (health.state.as_str(), health.terminal),
                (expect, expect == "Failed"),
                "{reason}"
            );
        };
        check("ProgressDeadlineExceeded", "InProgress");
        check("NotOnDelete", "Failed");
    }
}
