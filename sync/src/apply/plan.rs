//! What to apply, in which order, and the resulting inventory.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::labels::label;
use serde_json::Value;

use super::{
    Cluster, Jobs, ObjectFailure, Options, PlanError, Prepared,
    kinds::split_api_version,
    prepare::{defined_kinds, duplicates, identity, is_definition, prepare, sort, text_at},
    stage::{self, Stage},
};
use crate::inventory::{Inventory, ObjectId};

/// Objects in the order of applying.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The objects, by stage.
    pub(super) objects: Vec<Prepared>,
    /// Objects that cannot be tried.
    pub(super) failures: Vec<ObjectFailure>,
    pub(super) options: Options,
    /// Which Jobs have finished and may therefore be gone.
    pub(super) jobs: Jobs,
}

impl Plan {
    /// The same plan with the record of its Jobs, and whether its Kustomization is `ready` at the plan's revision.
    #[must_use]
    pub fn knowing(self, jobs: Jobs, ready: bool) -> Self {
        jobs.enter(&self.objects, ready);
        Self { jobs, ..self }
    }

    /// The inventory that results from the plan.
    pub fn inventory(&self) -> Inventory {
        self.objects
            .iter()
            .map(|object| (object.id.clone(), object.version.clone()))
            .collect()
    }

    /// The same plan, reduced to what is in the inventory, with ids as they are in the cluster, whatever namespace the
    /// manifest says.
    #[must_use]
    pub fn only(mut self, recorded: &Inventory) -> Self {
        self.objects.retain(|object| recorded.contains(&object.id));
        self.failures.retain(|failure| recorded.contains(&failure.id));
        self
    }

    /// The same plan, applied through `spec.kubeConfig`: the objects are labeled with the cluster that they are applied
    /// from.
    #[must_use]
    pub fn applied_from(mut self, cluster: &str) -> Self {
        for object in &mut self.objects {
            if let Some(labels) = object
                .body
                .pointer_mut("/metadata/labels")
                .and_then(Value::as_object_mut)
            {
                labels.insert(label::APPLIED_FROM.to_owned(), cluster.into());
            }
        }
        self
    }

    /// The objects whose health to wait for: all except those that we leave alone.
    pub fn managed(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        self.objects
            .iter()
            .filter(|object| !object.wishes.ignore)
            .map(|object| (&object.id, object.version.as_str()))
    }

    /// The objects of a stage, in the order of applying.
    pub(super) fn of_stage(&self, stage: Stage) -> &[Prepared] {
        let before = |stages: fn(&Stage, &Stage) -> bool| {
            self.objects
                .partition_point(|object| stages(&stage::of_id(&object.id), &stage))
        };
        &self.objects[before(Stage::lt)..before(Stage::le)]
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty()
    }
}

/// Prepares manifests for a cluster. The scope of a kind comes from discovery, or from the definitions among the
/// manifests.
pub async fn plan(cluster: &Cluster, manifests: Vec<Value>, options: Options) -> Result<Plan, PlanError> {
    let scopes = scopes(cluster, &manifests).await?;
    let mut objects = Vec::with_capacity(manifests.len());
    let mut failures = Vec::new();
    for manifest in manifests {
        let id = identity(&manifest);
        let api_version = text_at(&manifest, "/apiVersion").to_owned();
        let Some(namespaced) = scopes.get(&(api_version.clone(), id.kind.clone())) else {
            failures.push(ObjectFailure::unknown_kind(id, &api_version));
            continue;
        };
        match prepare(manifest, *namespaced, &options) {
            Ok(object) => objects.push(object),
            Err(failure) => failures.push(*failure),
        }
    }
    sort(&mut objects);
    failures.extend(duplicates(&objects));
    Ok(Plan {
        objects,
        failures,
        options,
        jobs: Jobs::default(),
    })
}

/// Whether the kinds of the manifests are namespaced, by `apiVersion` and kind. A kind that is neither served nor
/// defined is missing. A definition among the manifests takes precedence over the server, as it is about to be applied.
async fn scopes(
    cluster: &Cluster,
    manifests: &[Value],
) -> Result<BTreeMap<(String, String), bool>, PlanError> {
    let mut scopes: BTreeMap<(String, String), bool> = manifests
        .iter()
        .filter(|manifest| is_definition(&identity(manifest)))
        .flat_map(defined_kinds)
        .map(|(api_version, kind, namespaced)| ((api_version, kind), namespaced))
        .collect();
    let named: BTreeSet<(&str, &str)> = manifests
        .iter()
        .map(|manifest| (text_at(manifest, "/apiVersion"), text_at(manifest, "/kind")))
        .collect();
    for (api_version, kind) in named {
        let key = (api_version.to_owned(), kind.to_owned());
        if scopes.contains_key(&key) || split_api_version(api_version).1.is_empty() {
            continue;
        }
        let served = cluster.kind(api_version, kind).await;
        if let Some(served) = served.map_err(PlanError::Discovery)? {
            scopes.insert(key, served.namespaced);
        }
    }
    Ok(scopes)
}
