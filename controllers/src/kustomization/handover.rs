//! If Flux reconciles: fields that the built-in sync applied before become Flux's, so that a field which a later
//! revision drops is removed.
//!
//! ```text
//!   Kustomization ─► decide: which objects of its inventory to check ─► hand_over, in its cluster ─► recorded, reported, retried
//! ```
//!
//! It may run before or after Flux: whichever applies next finds the fields owned by Flux. The opposite direction needs
//! nothing: the built-in sync takes over fields when it applies.
//!
//! Invariant: an object is checked once for each Kustomization and start, and again only if that failed; if the
//! built-in sync never applied the Kustomization, not at all. Invariant: the Kustomization itself is not written: it is
//! Flux's. Problems are reported by events and the log.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::Store};
use muster_api::{
    flux::Kustomization,
    labels::{SYSTEM_NAMESPACE, manager},
};
use muster_sync::{
    apply::{self, HandedOver, Heir, ObjectFailure, Owner, error::summary},
    inventory::{Inventory, ObjectId},
};
use parking_lot::Mutex;
use tracing::{info, warn};

use super::{Error, WORKERS, settings, targets::Targets};
use crate::{
    reconcile::{Context, Runner},
    runtime::{Action, Api, Event, Key, call},
};

/// The first wait before a failure is retried.
const RETRY_MIN: Duration = Duration::from_mins(1);

/// The longest wait before a failure is retried: what is forbidden may be so forever.
const RETRY_MAX: Duration = Duration::from_hours(1);

/// When there are this many more entries than objects, the entries of deleted objects are dropped.
const SLACK: usize = 64;

/// Objects of an inventory, each with the API version that it was last applied with.
type Objects = Vec<(ObjectId, String)>;

/// The dependencies of a handover.
struct Handover {
    context: Context,
    /// The name of this process's ServiceAccount as installed.
    account: &'static str,
    store: Store<Kustomization>,
    targets: Targets,
    checked: Mutex<BTreeMap<Key, CheckedSet>>,
}

/// The result of the checks of a Kustomization since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CheckedSet {
    uid: String,
    /// The time of the first check.
    since: Timestamp,
    /// The objects that failed; they are retried at `due`.
    left: Objects,
    due: Timestamp,
    /// Whether an event asked for the missing permission.
    requested: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// Nothing to do until something changes.
    Nothing,
    /// The retry of failed objects is not due before this time.
    Wait { until: Timestamp },
    /// These objects must be checked.
    Look(Objects),
}

/// Hands over until the context's shutdown. `account` is the ServiceAccount of this process.
pub async fn hand_over(context: Context, account: &'static str) {
    let runner = Runner::<Kustomization>::new("handover", &context).workers(WORKERS);
    let handover = Arc::new(Handover {
        store: runner.store(),
        targets: Targets::new(&context),
        checked: Mutex::default(),
        context,
        account,
    });
    runner.run(handover, reconcile).await;
}

async fn reconcile(object: Arc<Kustomization>, handover: Arc<Handover>) -> Result<Action, Error> {
    let _turn = handover.targets.turn(&object).await;
    let key = Key::of(&*object);
    let before = handover.checked.lock().get(&key).cloned();
    let objects = match decide(&object, before.as_ref(), handover.context.clock.now()) {
        Decision::Nothing => return Ok(Action::await_change()),
        Decision::Wait { until } => return Ok(Action::requeue(handover.until(until))),
        Decision::Look(objects) => objects,
    };
    let before = before.filter(|checked| Some(&checked.uid) == object.meta().uid.as_ref());
    if before.is_none() && !handover.was_ours(&key).await? {
        let nothing = HandedOver::default();
        let checked = after(&object, None, objects, &nothing, handover.context.clock.now());
        handover.remember(&key, checked);
        return Ok(Action::await_change());
    }
    let handed = handover.hand_over_objects(&object, &objects).await;
    let again = before.is_some();
    let mut checked = after(&object, before, objects, &handed, handover.context.clock.now());
    handover.remember(&key, checked.clone());
    if !handed.objects.is_empty() || (again && checked.left.is_empty()) {
        handover.publish_result(&object, &handed).await;
    }
    warn_of(&key, &handed.failures);
    if !checked.requested && handover.request_permission(&object, &handed.failures).await {
        checked.requested = true;
        handover.remember(&key, checked.clone());
    }
    Ok(if checked.left.is_empty() {
        Action::await_change()
    } else {
        Action::requeue(handover.until(checked.due))
    })
}

