//! Names that stand in the management cluster, offered to whoever presses the tab key.

use std::{ffi::OsString, sync::Arc, thread, time::Duration};

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Client, ResourceExt,
    api::ListParams,
    config::Kubeconfig,
    core::{ApiResource, DynamicObject},
};
use muster_api::{
    RolloutWindow,
    node::{NodeAssemblage, NodeModule, NodeRevision},
};
use muster_controllers::runtime::Api;
use muster_fleet::connect::{self, Target};

use crate::{
    args::Arguments,
    flags::{ClusterFlags, Listed, What},
    get,
};

/// Nobody waits longer for a name.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was typed so far, as far as it says where names are looked for.
#[derive(Clone)]
struct Typed {
    cluster: Target,
    what: Option<What>,
}

/// The names that an argument takes.
#[derive(Clone, Copy)]
enum Names {
    /// `module/podinfo`.
    Modules,
    /// `module/podinfo`, `nodemodule/fabric`, `zonerollout/ingester-1a2b3c`.
    Rollouts,
    /// `eu-1`.
    Clusters,
    /// `n1`.
    Nodes,
    /// `fleet`, `module/podinfo`, `cluster/eu-1`.
    Tops,
    /// What is held: `eu-1`, `module/podinfo`.
    Held,
    /// Of the kind that is listed.
    Listed,
    /// `freeze-december`.
    Windows,
    /// Contexts of the kubeconfig.
    Contexts,
}

/// The definition of the command, with names for the arguments that take one. Nobody is asked before a name is wanted.
pub(crate) fn command(words: &[OsString]) -> Command {
    let lenient = Arguments::command().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(words) else {
        return Arguments::command();
    };
    let Ok(cluster) = ClusterFlags::from_arg_matches(&matches) else {
        return Arguments::command();
    };
    let get = matches.subcommand_matches("get");
    let what = get.and_then(|get| {
        get.try_get_one::<Listed>("what")
            .ok()
            .flatten()
            .map(|listed| listed.what)
    });
    named(
        Arguments::command(),
        &Arc::new(Typed {
            cluster: cluster.target(),
            what,
        }),
    )
}

fn named(command: Command, typed: &Arc<Typed>) -> Command {
    let verb = command.get_name().to_owned();
    command
        .mut_args(|arg| match names(&verb, &arg) {
            Some(names) => {
                let typed = Arc::clone(typed);
                arg.add(ArgValueCandidates::new(move || {
                    typed.candidates(names).unwrap_or_default()
                }))
            }
            None => arg,
        })
        .mut_subcommands(|below| named(below, typed))
}

fn names(verb: &str, arg: &Arg) -> Option<Names> {
    match (verb, arg.get_id().as_str()) {
        ("hold" | "release", "top") => Some(Names::Held),
        (_, "top") => Some(Names::Tops),
        // A record has clusters of its own.
        ("replay", _) => None,
        ("get", "name") => Some(Names::Listed),
        ("unenroll", "name") | ("hold" | "release", "clusters") | (_, "cluster") => Some(Names::Clusters),
        (_, "node" | "nodes") if arg.get_action().takes_values() => Some(Names::Nodes),
        (_, "module") => Some(Names::Modules),
        ("bypass", "window") => Some(Names::Windows),
        (_, "rollout") => Some(Names::Rollouts),
        (_, "context" | "downstream_context") => Some(Names::Contexts),
        _ => None,
    }
}

