//! How the objects of a directory are applied to a cluster: plainly, or as a Kustomization does it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use muster_api::{
    flux::{Kustomization, PostBuild, SubstituteSourceKind},
    labels::annotation,
};
use muster_controllers::runtime::Api;
use muster_sync::{
    apply::{
        self, Cluster, Options, Owner,
        preview::{self, Ownership, Preview},
    },
    build::Manifest,
    inventory::Inventory,
    plan,
};

/// How long one request may take.
pub(crate) const CALL: Duration = Duration::from_secs(30);

/// How the objects are applied.
pub(crate) struct How {
    /// Owner, namespace and other options of the apply.
    pub options: Options,
    /// How the labels of the owner are set.
    pub ownership: Ownership,
    /// The variables of the manifests.
    pub variables: BTreeMap<String, String>,
    /// Sources of variables that are not read.
    pub withheld: Vec<String>,
    /// Objects that were applied before.
    pub inventory: Inventory,
    /// Whether objects of the inventory that the directory no longer has would be pruned.
    pub prunes: bool,
    /// Whether a plan decides the order: Jobs belong to its runs, and what no run has applied belongs to other plans.
    pub has_plan: bool,
    /// Whether an empty directory is allowed.
    pub allow_empty: bool,
}

impl Default for How {
    /// Without a Kustomization: there is no owner, and nothing is pruned.
    fn default() -> Self {
        let owner = Owner {
            name: String::new(),
            namespace: String::new(),
        };
        Self {
            options: Options {
                owner,
                target_namespace: None,
                force: false,
                timeout: CALL,
            },
            ownership: Ownership::AsItIs,
            variables: BTreeMap::new(),
            withheld: Vec::new(),
            inventory: Inventory::default(),
            prunes: false,
            has_plan: false,
            allow_empty: false,
        }
    }
}

impl How {
    /// As a Kustomization in the same cluster applies it.
    pub(crate) async fn of(client: &Client, kustomization: Kustomization) -> anyhow::Result<Self> {
        let Kustomization {
            metadata,
            spec,
            status,
        } = kustomization;
        let name = metadata.name.unwrap_or_default(); // an object from the API server has both
        let namespace = metadata.namespace.unwrap_or_default();
        let (variables, withheld) =
            variables(client, &namespace, spec.post_build.unwrap_or_default()).await?;
        let inventory = status.and_then(|status| status.inventory);
        let annotations = metadata.annotations.unwrap_or_default();
        let allow_empty = annotations
            .get(annotation::ALLOW_EMPTY)
            .is_some_and(|allow| allow == "true");
        Ok(Self {
            options: Options {
                owner: Owner { name, namespace },
                target_namespace: spec.target_namespace,
                force: spec.force.unwrap_or_default(),
                timeout: CALL,
            },
            ownership: Ownership::OfPlan,
            variables,
            withheld,
            inventory: Inventory::from_status(inventory.as_ref()),
            prunes: spec.prune,
            has_plan: annotations.contains_key(annotation::PLAN),
            allow_empty,
        })
    }

    /// What applying these objects would change.
    pub(crate) async fn preview(self, cluster: &Cluster, manifests: &[Manifest]) -> anyhow::Result<Preview> {
        let of_run = |manifest: &&Manifest| self.has_plan && plan::is_job(manifest);
        let lasting = manifests.iter().filter(|manifest| !of_run(manifest));
        let objects = lasting.map(|manifest| manifest.object.clone()).collect();
        let mut plan = apply::plan(cluster, objects, self.options).await?;
        if self.has_plan {
            plan = plan.only(&self.inventory);
        }
        let mut unwanted = self.inventory.pruned_by(&plan.inventory());
        unwanted.retain(|(id, _)| self.prunes && !(self.has_plan && id.is_job()));
        Ok(preview::preview(cluster, &plan, self.ownership, &unwanted).await)
    }
}

/// The variables of a Kustomization, and the sources that are not read: Secrets are not.
async fn variables(
    client: &Client,
    namespace: &str,
    post_build: PostBuild,
) -> anyhow::Result<(BTreeMap<String, String>, Vec<String>)> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let (mut variables, mut withheld) = (BTreeMap::new(), Vec::new());
    for reference in post_build.substitute_from {
        let name = &reference.name;
        match reference.kind {
            SubstituteSourceKind::Secret => withheld.push(format!("Secret/{name}")),
            SubstituteSourceKind::ConfigMap => {
                let found = api
                    .get_opt(name)
                    .await
                    .with_context(|| format!("reading ConfigMap {namespace}/{name}"))?;
                match found {
                    Some(found) => variables.extend(found.data.unwrap_or_default()),
                    None if reference.optional == Some(true) => {}
                    None => bail!("substitute from ConfigMap {namespace}/{name}: it does not exist"),
                }
            }
        }
    }
    variables.extend(post_build.substitute);
    Ok((variables, withheld))
}
