//! `muster diff`: what applying a folder would change in a cluster.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use muster_api::{
    flux::{Kustomization, PostBuild, SubstituteSourceKind},
    labels::annotation,
};
use muster_sync::{
    apply::{
        self, Cluster, Options, Owner,
        preview::{self, Change, Fate, Ownership, Preview},
    },
    build::{Manifest, print},
    inventory::{Inventory, ObjectId},
};
use similar::TextDiff;

use crate::{
    DONE, FAILED, UNKNOWN,
    args::{ClusterFlags, DiffFlags},
    connect, folder, output,
};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);
/// Lines around a change.
const CONTEXT: usize = 3;
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Shows what would be created, changed and deleted. Writes nothing.
pub async fn run(cluster: &ClusterFlags, flags: DiffFlags) -> anyhow::Result<u8> {
    let DiffFlags {
        folder,
        kustomization,
    } = flags;
    let (client, namespace) = connect::client(cluster).await?;
    let how = match &kustomization {
        Some(name) => How::of(&client, &namespace, name).await?,
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
        complain!("error: {}{failure}", place(&manifests, &failure.id));
    }
    output::text(&text(&preview, &manifests))?;
    Ok(match (preview.failures.is_empty(), preview.changes.is_empty()) {
        (false, _) => UNKNOWN,
        (true, false) => FAILED,
        (true, true) => DONE,
    })
}

/// How the objects are applied.
struct How {
    options: Options,
    ownership: Ownership,
    variables: BTreeMap<String, String>,
    /// Sources of variables that are not read.
    withheld: Vec<String>,
    /// What would be pruned if it is not in the folder.
    inventory: Inventory,
    allow_empty: bool,
}

impl Default for How {
    /// Without a Kustomization: nothing is known of an owner, and nothing is pruned.
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
            allow_empty: false,
        }
    }
}

impl How {
    /// As a Kustomization does it.
    async fn of(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let api: Api<Kustomization> = Api::namespaced(client.clone(), namespace);
        let Kustomization {
            metadata,
            spec,
            status,
        } = api
            .get(name)
            .await
            .with_context(|| format!("reading Kustomization {namespace}/{name}"))?;
        if spec.kube_config.is_some() {
            bail!(
                "Kustomization {namespace}/{name} applies to another cluster (spec.kubeConfig): name that one with --kubeconfig, and leave --kustomization out"
            );
        }
        let (variables, withheld) = variables(client, namespace, spec.post_build.unwrap_or_default()).await?;
        let inventory = status.filter(|_| spec.prune).and_then(|status| status.inventory);
        let allow_empty = metadata.annotations.is_some_and(|annotations| {
            annotations
                .get(annotation::ALLOW_EMPTY)
                .is_some_and(|allow| allow == "true")
        });
        Ok(Self {
            options: Options {
                owner: Owner {
                    name: name.to_owned(),
                    namespace: namespace.to_owned(),
                },
                target_namespace: spec.target_namespace,
                force: spec.force.unwrap_or_default(),
                timeout: CALL,
            },
            ownership: Ownership::OfPlan,
            variables,
            withheld,
            inventory: Inventory::from_status(inventory.as_ref()),
            allow_empty,
        })
    }

    async fn preview(self, cluster: &Cluster, manifests: &[Manifest]) -> anyhow::Result<Preview> {
        let objects = manifests.iter().map(|manifest| manifest.object.clone()).collect();
        let plan = apply::plan(cluster, objects, self.options).await?;
        let unwanted = self.inventory.pruned_by(&plan.inventory());
        Ok(preview::preview(cluster, &plan, self.ownership, &unwanted).await)
    }
}

/// The variables of a Kustomization, and where others come from that are not read: Secrets stay where they are.
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
                    None => bail!("substitute from ConfigMap {namespace}/{name}: it is not there"),
                }
            }
        }
    }
    variables.extend(post_build.substitute);
    Ok((variables, withheld))
}

/// Every change as a unified diff, then how many there are.
fn text(preview: &Preview, manifests: &[Manifest]) -> String {
    let mut text: String = preview
        .changes
        .iter()
        .map(|change| block(change, manifests))
        .collect();
    let count = |fate| {
        preview
            .changes
            .iter()
            .filter(|change| change.fate == fate)
            .count()
    };
    let counts = [
        (count(Fate::Create), "to create"),
        (count(Fate::Configure), "to change"),
        (count(Fate::Recreate), "to delete and create again"),
        (count(Fate::Delete), "to delete"),
        (preview.failures.len(), "not found out"),
        (
            preview.owned.len(),
            "to be owned by muster-sync, content as it should be",
        ),
        (preview.unchanged, "as it should be"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    text.push_str(if counts.is_empty() { "no objects" } else { "" });
    text.push_str(&counts.join(", "));
    text.push('\n');
    text
}

fn block(change: &Change, manifests: &[Manifest]) -> String {
    let word = match change.fate {
        Fate::Create => "create",
        Fate::Configure => "change",
        Fate::Recreate => "delete and create again",
        Fate::Delete => "delete",
    };
    let yaml = |side: &Option<serde_json::Value>| side.as_ref().map(print::yaml).unwrap_or_default();
    let (before, after) = (yaml(&change.before), yaml(&change.after));
    let name = |side: &Option<serde_json::Value>, word: &str| match side {
        Some(_) => format!("{word}/{}", change.id),
        None => "/dev/null".to_owned(),
    };
    let diff = TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&name(&change.before, "live"), &name(&change.after, "folder"))
        .to_string();
    let lines: String = diff.lines().map(coloured).collect();
    format!(
        "{BOLD}{}{word} {}{PLAIN}\n{lines}\n",
        place(manifests, &change.id),
        change.id
    )
}

fn coloured(line: &str) -> String {
    match line.chars().next() {
        Some('-') => format!("{RED}{line}{PLAIN}\n"),
        Some('+') => format!("{GREEN}{line}{PLAIN}\n"),
        _ => format!("{line}\n"),
    }
}

/// Where an object is written, with a colon and a blank after it; empty for one that is not in the folder.
fn place(manifests: &[Manifest], id: &ObjectId) -> String {
    let named = || {
        manifests.iter().filter(|manifest| {
            let found = manifest.identity();
            (&found.group, &found.kind, &found.name) == (&id.group, &id.kind, &id.name)
        })
    };
    // A target namespace, or the scope of the kind, may have moved it to another namespace than is written.
    named()
        .find(|manifest| manifest.namespace().unwrap_or_default() == id.namespace)
        .or_else(|| named().next())
        .map(|manifest| format!("{}: ", manifest.origin))
        .unwrap_or_default()
}
