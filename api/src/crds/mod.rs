//! muster's CustomResourceDefinitions, generated from the Rust types, and those of foreign kinds that a cluster may
//! lack.
//!
//! They are committed as `api/crds/*.yaml`; a test checks that the files are up to date.

mod foreign;

use std::{collections::BTreeMap, sync::LazyLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceSubresourceStatus, CustomResourceValidation,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;

use crate::{
    assemblage::{Assemblage, ProxyAssemblage, RemoteAssemblage},
    cluster_upgrade::ClusterUpgrade,
    definition::{ours, structural},
    flux::{GitRepository, Kustomization},
    kind::GROUP,
    labels,
    module::{BootstrapModule, Module},
    node::{NodeAssemblage, NodeBudget, NodeModule, NodeRevision},
    plan::PlanRun,
    revision::ModuleRevision,
    rollout_operator::{ReplicaTemplate, ZoneAwarePodDisruptionBudget},
    rolloutwindow::RolloutWindow,
    update_plan::UpdatePlan,
    zonerollout::ZoneRollout,
};

pub use crate::definition::columns;
pub use foreign::cluster_api;

/// Header of the generated files.
const HEADER: &str = "# Generated from the types of muster-api by `cargo xtask generate`. Do not edit.\n";

/// CRDs, generated once per process, as deriving and rewriting a schema takes many steps.
type Made = LazyLock<Vec<CustomResourceDefinition>>;

/// muster's kinds in the management cluster.
pub fn management() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| {
        vec![
            Module::crd(),
            BootstrapModule::crd(),
            ProxyAssemblage::crd(),
            RemoteAssemblage::crd(),
            ModuleRevision::crd(),
            RolloutWindow::crd(),
        ]
    });
    MADE.clone()
}

/// muster's kinds in a downstream cluster.
pub fn downstream() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| vec![Assemblage::crd(), PlanRun::crd()]);
    MADE.clone()
}

/// muster's kinds in a cluster where `muster zones` runs.
pub fn zones() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| vec![ZoneRollout::crd()]);
    MADE.clone()
}

/// muster's kinds in a cluster whose nodes muster configures.
pub fn nodes() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| {
        vec![
            NodeModule::crd(),
            NodeRevision::crd(),
            NodeAssemblage::crd(),
            NodeBudget::crd(),
        ]
    });
    MADE.clone()
}

/// muster's kinds in a management cluster whose Clusters muster upgrades.
pub fn upgrades() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| vec![ClusterUpgrade::crd()]);
    MADE.clone()
}

/// muster's kinds in a cluster whose Cluster API calls muster for in-place updates.
pub fn machines() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| vec![UpdatePlan::crd()]);
    MADE.clone()
}

/// Flux's kinds as far as muster implements them, with muster's labels, for clusters without Flux.
pub fn flux() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| {
        [GitRepository::crd(), Kustomization::crd()]
            .into_iter()
            .map(ours)
            .collect()
    });
    MADE.clone()
}

/// rollout-operator's kinds that `muster zones` implements, with muster's labels, for clusters without
/// rollout-operator.
pub fn rollout_operator() -> Vec<CustomResourceDefinition> {
    static MADE: Made = LazyLock::new(|| {
        vec![
            of_rollout_operator::<ZoneAwarePodDisruptionBudget>(),
            of_rollout_operator::<ReplicaTemplate>(),
        ]
    });
    MADE.clone()
}

/// kube's schemas allow null for each optional field; those of rollout-operator do not, and reject null.
fn of_rollout_operator<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut definition = ours(K::crd());
    for version in &mut definition.spec.versions {
        version.schema = Some(CustomResourceValidation {
            open_api_v3_schema: structural::schema::<K>(),
        });
        let subresources = version.subresources.get_or_insert_default();
        subresources.status = Some(CustomResourceSubresourceStatus(serde_json::json!({})));
    }
    definition
}

/// Whether a CRD that was read from a cluster is one of muster's, and may be replaced.
pub fn is_ours(definition: &CustomResourceDefinition) -> bool {
    definition.spec.group == GROUP || definition.metadata.labels.as_ref().is_some_and(are_ours)
}

/// Whether these are the labels of a CRD that muster installed. Helm sets its own `managed-by` on everything that it
/// installs, so the `part-of` label is accepted too.
pub fn are_ours(labels: &BTreeMap<String, String>) -> bool {
    [labels::label::APP_MANAGED_BY, labels::label::APP_PART_OF]
        .iter()
        .any(|key| labels.get(*key).is_some_and(|value| value == labels::MUSTER))
}

/// Every generated file in `api/crds/`: its name and its content.
pub fn generated() -> Vec<(String, String)> {
    let definitions = management()
        .into_iter()
        .chain(downstream())
        .chain(zones())
        .chain(nodes())
        .chain(machines())
        .chain(upgrades())
        .chain(flux())
        .chain(rollout_operator())
        .chain([cluster_api()]);
    definitions
        .map(|definition| (file_name(&definition), yaml(&definition)))
        .collect()
}

/// A CRD as YAML, with the header of generated files.
pub fn yaml(definition: &CustomResourceDefinition) -> String {
    // CRDs have only string keys; a CRD that cannot be serialized would differ from its committed file.
    let text = serde_yaml::to_string(definition).unwrap_or_default();
    format!("{HEADER}{text}")
}

fn file_name(definition: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", definition.spec.group, definition.spec.names.plural)
}