/// Which objects to check. Pure.
fn decide(object: &Kustomization, checked: Option<&CheckedSet>, now: Timestamp) -> Decision {
    let inventory = Inventory::from_status(
        object
            .status
            .as_ref()
            .and_then(|status| status.inventory.as_ref()),
    );
    // What the built-in sync cannot reach was not applied by it.
    let unreachable = object.spec.kube_config.is_some() && settings::remote(&object.spec).is_none();
    if inventory.is_empty() || unreachable || object.meta().deletion_timestamp.is_some() {
        return Decision::Nothing;
    }
    match checked.filter(|checked| Some(&checked.uid) == object.meta().uid.as_ref()) {
        None => Decision::Look(
            inventory
                .iter()
                .map(|(id, version)| (id.clone(), version.to_owned()))
                .collect(),
        ),
        Some(checked) if checked.left.is_empty() => Decision::Nothing,
        Some(checked) if now < checked.due => Decision::Wait { until: checked.due },
        Some(checked) => Decision::Look(checked.left.clone()),
    }
}

/// The state after a check of `objects`. The longer something has failed already, the longer the wait. Pure.
fn after(
    object: &Kustomization,
    before: Option<CheckedSet>,
    objects: Objects,
    handed: &HandedOver,
    now: Timestamp,
) -> CheckedSet {
    let uid = object.uid().unwrap_or_default();
    let before = before.filter(|before| before.uid == uid);
    let since = before.as_ref().map_or(now, |before| before.since);
    let failed: BTreeSet<&ObjectId> = handed.failures.iter().map(|failure| &failure.id).collect();
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    CheckedSet {
        uid,
        since,
        left: objects
            .into_iter()
            .filter(|(id, _)| failed.contains(id))
            .collect(),
        // Only a wait of thousands of years could exceed the range of timestamps.
        due: now
            .checked_add(elapsed.clamp(RETRY_MIN, RETRY_MAX))
            .unwrap_or(Timestamp::MAX),
        requested: before.is_some_and(|before| before.requested),
    }
}

impl Handover {
    /// Hands over the objects that need it.
    async fn hand_over_objects(&self, object: &Kustomization, objects: &Objects) -> HandedOver {
        let namespace = object.namespace().unwrap_or_default();
        let remote = settings::remote(&object.spec);
        let owner = Owner {
            name: object.name_any(),
            namespace: namespace.clone(),
        };
        match self.targets.cluster(&namespace, remote.as_ref()).await {
            Ok(cluster) => apply::hand_over(&cluster, &owner, objects, Heir::Flux).await,
            Err(error) => {
                let away = |id: &ObjectId| ObjectFailure::away(id.clone(), error.to_string());
                HandedOver {
                    failures: objects.iter().map(|(id, _)| away(id)).collect(),
                    ..HandedOver::default()
                }
            }
        }
    }

    /// Reports what was handed over, and whether something is left.
    async fn publish_result(&self, object: &Kustomization, handed: &HandedOver) {
        let left = match handed.failures.len() {
            0 => "nothing is left".to_owned(),
            count => format!("{} left, to be retried", objects(count)),
        };
        let note = format!(
            "what {} applied to {} is now owned by {}; {left}",
            manager::SYNC,
            objects(handed.objects.len()),
            manager::FLUX_SYNC
        );
        info!(kustomization = %Key::of(object), "{note}");
        let event = Event::normal("HandedOver", "Handover", note);
        self.context.events.publish(object, event).await;
    }

    /// Publishes an event that asks for the missing permission, if that is the problem. Returns whether it did.
    async fn request_permission(&self, object: &Kustomization, failures: &[ObjectFailure]) -> bool {
        let forbidden: Vec<ObjectFailure> = failures
            .iter()
            .filter(|failure| is_forbidden(failure))
            .cloned()
            .collect();
        if forbidden.is_empty() {
            return false;
        }
        let note = self.plea(object, &forbidden);
        warn!(kustomization = %Key::of(object), "{note}");
        let event = Event::warning("HandoverForbidden", "Handover", note);
        self.context.events.publish(object, event).await;
        true
    }

    /// What is forbidden, what follows from that, and what to do. The command comes before the server's message, which
    /// may be long.
    fn plea(&self, object: &Kustomization, forbidden: &[ObjectFailure]) -> String {
        let (place, subject) = match settings::remote(&object.spec) {
            None => (
                "",
                format!("--serviceaccount={SYSTEM_NAMESPACE}:{}", self.account),
            ),
            Some(_) => (" in the cluster of spec.kubeConfig", "--user=USER".to_owned()),
        };
        format!(
            "HandoverForbidden: what {} applied to {} cannot be handed over to Flux: fields that a later revision drops will stay. Grant the permission during the migration{place}: kubectl create clusterrole muster-handover --verb=get,patch --resource='*.*'; kubectl create \
             clusterrolebinding muster-handover --clusterrole=muster-handover {subject}; it is retried automatically within an hour, and at each start. {}",
            manager::SYNC,
            objects(forbidden.len()),
            summary(forbidden, 0)
        )
    }

