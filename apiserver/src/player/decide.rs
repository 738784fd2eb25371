//! Collects the objects that belong to an object and dispatches to the decision of its kind.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::deployment::{self, Child};
use super::plan::Plan;
use super::pod::{self, NodeLoad};
use super::settings::Speeds;
use super::shelf::{Key, Observed};
use super::world::{Item, Kind, World};
use super::{claim, daemon_set, disruption, job, node, replica_set, service, stateful_set};

/// Decides what to do about an object.
pub(super) fn decide(item: &Item, world: &World, speeds: &Speeds, now: Timestamp) -> Plan {
    let plan = match item.kind {
        Kind::Deployment => deployment(&item.key, world, speeds, now),
        Kind::ReplicaSet => replica_set(&item.key, world, now),
        Kind::Pod => pod(&item.key, world, speeds, now),
        Kind::Node => node(&item.key, world, speeds, now),
        Kind::StatefulSet => stateful_set(&item.key, world, now),
        Kind::DaemonSet => daemon_set(&item.key, world, now),
        Kind::Job => job(&item.key, world, speeds, now),
        Kind::Service => service(&item.key, world),
        Kind::PodDisruptionBudget => budget(&item.key, world, now),
        Kind::PersistentVolumeClaim => world
            .claims
            .get(&item.key)
            .map(|observed| claim::decide(&observed.object)),
        // Handled with their owners.
        Kind::ControllerRevision | Kind::EndpointSlice => None,
    };
    plan.unwrap_or_default() // the object is gone: nothing to do
}

/// The nodes that should exist, whether or not they do.
pub(super) fn nodes(speeds: &Speeds) -> impl Iterator<Item = Item> {
    let key = |name| Key {
        namespace: String::new(),
        name,
    };
    node::names(speeds.nodes).map(move |name| Item {
        kind: Kind::Node,
        key: key(name),
    })
}

fn deployment(key: &Key, world: &World, speeds: &Speeds, now: Timestamp) -> Option<Plan> {
    let deployment = &world.deployments.get(key)?.object;
    let sets = world.replica_sets.controlled_by(&deployment.metadata);
    let children: Vec<Child<'_>> = sets
        .into_iter()
        .map(|observed| {
            let pods = world.pods.controlled_by(&observed.object.metadata);
            let pods = pods.into_iter().filter(|pod| !pod::is_over(&pod.object)).count();
            Child {
                set: &observed.object,
                pods,
            }
        })
        .collect();
    let is_taken = |name: &str| {
        let key = Key {
            namespace: key.namespace.clone(),
            name: name.to_owned(),
        };
        world.replica_sets.get(&key).is_some()
    };
    let settings = world.settings(&deployment.metadata, speeds);
    Some(deployment::decide(
        deployment, &children, is_taken, &settings, now,
    ))
}

fn replica_set(key: &Key, world: &World, now: Timestamp) -> Option<Plan> {
    let set = &world.replica_sets.get(key)?.object;
    let pods = objects(world.pods.controlled_by(&set.metadata));
    Some(replica_set::decide(set, &pods, now))
}

fn stateful_set(key: &Key, world: &World, now: Timestamp) -> Option<Plan> {
    let set = &world.stateful_sets.get(key)?.object;
    let revisions = objects(world.revisions.controlled_by(&set.metadata));
    let pods = objects(world.pods.controlled_by(&set.metadata));
    let is_claimed = |name: &str| {
        let key = Key {
            namespace: key.namespace.clone(),
            name: name.to_owned(),
        };
        world.claims.get(&key).is_some()
    };
    Some(stateful_set::decide(set, &revisions, &pods, is_claimed, now))
}

fn daemon_set(key: &Key, world: &World, now: Timestamp) -> Option<Plan> {
    let set = &world.daemon_sets.get(key)?.object;
    let revisions = objects(world.revisions.controlled_by(&set.metadata));
    let pods = objects(world.pods.controlled_by(&set.metadata));
    Some(daemon_set::decide(
        set,
        &revisions,
        &pods,
        &objects(world.nodes.all()),
        now,
    ))
}

fn job(key: &Key, world: &World, speeds: &Speeds, now: Timestamp) -> Option<Plan> {
    let job = &world.jobs.get(key)?.object;
    let pods = objects(world.pods.controlled_by(&job.metadata));
    let settings = world.settings(&job.metadata, speeds);
    Some(job::decide(job, &pods, &settings, now))
}

fn service(key: &Key, world: &World) -> Option<Plan> {
    let service = &world.services.get(key)?.object;
    let slices = objects(world.slices.controlled_by(&service.metadata));
    Some(service::decide(
        service,
        &slices,
        &objects(world.pods.within(&key.namespace)),
    ))
}

fn budget(key: &Key, world: &World, now: Timestamp) -> Option<Plan> {
    let budget = &world.budgets.get(key)?.object;
    let pods = objects(world.pods.within(&key.namespace));
    Some(disruption::decide(budget, &pods, |pods| world.scale(pods), now))
}

fn pod(key: &Key, world: &World, speeds: &Speeds, now: Timestamp) -> Option<Plan> {
    let pod = world.pods.get(key)?;
    let settings = world.settings(&pod.object.metadata, speeds);
    let places = if super::world::is_placed(&pod.object) {
        Vec::new()
    } else {
        places(world)
    };
    Some(pod::decide(pod, &places, &settings, now))
}

fn node(key: &Key, world: &World, speeds: &Speeds, now: Timestamp) -> Option<Plan> {
    let is_ours = node::names(speeds.nodes).any(|name| name == key.name);
    is_ours.then(|| {
        node::decide(
            &key.name,
            world.nodes.get(key).map(|observed| &observed.object),
            now,
        )
    })
}

/// The nodes, with their number of pods.
fn places(world: &World) -> Vec<NodeLoad<'_>> {
    let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in world
        .pods
        .all()
        .filter(|observed| !pod::is_over(&observed.object))
    {
        if let Some(name) = pod
            .object
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.as_deref())
        {
            *pods.entry(name).or_default() += 1;
        }
    }
    let on = |name: &Option<String>| {
        name.as_deref()
            .and_then(|name| pods.get(name))
            .copied()
            .unwrap_or_default()
    };
    let nodes = world.nodes.all().map(|observed| &observed.object);
    nodes
        .map(|node| NodeLoad {
            node,
            pods: on(&node.metadata.name),
        })
        .collect()
}

fn objects<'a, K>(observed: impl IntoIterator<Item = &'a Observed<K>>) -> Vec<&'a K> {
    observed.into_iter().map(|observed| &observed.object).collect()
}
