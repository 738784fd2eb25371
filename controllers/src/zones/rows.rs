//! The caches filled by the watches of a namespace: enough to detect that there is nothing to do. Actions are based on
//! fresh reads.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod as ApiPod};
use kube::{
    api::{ApiResource, DynamicObject},
    runtime::{reflector::Store, watcher},
};
use muster_api::{
    ZoneRollout, labels::label::ROLLOUT_GROUP, names, rollout_operator::ZoneAwarePodDisruptionBudget,
};
use muster_zones::{
    budget::KnownBudgets,
    model::{Group, Pod, Set},
    scale::{follower::LEADER, mirror, times::begun},
};
use parking_lot::RwLock;
use tokio::sync;

use super::{metrics::ZoneMetrics, read::value};
use crate::{
    reconcile::Base,
    runtime::{Api, Index, Key, watch},
};

/// The caches of a namespace.
pub(super) struct Rows {
    /// StatefulSets; each triggers the ZoneRollout of its group.
    pub sets: Arc<Index<StatefulSet, Arc<Set>>>,
    /// Pods of StatefulSets; each triggers its StatefulSet.
    pub pods: Arc<Index<ApiPod, Arc<Pod>>>,
    /// The valid budgets.
    pub budgets: Arc<RwLock<KnownBudgets>>,
    /// Whether all budgets were listed once. Before that, an empty cache proves nothing.
    budgets_listed: sync::watch::Sender<bool>,
}

impl Rows {
    pub(super) fn new() -> Self {
        let set = |set: &StatefulSet| Set::from_value(&value(set)).ok().map(Arc::new); // an invalid set is not cached
        let pod = |pod: &ApiPod| {
            let pod = Pod::from_value(&value(pod)).ok()?; // the same
            let of_set = pod
                .controller
                .as_ref()
                .is_some_and(|owner| owner.kind == "StatefulSet");
            of_set.then(|| Arc::new(pod))
        };
        Self {
            sets: Arc::new(Index::new(set, |key, set: &Arc<Set>| {
                rollout_of(set, &key.namespace).into_iter().collect()
            })),
            pods: Arc::new(Index::new(pod, |key, pod: &Arc<Pod>| {
                let owner = pod.controller.iter();
                owner.map(|owner| Key::new(&key.namespace, &owner.name)).collect()
            })),
            budgets: Arc::default(),
            budgets_listed: sync::watch::Sender::new(false),
        }
    }

    /// Whether all budgets were listed once.
    pub(super) fn knows_budgets(&self) -> bool {
        *self.budgets_listed.borrow()
    }

    /// Waits until all budgets were listed once.
    pub(super) async fn budgets_known(&self) {
        // The sender lives as long as `self`, so the error is unreachable.
        let _ = self.budgets_listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// The groups that have sets, by the names of their ZoneRollouts.
    pub(super) fn groups(&self) -> BTreeMap<String, String> {
        self.sets.with(|sets| {
            let groups = sets.values().filter_map(|set| set.labels.get(ROLLOUT_GROUP));
            groups
                .map(|group| (names::zone_rollout_name(group), group.clone()))
                .collect()
        })
    }

    /// The group of a ZoneRollout; `None` if it depends on objects that are not cached: replicas that mirror a
    /// reference.
    pub(super) fn group(&self, rollout: &ZoneRollout, now: Timestamp) -> Option<Group> {
        let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
        let key = Key::of(rollout);
        let sets: Vec<Set> = self
            .sets
            .about(&key)
            .iter()
            .map(|(_, set)| Set::clone(set))
            .collect();
        let follows =
            |set: &Set| set.annotations.contains_key(LEADER) || mirror::reference(&set.annotations).is_some();
        if sets.is_empty() || sets.iter().any(follows) {
            return None;
        }
        let of_set = |set: &Set| self.pods.about(&Key::new(&namespace, &set.name));
        let pods: Vec<Pod> = sets
            .iter()
            .flat_map(of_set)
            .map(|(_, pod)| Pod::clone(&pod))
            .collect();
        let status = begun(rollout.status.as_ref(), &sets, now);
        Some(Group::new(&rollout.spec.group, sets, &pods).with(rollout.spec.clone(), status))
    }

    /// Fills the caches; yields the ZoneRollouts that changes affect.
    pub(super) fn watch(self: &Arc<Self>, base: &Base) -> impl Stream<Item = Key> + Send + use<> {
        let config = watcher::Config::default;
        let sets = watch::watch::<StatefulSet>(base.client.clone(), &base.namespace, config());
        let pods = watch::watch::<ApiPod>(base.client.clone(), &base.namespace, config());
        let rows = Arc::clone(self);
        let of_pods = watch::watch_rows(pods, Arc::clone(&self.pods)).filter_map(move |owner| {
            let set = rows.sets.get(&owner);
            std::future::ready(set.and_then(|set| rollout_of(&set, &owner.namespace)))
        });
        stream::select(watch::watch_rows(sets, Arc::clone(&self.sets)), of_pods)
    }

    /// Caches the budgets; a change of one triggers every ZoneRollout.
    pub(super) fn watch_budgets(
        self: &Arc<Self>,
        base: &Base,
        rollouts: Store<ZoneRollout>,
        metrics: ZoneMetrics,
    ) -> impl Stream<Item = Key> + Send + use<> {
        // Unvalidated: a budget that its CRD would not accept today is rejected with rollout-operator's messages.
        let kind = ApiResource::erase::<ZoneAwarePodDisruptionBudget>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(base.client.clone(), &base.namespace, &kind);
        let object_of = move |object: &DynamicObject| {
            let mut object = value(object);
            object["kind"] = kind.kind.clone().into();
            object
        };
        let config = watcher::Config::default();
        let events = watch::watch_api(api, config, "ZoneAwarePodDisruptionBudget".to_owned());
        let rows = Arc::clone(self);
        let mut listed = KnownBudgets::default();
        let changed = events.map(move |event| {
            match event {
                watcher::Event::Apply(object) => {
                    metrics.observed(rows.budgets.write().put(&object_of(&object)));
                }
                watcher::Event::Delete(object) => {
                    metrics.observed(rows.budgets.write().delete(&object_of(&object)));
                }
                watcher::Event::Init => listed = KnownBudgets::default(),
                watcher::Event::InitApply(object) => {
                    let object = object_of(&object);
                    // A budget that became invalid keeps its last valid state.
                    let mut known = rows.budgets.write();
                    metrics.observed(known.put(&object));
                    listed.keep(&known, &object);
                }
                watcher::Event::InitDone => {
                    *rows.budgets.write() = std::mem::take(&mut listed);
                    rows.budgets_listed.send_replace(true);
                }
            }
        });
        changed.flat_map(move |()| {
            let all = rollouts.state();
            stream::iter(all.iter().map(|rollout| Key::of(&**rollout)).collect::<Vec<_>>())
        })
    }
}

/// The ZoneRollout of a set's group.
fn rollout_of(set: &Set, namespace: &str) -> Option<Key> {
    let group = set.labels.get(ROLLOUT_GROUP)?;
    Some(Key::new(namespace, names::zone_rollout_name(group)))
}
