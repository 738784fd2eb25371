//! `muster diff`: what applying a folder would change in a cluster, and what in clusters is not as a module has it.

mod drift;
mod how;
mod print;

use anyhow::{Context as _, bail};
use kube::Client;
use muster_api::{flux::Kustomization, labels::annotation};
use muster_controllers::runtime::Api;
use muster_fleet::connect::{self, Target};
use muster_sync::apply::Cluster;

use self::how::{CALL, How};
use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::{DiffFlags, FolderFlags},
    folder, nodes, output,
};

/// Shows what would be created, changed and deleted. Writes nothing.
pub async fn run(cluster: &Target, flags: DiffFlags) -> anyhow::Result<u8> {
    if let Some(wrong) = flags.misplaced() {
        bail!(wrong);
    }
    if let Some(module) = flags.module() {
        let module = module?;
        if module.is_of_nodes() {
            let (client, _) = connect::client(cluster).await?;
            return nodes::diff(&client, &module, &flags).await;
        }
        return drift::run(cluster, &module, &flags).await;
    }
    let DiffFlags {
        what: path,
        substitute,
        kustomization,
        ..
    } = flags;
    let folder = FolderFlags { path, substitute };
    let (client, namespace) = connect::client(cluster).await?;
    let how = match &kustomization {
        Some(name) => How::of(&client, here(&client, &namespace, name).await?).await?,
        None => How::default(),
    };
    let manifests = match folder::manifests(&folder, how.variables.clone()) {
        Ok(manifests) => manifests,
        Err(wrong) => {
            for message in &wrong.messages {
                complain!("error: {message}");
            }
            if !how.withheld.is_empty() {
                complain!(
                    "variables of {} are not read for a diff; give them with --substitute",
                    how.withheld.join(", ")
                );
            }
            return Ok(UNKNOWN);
        }
    };
    if manifests.is_empty() && !how.inventory.is_empty() && !how.allow_empty {
        bail!(
            "{} holds no objects, and everything would be pruned: the sync refuses that without the annotation {}",
            folder.path.display(),
            annotation::ALLOW_EMPTY
        );
    }
    let preview = how.preview(&Cluster::new(client, CALL), &manifests).await?;
    for failure in &preview.failures {
        complain!("error: {}{failure}", print::place(&manifests, &failure.id));
    }
    output::text(&print::text(&preview, &manifests, "folder"))?;
    Ok(match (preview.failures.is_empty(), preview.changes.is_empty()) {
        (false, _) => UNKNOWN,
        (true, false) => FAILED,
        (true, true) => DONE,
    })
}

/// A Kustomization that applies to the cluster that it is in.
async fn here(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Kustomization> {
    let api: Api<Kustomization> = Api::namespaced(client.clone(), namespace);
    let kustomization = api
        .get(name)
        .await
        .with_context(|| format!("reading Kustomization {namespace}/{name}"))?;
    if kustomization.spec.kube_config.is_some() {
        bail!(
            "Kustomization {namespace}/{name} applies to another cluster (spec.kubeConfig): name that one with --kubeconfig, and leave --kustomization out"
        );
    }
    Ok(kustomization)
}