impl Typed {
    /// None if nobody answers in time: an error would stand in the middle of what is being typed.
    fn candidates(&self, names: Names) -> Option<Vec<CompletionCandidate>> {
        let this = self.clone();
        // The completion is not asynchronous, and runs within a runtime: it needs one of its own.
        let asking = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .ok()?;
            runtime.block_on(async {
                let found = tokio::time::timeout(PATIENCE, this.find(names)).await;
                found.ok()?.ok()
            })
        });
        let found = asking.join().ok()??;
        Some(found.into_iter().map(CompletionCandidate::new).collect())
    }

    async fn find(&self, names: Names) -> anyhow::Result<Vec<String>> {
        if let Names::Contexts = names {
            return self.contexts();
        }
        let (client, namespace) = connect::client(&self.cluster).await?;
        let mut found = Vec::new();
        if let Names::Tops = names {
            found.push("fleet".to_owned());
        }
        if let Names::Modules | Names::Tops | Names::Held = names {
            let of_nodes = get::kinds(&client, What::NodeModules).await?;
            let upgrades = get::kinds(&client, What::ClusterUpgrades).await?;
            let modules = get::kinds(&client, What::Modules).await?;
            for kind in modules.into_iter().chain(upgrades).chain(of_nodes) {
                let kind_word = kind.kind.to_lowercase();
                // A cluster serves some of them: a downstream one the last.
                let modules = named_objects(&client, &namespace, &kind).await;
                let modules = modules.unwrap_or_default();
                found.extend(modules.into_iter().map(|name| format!("{kind_word}/{name}")));
            }
        }
        if let Names::Rollouts = names {
            // A cluster serves the one or the other.
            for what in [
                What::Modules,
                What::ClusterUpgrades,
                What::ZoneRollouts,
                What::NodeModules,
            ] {
                for kind in get::kinds(&client, what).await? {
                    let kind_word = kind.kind.to_lowercase();
                    let there = named_objects(&client, &namespace, &kind)
                        .await
                        .unwrap_or_default();
                    found.extend(there.into_iter().map(|name| format!("{kind_word}/{name}")));
                }
            }
        }
        if let Names::Clusters | Names::Tops | Names::Held = names {
            let before = if let Names::Tops = names { "cluster/" } else { "" };
            for kind in get::kinds(&client, What::Clusters).await? {
                let clusters = named_objects(&client, &namespace, &kind).await?;
                found.extend(clusters.into_iter().map(|name| format!("{before}{name}")));
            }
        }
        if let Names::Nodes = names {
            let kind = ApiResource::erase::<Node>(&());
            found.extend(named_objects(&client, "", &kind).await?);
        }
        if let Names::Windows = names {
            let kind = ApiResource::erase::<RolloutWindow>(&());
            found.extend(named_objects(&client, &namespace, &kind).await?);
        }
        if let (Names::Listed, Some(what)) = (names, self.what) {
            for kind in get::kinds(&client, what).await? {
                found.extend(named_objects(&client, &namespace, &kind).await?);
            }
        }
        Ok(found)
    }

    fn contexts(&self) -> anyhow::Result<Vec<String>> {
        let kubeconfig = match &self.cluster.kubeconfig {
            Some(file) => Kubeconfig::read_from(file)?,
            None => Kubeconfig::read()?,
        };
        Ok(kubeconfig
            .contexts
            .into_iter()
            .map(|context| context.name)
            .collect())
    }
}

async fn named_objects(client: &Client, namespace: &str, kind: &ApiResource) -> anyhow::Result<Vec<String>> {
    let of_nodes = [
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<NodeModule>(&()),
        ApiResource::erase::<NodeAssemblage>(&()),
        ApiResource::erase::<NodeRevision>(&()),
    ];
    let api: Api<DynamicObject> = if of_nodes.contains(kind) {
        Api::all_with(client.clone(), kind)
    } else {
        Api::namespaced_with(client.clone(), namespace, kind)
    };
    let list = api.list_metadata(&ListParams::default()).await?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each argument that takes a name, as `verb argument`.
    fn with_names(command: &Command, found: &mut Vec<String>) {
        for arg in command.get_arguments() {
            if names(command.get_name(), arg).is_some() && !arg.is_global_set() {
                found.push(format!("{} {}", command.get_name(), arg.get_id()));
            }
        }
        for below in command.get_subcommands() {
            with_names(below, found);
        }
    }

    #[test]
    fn what_takes_a_name_is_offered_names() {
        let mut found = Vec::new();
        with_names(&Arguments::command(), &mut found);
        insta::assert_snapshot!(found.join("\n"));
    }
}
