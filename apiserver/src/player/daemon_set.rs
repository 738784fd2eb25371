//! DaemonSets: one pod on each matching node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::deployment::limits::{Round, resolve};
use super::node;
use super::plan::{Plan, Verb, nonzero, object_count};
use super::pod::{self, Progress};
use super::revision::{self, LABEL, Newest};
use super::template::{from_template, owner};

/// Decides what to do about a DaemonSet that controls these revisions and pods.
pub(super) fn decide(
    set: &DaemonSet,
    revisions: &[&ControllerRevision],
    pods: &[&Pod],
    nodes: &[&Node],
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if set.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let spec = set.spec.clone().unwrap_or_default(); // the server requires one
    let newest = match revision::newest(set, &spec.template, revisions) {
        Newest::Is(revision) => revision,
        Newest::Make(revision) => {
            plan.write(Verb::Create, revision);
            return plan;
        }
        Newest::Renumber(revision) => {
            plan.write(Verb::Replace, revision);
            return plan;
        }
    };
    let hash = revision::hash(newest);
    let row = Row {
        set,
        on_nodes: on_nodes(&spec, pods, nodes),
        stray: stray(&spec, pods, nodes),
        spec,
        hash,
        now,
    };
    row.fill(&mut plan);
    row.roll(&mut plan);
    row.status(&mut plan);
    let has_pods = |hash: &str| {
        pods.iter()
            .any(|pod| pod.labels().get(LABEL).is_some_and(|own| own == hash))
    };
    let is_used = |name: &str| {
        let found = revisions.iter().find(|revision| revision.name_any() == name);
        name == newest.name_any() || found.is_some_and(|found| has_pods(&revision::hash(found)))
    };
    revision::prune_history(&mut plan, revisions, row.spec.revision_history_limit, is_used);
    plan
}

struct Row<'a> {
    set: &'a DaemonSet,
    spec: DaemonSetSpec,
    /// Hash of the newest revision, as in pod labels.
    hash: String,
    /// The nodes that need a pod, with the pods that they have.
    on_nodes: BTreeMap<String, Vec<&'a Pod>>,
    /// The pods on other nodes.
    stray: Vec<&'a Pod>,
    now: Timestamp,
}

impl<'a> Row<'a> {
    /// One pod on each node, none elsewhere. A terminating pod keeps its node until it is gone.
    fn fill(&self, plan: &mut Plan) {
        for (node, pods) in &self.on_nodes {
            if pods.is_empty() {
                plan.write(Verb::Create, self.pod(node));
            }
            let over = pods.iter().filter(|pod| pod::is_over(pod));
            let twice = pods.iter().filter(|pod| pod::is_active(pod)).skip(1);
            for pod in over
                .chain(twice)
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            {
                plan.write(Verb::Delete, (*pod).clone());
            }
        }
        for pod in self
            .stray
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        {
            plan.write(Verb::Delete, (*pod).clone());
        }
    }

    /// Replaces pods of an old revision, as many at once as may be unavailable; unavailable ones first.
    fn roll(&self, plan: &mut Plan) {
        let strategy = self.spec.update_strategy.clone().unwrap_or_default(); // defaulted by the server
        if strategy.type_.as_deref() == Some("OnDelete") {
            return;
        }
        let nodes = object_count(self.on_nodes.len());
        let limit = strategy
            .rolling_update
            .and_then(|rolling| rolling.max_unavailable);
        let limit = limit
            .map_or(1, |limit| resolve(Some(&limit), nodes, Round::Up))
            .max(1);
        let available = |pod: &Pod| pod::is_active(pod) && self.progress([pod]).available == 1;
        let down = self
            .on_nodes
            .values()
            .filter(|pods| !pods.iter().any(|pod| available(pod)))
            .count();
        let mut left = (limit - object_count(down)).max(0);
        for pod in self
            .first_pods()
            .filter(|pod| pod.labels().get(LABEL) != Some(&self.hash))
        {
            if available(pod) && left == 0 {
                continue;
            }
            left -= i32::from(available(pod));
            plan.write(Verb::Delete, pod.clone());
        }
    }

    fn status(&self, plan: &mut Plan) {
        let pods: Vec<&Pod> = self.first_pods().collect();
        let progress = self.progress(pods.iter().copied());
        let nodes = object_count(self.on_nodes.len());
        let updated = pods
            .iter()
            .filter(|pod| pod.labels().get(LABEL) == Some(&self.hash))
            .count();
        let status = DaemonSetStatus {
            current_number_scheduled: object_count(pods.len()),
            desired_number_scheduled: nodes,
            number_available: nonzero(progress.available),
            number_misscheduled: object_count(self.stray.len()),
            number_ready: progress.ready,
            number_unavailable: nonzero(nodes - progress.available),
            observed_generation: self.set.metadata.generation,
            updated_number_scheduled: nonzero(object_count(updated)),
            ..self.set.status.clone().unwrap_or_default() // none yet
        };
        if self.set.status.as_ref() != Some(&status) {
            plan.write(
                Verb::Status,
                DaemonSet {
                    status: Some(status),
                    ..self.set.clone()
                },
            );
        }
        if let Some(next) = progress.next {
            plan.wake_at(next);
        }
    }

    /// The first pod of each node that is neither finished nor terminating.
    fn first_pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.on_nodes
            .values()
            .filter_map(|pods| pods.iter().copied().find(|pod| pod::is_active(pod)))
    }

    fn progress<'p>(&self, pods: impl IntoIterator<Item = &'p Pod>) -> Progress {
        Progress::of(pods, self.spec.min_ready_seconds, self.now)
    }

    fn pod(&self, node: &str) -> Pod {
        let metadata = ObjectMeta {
            generate_name: Some(format!("{}-", self.set.name_any())),
            namespace: self.set.metadata.namespace.clone(),
            labels: Some([(LABEL.to_owned(), self.hash.clone())].into()),
            ..ObjectMeta::default()
        };
        let mut pod = from_template(&self.spec.template, metadata, owner(self.set));
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        pod
    }
}

fn on_nodes<'a>(spec: &DaemonSetSpec, pods: &[&'a Pod], nodes: &[&Node]) -> BTreeMap<String, Vec<&'a Pod>> {
    let fitting = nodes
        .iter()
        .filter(|node| fits(spec, node))
        .map(|node| node.name_any());
    fitting
        .map(|name| {
            (
                name.clone(),
                pods.iter().copied().filter(|pod| node_of(pod) == name).collect(),
            )
        })
        .collect()
}

fn stray<'a>(spec: &DaemonSetSpec, pods: &[&'a Pod], nodes: &[&Node]) -> Vec<&'a Pod> {
    let is_at_home = |pod: &&Pod| {
        nodes
            .iter()
            .any(|node| fits(spec, node) && node.name_any() == node_of(pod))
    };
    pods.iter().copied().filter(|pod| !is_at_home(pod)).collect()
}

fn fits(spec: &DaemonSetSpec, node: &Node) -> bool {
    let wanted = spec
        .template
        .spec
        .as_ref()
        .and_then(|spec| spec.node_selector.as_ref());
    node.metadata.deletion_timestamp.is_none() && wanted.is_none_or(|wanted| node::has_labels(node, wanted))
}

fn node_of(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}
