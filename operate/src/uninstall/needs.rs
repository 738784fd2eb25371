//! What still needs an installation: modules and enrolled clusters of a controller, assignments of an agent.

use kube::{
    Client, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_api::{
    cluster::Version,
    labels::{SYSTEM_NAMESPACE, annotation},
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use muster_fleet::apply::DEADLINE;

use super::Options;
use crate::steps::{StepRefusal, Steps};

/// The most names that are listed.
const NAMED: usize = 3;

/// The names of what still needs the installation.
pub(crate) struct Needs {
    modules: Vec<String>,
    clusters: Vec<String>,
    assigned: Vec<String>,
}

impl Needs {
    /// Reads them. A kind that is not served has no objects. With `--crds` modules of all namespaces count: they would
    /// be removed.
    pub(crate) async fn read(client: &Client, namespace: &str, options: &Options) -> Result<Self, CallError> {
        if options.downstream {
            return Ok(Self {
                modules: Vec::new(),
                clusters: Vec::new(),
                assigned: assigned(client).await?,
            });
        }
        let of = Some(namespace).filter(|_| !options.crds);
        let ours =
            |kind: &str| GroupVersionKind::gvk(muster_api::kind::GROUP, muster_api::kind::VERSION, kind);
        let mut modules = listed(client, of, &ours("Module"), "module", |_| true).await?;
        modules.extend(listed(client, of, &ours("BootstrapModule"), "bootstrapmodule", |_| true).await?);
        let mut clusters = Vec::new();
        for version in [Version::V1Beta2, Version::V1Beta1] {
            if clusters.is_empty() {
                let resource = version.api_resource();
                let gvk = GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind);
                let enrolled =
                    |cluster: &DynamicObject| cluster.annotations().contains_key(annotation::ENROLLED);
                clusters = listed(client, of, &gvk, "cluster", enrolled).await?;
            }
        }
        Ok(Self {
            modules,
            clusters,
            assigned: Vec::new(),
        })
    }

    fn is_none(&self) -> bool {
        self.modules.is_empty() && self.clusters.is_empty() && self.assigned.is_empty()
    }

    /// Reports what still needs the installation.
    pub(crate) fn report(&self, steps: Steps<'_>) {
        for (what, all) in [
            ("modules that would no longer be rolled out", &self.modules),
            (
                "enrolled clusters that would no longer be managed",
                &self.clusters,
            ),
            ("assignments that would no longer be applied", &self.assigned),
        ] {
            if !all.is_empty() {
                steps.note(format!("{what}: {}", name_list(all)));
            }
        }
    }

    /// The refusal, unless a flag overrides it.
    pub(crate) fn refusal(&self, options: &Options) -> Option<StepRefusal> {
        if self.is_none() || options.force || options.keep_objects {
            return None;
        }
        let refusal = StepRefusal::failed("nothing was removed: it is still needed");
        let refusal = if self.modules.is_empty() {
            refusal
        } else {
            refusal.remedy("remove the modules first (usually in git): what they applied is withdrawn, or kept by onDelete: Orphan")
        };
        let refusal = if self.clusters.is_empty() {
            refusal
        } else {
            refusal.remedy("unenroll the clusters: muster unenroll NAME")
        };
        Some(if options.crds {
            refusal.remedy(
                "or --force: the definitions are removed with all their objects, and what runs in clusters keeps running",
            )
        } else {
            refusal.remedy("or --keep-objects: they stay as they are, and are no longer reconciled")
        })
    }
}

/// The assignments of an agent's cluster.
pub(crate) async fn assigned(client: &Client) -> Result<Vec<String>, CallError> {
    let assemblage = GroupVersionKind::gvk(muster_api::kind::GROUP, muster_api::kind::VERSION, "Assemblage");
    let sync = GroupVersionKind::gvk("kustomize.toolkit.fluxcd.io", "v1", "Kustomization");
    let mut all = listed(client, Some(SYSTEM_NAMESPACE), &assemblage, "assemblage", |_| {
        true
    })
    .await?;
    all.extend(listed(client, Some(SYSTEM_NAMESPACE), &sync, "kustomization", |_| true).await?);
    Ok(all)
}

async fn listed(
    client: &Client,
    namespace: Option<&str>,
    gvk: &GroupVersionKind,
    word: &str,
    wanted: impl Fn(&DynamicObject) -> bool,
) -> Result<Vec<String>, CallError> {
    let resource = ApiResource::from_gvk(gvk);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match call_within(
        DEADLINE,
        format!("listing {}s", gvk.kind),
        api.list(&ListParams::default()),
    )
    .await
    {
        Ok(list) => Ok(list
            .items
            .iter()
            .filter(|object| wanted(object))
            .map(|object| format!("{word}/{}", object.name_any()))
            .collect()),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn name_list(all: &[String]) -> String {
    let mut shown: Vec<String> = all.iter().take(NAMED).cloned().collect();
    if all.len() > NAMED {
        shown.push(format!("and {} more", all.len() - NAMED));
    }
    shown.join(", ")
}
