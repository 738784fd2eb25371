//! A Deployment and its ReplicaSets: which is the new one, what the next one looks like, which are history.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::super::hash::{fnv, suffix};
use super::super::settings::PREFIX;
use super::super::template::owner;
use super::Child;
use super::limits::limits;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Default number of old ReplicaSets to keep.
const HISTORY: i32 = 10;

/// A Deployment and its ReplicaSets.
#[derive(Clone, Debug)]
pub(super) struct Family<'a> {
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// Spec of the Deployment.
    pub spec: DeploymentSpec,
    /// The ReplicaSet of the current template.
    pub new: Option<Child<'a>>,
    /// The others, oldest first.
    pub old: Vec<Child<'a>>,
}

impl<'a> Family<'a> {
    /// A Deployment with the ReplicaSets that it controls.
    pub(super) fn of(deployment: &'a Deployment, children: &[Child<'a>]) -> Self {
        let spec = deployment.spec.clone().unwrap_or_default(); // the server requires one
        let mut old: Vec<Child<'a>> = children.to_vec();
        old.retain(|child| child.set.metadata.deletion_timestamp.is_none());
        old.sort_by_key(|child| (&child.set.metadata.creation_timestamp, &child.set.metadata.name));
        let new = old
            .iter()
            .position(|child| template_of(child.set) == Some(spec.template.clone()));
        let new = new.map(|index| old.remove(index));
        Self {
            deployment,
            spec,
            new,
            old,
        }
    }

    /// Desired number of replicas.
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Whether the Deployment is paused and only scales.
    pub(super) fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// All ReplicaSets.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().chain(&self.new).map(|child| child.set)
    }

    /// The ReplicaSet for the current template; `None` if its name is taken.
    pub(super) fn next_set(&self, replicas: i32, is_taken: impl Fn(&str) -> bool) -> Option<ReplicaSet> {
        let collisions = self
            .deployment
            .status
            .as_ref()
            .and_then(|status| status.collision_count);
        let text = format!("{:?} {}", self.spec.template, collisions.unwrap_or_default());
        let hash = suffix(fnv(text.as_bytes()));
        let name = format!("{}-{hash}", self.deployment.name_any());
        if is_taken(&name) {
            return None;
        }
        let mut template = self.spec.template.clone();
        let metadata = template.metadata.get_or_insert_default();
        metadata
            .labels
            .get_or_insert_default()
            .insert(HASH.to_owned(), hash.clone());
        let labels = metadata.labels.clone();
        let mut selector = self.spec.selector.clone();
        selector
            .match_labels
            .get_or_insert_default()
            .insert(HASH.to_owned(), hash);
        let mut annotations = self.inherited();
        annotations.insert(REVISION.to_owned(), (self.newest_revision() + 1).to_string());
        annotations.extend(self.size_annotations());
        let owner = owner(self.deployment);
        Some(ReplicaSet {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.deployment.metadata.namespace.clone(),
                labels,
                annotations: Some(annotations),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                min_ready_seconds: self.spec.min_ready_seconds,
                replicas: Some(replicas),
                selector,
                template: Some(template),
            }),
            status: None,
        })
    }

    /// The new ReplicaSet with the highest revision, unless it already has it: it was an old one until the template was
    /// changed back.
    pub(super) fn with_newest_revision(&self, set: &ReplicaSet) -> Option<ReplicaSet> {
        let is_newest = revision(&set.metadata) > self.newest_revision();
        let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        if is_newest && min_ready == self.spec.min_ready_seconds {
            return None;
        }
        let mut changed = set.clone();
        if !is_newest {
            changed
                .annotations_mut()
                .insert(REVISION.to_owned(), (self.newest_revision() + 1).to_string());
        }
        changed.spec.get_or_insert_default().min_ready_seconds = self.spec.min_ready_seconds;
        Some(changed)
    }

    /// The Deployment with the revision of its new ReplicaSet, unless it already has it.
    pub(super) fn with_revision_of(&self, set: &ReplicaSet) -> Option<Deployment> {
        let revision = set.annotations().get(REVISION)?;
        if self.deployment.annotations().get(REVISION) == Some(revision) {
            return None;
        }
        let mut changed = self.deployment.clone();
        changed
            .annotations_mut()
            .insert(REVISION.to_owned(), revision.clone());
        Some(changed)
    }

    /// A ReplicaSet with another number of replicas.
    pub(super) fn resized(&self, set: &ReplicaSet, replicas: i32) -> ReplicaSet {
        let mut changed = set.clone();
        changed.spec.get_or_insert_default().replicas = Some(replicas);
        changed.annotations_mut().extend(self.size_annotations());
        changed
    }

    /// Empty old ReplicaSets beyond the history limit, oldest first.
    pub(super) fn beyond_history(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        let is_empty = |child: &&Child<'a>| size(child.set) == 0 && child.pods == 0;
        let mut empty: Vec<&'a ReplicaSet> =
            self.old.iter().filter(is_empty).map(|child| child.set).collect();
        empty.sort_by_key(|set| revision(&set.metadata));
        let keep = usize::try_from(self.spec.revision_history_limit.unwrap_or(HISTORY)).unwrap_or(usize::MAX);
        let too_many = empty.len().saturating_sub(keep);
        empty.into_iter().take(too_many)
    }

    fn newest_revision(&self) -> i64 {
        self.old
            .iter()
            .map(|child| revision(&child.set.metadata))
            .max()
            .unwrap_or_default() // none before the first
    }

    fn inherited(&self) -> BTreeMap<String, String> {
        let own = [REVISION, DESIRED, MAXIMUM, LAST_APPLIED];
        let all = self.deployment.annotations().iter();
        let kept = all.filter(|(key, _)| !own.contains(&key.as_str()) && !key.starts_with(PREFIX));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn size_annotations(&self) -> [(String, String); 2] {
        let maximum = self.replicas() + limits(&self.spec).surge;
        [
            (DESIRED.to_owned(), self.replicas().to_string()),
            (MAXIMUM.to_owned(), maximum.to_string()),
        ]
    }
}

/// Desired number of replicas of a ReplicaSet.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or_default() // defaulted by the server
}

/// Available replicas of a ReplicaSet, not counting those that it is about to lose.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    let available = set.status.as_ref().and_then(|status| status.available_replicas);
    available.unwrap_or_default().min(size(set)) // zero is omitted
}

fn template_of(set: &ReplicaSet) -> Option<PodTemplateSpec> {
    let mut template = set.spec.as_ref()?.template.clone()?;
    if let Some(metadata) = &mut template.metadata
        && let Some(labels) = &mut metadata.labels
    {
        labels.remove(HASH);
    }
    Some(template)
}

fn revision(meta: &ObjectMeta) -> i64 {
    let text = meta
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(REVISION));
    text.and_then(|text| text.parse().ok()).unwrap_or_default() // absent or not a number: before all others
}
