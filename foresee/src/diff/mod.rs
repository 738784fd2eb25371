//! What applying a directory would change in a cluster, and how the clusters of a module drifted.

mod drift;
mod how;
mod nodes;
mod print;

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, bail};
use kube::Client;
use muster_api::{flux::Kustomization, labels::annotation};
use muster_controllers::runtime::Api;
use muster_sync::apply::{Cluster, preview::Preview};

use self::how::{CALL, How};
pub use self::{
    drift::{Options, module},
    nodes::{NodesCompared, nodes},
};
use crate::directory;

/// The result of a comparison, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Differs {
    /// No difference.
    No,
    /// Differences were found.
    Yes,
    /// Something could not be compared.
    Unknown,
}

impl Differs {
    fn of(preview: &Preview) -> Self {
        match (preview.failures.is_empty(), preview.changes.is_empty()) {
            (false, _) => Self::Unknown,
            (true, false) => Self::Yes,
            (true, true) => Self::No,
        }
    }
}

/// The result of a comparison with its output.
#[derive(Debug)]
pub struct Compared {
    /// Whether there is a difference.
    pub differs: Differs,
    /// What could not be compared, one message each.
    pub errors: Vec<String>,
    /// The differences, colored for a terminal; empty if nothing could be compared.
    pub texts: Vec<String>,
    /// Further notices.
    pub note: Option<String>,
}

/// What would be created, changed and deleted if the directory were applied, plainly or as this Kustomization of the
/// namespace does it. Nothing is written.
pub async fn diff_directory(
    (client, namespace): (Client, &str),
    path: &Path,
    substitute: BTreeMap<String, String>,
    kustomization: Option<&str>,
) -> anyhow::Result<Compared> {
    let how = match kustomization {
        Some(name) => How::of(&client, here(&client, namespace, name).await?).await?,
        None => How::default(),
    };
    let mut variables = how.variables.clone();
    variables.extend(substitute);
    let manifests = match directory::manifests(path, variables) {
        Ok(manifests) => manifests,
        Err(wrong) => {
            let withheld = || {
                format!(
                    "variables of {} are not read for a diff; give them with --substitute",
                    how.withheld.join(", ")
                )
            };
            return Ok(Compared {
                differs: Differs::Unknown,
                errors: wrong.messages,
                texts: Vec::new(),
                note: (!how.withheld.is_empty()).then(withheld),
            });
        }
    };
    if manifests.is_empty() && !how.inventory.is_empty() && !how.allow_empty {
        bail!(
            "{} contains no objects, and everything would be pruned: the sync refuses that without the annotation {}",
            path.display(),
            annotation::ALLOW_EMPTY
        );
    }
    let preview = how.preview(&Cluster::new(client, CALL), &manifests).await?;
    let failures = preview.failures.iter();
    Ok(Compared {
        differs: Differs::of(&preview),
        errors: failures
            .map(|failure| format!("{}{failure}", print::position_prefix(&manifests, &failure.id)))
            .collect(),
        texts: vec![print::diff_text(&preview, &manifests, "directory")],
        note: None,
    })
}

/// A Kustomization that applies to its own cluster.
async fn here(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Kustomization> {
    let api: Api<Kustomization> = Api::namespaced(client.clone(), namespace);
    let kustomization = api
        .get(name)
        .await
        .with_context(|| format!("reading Kustomization {namespace}/{name}"))?;
    if kustomization.spec.kube_config.is_some() {
        bail!(
            "Kustomization {namespace}/{name} applies to another cluster (spec.kubeConfig): name that one with --kubeconfig, and omit --kustomization"
        );
    }
    Ok(kustomization)
}