    /// Whether the built-in sync has written the status of a Kustomization or its finalizer, as far as managedFields
    /// show. If not, Flux has reconciled it from the beginning: there is nothing to check, and no permission to.
    async fn was_ours(&self, key: &Key) -> Result<bool, Error> {
        let api: Api<Kustomization> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let live = call(format!("reading Kustomization {key}"), api.get_opt(&key.name)).await?;
        let entries = live.and_then(|live| live.metadata.managed_fields);
        Ok(entries.into_iter().flatten().any(|entry| {
            let finalizers = entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.pointer("/f:metadata/f:finalizers").is_some());
            entry.manager.as_deref() == Some(manager::CONTROLLER)
                && (finalizers || entry.subresource.as_deref() == Some("status"))
        }))
    }

    fn until(&self, due: Timestamp) -> Duration {
        // A negative span counts as zero.
        Duration::try_from(due.duration_since(self.context.clock.now())).unwrap_or_default()
    }

    fn remember(&self, key: &Key, now: CheckedSet) {
        let mut checked = self.checked.lock();
        checked.insert(key.clone(), now);
        if checked.len() > self.store.len() + SLACK {
            checked.retain(|key, _| self.store.get(&key.object_ref()).is_some());
        }
    }
}

/// Logs failures that are not a missing permission.
fn warn_of(key: &Key, failures: &[ObjectFailure]) {
    let unexpected = failures.iter().filter(|failure| !is_forbidden(failure));
    let unexpected: Vec<ObjectFailure> = unexpected.cloned().collect();
    if !unexpected.is_empty() {
        let error = summary(&unexpected, 0);
        warn!(kustomization = %key, error, "not handed over to Flux; it is retried");
    }
}

/// A number of objects as text.
fn objects(count: usize) -> String {
    match count {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    }
}

fn is_forbidden(failure: &ObjectFailure) -> bool {
    failure.reason == "Forbidden"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-21T12:00:00Z";

    fn object(change: &Value) -> Kustomization {
        let mut object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "app", "namespace": "ns", "uid": "u"},
            "spec": {"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "src"}},
            "status": {"inventory": {"entries": [{"id": "ns_a__ConfigMap", "v": "v1"}, {"id": "ns_b__ConfigMap", "v": "v1"}]}},
        });
        json_patch::merge(&mut object, change);
        serde_json::from_value(object).unwrap()
    }

    fn named(names: &[&str]) -> Objects {
        let id = |name: &&str| format!("ns_{name}__ConfigMap").parse().unwrap();
        names.iter().map(|name| (id(name), "v1".to_owned())).collect()
    }

    fn inventory_check(left: &[&str], due: &str) -> CheckedSet {
        CheckedSet {
            uid: "u".into(),
            since: NOW.parse().unwrap(),
            left: named(left),
            due: due.parse().unwrap(),
            requested: false,
        }
    }

    #[track_caller]
    fn check(change: &Value, checked: Option<&CheckedSet>, expect: &Decision) {
        assert_eq!(
            decide(&object(change), checked, NOW.parse().unwrap()),
            *expect,
            "{change}"
        );
    }

    #[test]
    fn an_inventory_is_checked_once_and_only_failures_are_retried() {
        let later = "2026-11-21T12:00:01Z";
        check(&json!({}), None, &Decision::Look(named(&["a", "b"])));
        check(&json!({}), Some(&inventory_check(&[], NOW)), &Decision::Nothing);
        check(
            &json!({}),
            Some(&inventory_check(&["b"], NOW)),
            &Decision::Look(named(&["b"])),
        );
        let until = later.parse().unwrap();
        check(
            &json!({}),
            Some(&inventory_check(&["b"], later)),
            &Decision::Wait { until },
        );
        // Another object with the same name.
        check(
            &json!({"metadata": {"uid": "v"}}),
            Some(&inventory_check(&[], NOW)),
            &Decision::Look(named(&["a", "b"])),
        );
    }

    #[test]
    fn what_has_nothing_to_hand_over_waits_for_a_change() {
        for change in [
            json!({"status": null}),
            json!({"status": {"inventory": {"entries": []}}}),
            json!({"metadata": {"deletionTimestamp": NOW}}),
            json!({"spec": {"kubeConfig": {"configMapRef": {"name": "c"}}}}),
        ] {
            check(&change, None, &Decision::Nothing);
        }
        let remote = json!({"spec": {"kubeConfig": {"secretRef": {"name": "s"}}}, "spec.suspend": true});
        check(&remote, None, &Decision::Look(named(&["a", "b"])));
    }

    #[test]
    fn the_longer_something_fails_the_longer_is_the_wait() {
        let failed = HandedOver {
            failures: vec![ObjectFailure::away("ns_b__ConfigMap".parse().unwrap(), "away")],
            ..HandedOver::default()
        };
        let (object, mut now) = (object(&json!({})), NOW.parse::<Timestamp>().unwrap());
        let (mut last, mut waits) = (None, Vec::new());
        for _ in 0..9 {
            let checked = after(&object, last, named(&["a", "b"]), &failed, now);
            assert_eq!(checked.left, named(&["b"]));
            waits.push(checked.due.duration_since(now).as_secs() / 60);
            now = checked.due;
            last = Some(checked);
        }
        assert_eq!(waits, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
        let done = after(&object, last, named(&["b"]), &HandedOver::default(), now);
        assert_eq!(done.left, []);
    }
}
