//! Completes names of objects in the management cluster. The type of an argument decides which names are offered.

use std::{any::TypeId, ffi::OsString, sync::Arc, thread, time::Duration};

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, core::ApiResource};
use muster_api::RolloutWindow;
use muster_fleet::{
    connect::{self, Target},
    hold_pin::Held,
    listing,
    name::{ModuleName, RolloutName, Top},
};

use crate::{
    args::Arguments,
    flags::{ClusterFlags, ClusterName, ContextName, ListedName, NodeName, WindowName},
    get::{self, Listed, ResourceType},
};

/// The longest time that completion waits for names.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was typed so far that decides where names are listed.
#[derive(Clone)]
struct Typed {
    cluster: Target,
    what: Option<ResourceType>,
}

/// The names that complete an argument.
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
    /// Everything that is held: `eu-1`, `module/podinfo`.
    Held,
    /// Names of the listed kind.
    Listed,
    /// `freeze-december`.
    Windows,
    /// Contexts of the kubeconfig.
    Contexts,
}

impl Names {
    /// The names for an argument, by the type of its value.
    fn of(arg: &Arg) -> Option<Self> {
        let types = [
            (TypeId::of::<ModuleName>(), Self::Modules),
            (TypeId::of::<RolloutName>(), Self::Rollouts),
            (TypeId::of::<ClusterName>(), Self::Clusters),
            (TypeId::of::<NodeName>(), Self::Nodes),
            (TypeId::of::<Top>(), Self::Tops),
            (TypeId::of::<Held>(), Self::Held),
            (TypeId::of::<ListedName>(), Self::Listed),
            (TypeId::of::<WindowName>(), Self::Windows),
            (TypeId::of::<ContextName>(), Self::Contexts),
        ];
        let found = arg.get_value_parser().type_id();
        let mut types = types.into_iter();
        types.find(|(wanted, _)| found == *wanted).map(|(_, names)| names)
    }

    /// The kinds whose objects are offered as `kind/name`.
    const fn with_kind(self) -> &'static [ResourceType] {
        match self {
            Self::Modules | Self::Tops | Self::Held => &[
                ResourceType::Modules,
                ResourceType::ClusterUpgrades,
                ResourceType::NodeModules,
            ],
            Self::Rollouts => &[
                ResourceType::Modules,
                ResourceType::ClusterUpgrades,
                ResourceType::ZoneRollouts,
                ResourceType::NodeModules,
            ],
            _ => &[],
        }
    }
}

/// The definition of the command, with completion of names. No request is made before a name is completed.
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
    with_name_completion(
        Arguments::command(),
        &Arc::new(Typed {
            cluster: cluster.target(),
            what,
        }),
    )
}

fn with_name_completion(command: Command, typed: &Arc<Typed>) -> Command {
    command
        .mut_args(|arg| match Names::of(&arg) {
            Some(names) => {
                let typed = Arc::clone(typed);
                arg.add(ArgValueCandidates::new(move || {
                    typed.candidates(names).unwrap_or_default()
                }))
            }
            None => arg,
        })
        .mut_subcommands(|below| with_name_completion(below, typed))
}

impl Typed {
    /// Empty if the server does not answer in time: an error would be printed into the line that is being typed.
    fn candidates(&self, names: Names) -> Option<Vec<CompletionCandidate>> {
        let this = self.clone();
        // Completion is synchronous but runs within a runtime, so it uses its own.
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
            return Ok(connect::contexts(&self.cluster)?);
        }
        let (client, namespace) = connect::client(&self.cluster).await?;
        let in_namespace = Some(namespace.as_str());
        let mut found = Vec::new();
        if let Names::Tops = names {
            found.push("fleet".to_owned());
        }
        for what in names.with_kind() {
            let namespace = in_namespace.filter(|_| !what.is_of_nodes());
            for kind in get::kinds(&client, *what).await? {
                let kind_word = kind.kind.to_lowercase();
                // A cluster serves only some of them: a downstream cluster only the last.
                let objects = listing::names(&client, namespace, &kind).await;
                let objects = objects.unwrap_or_default();
                found.extend(objects.into_iter().map(|name| format!("{kind_word}/{name}")));
            }
        }
        match names {
            Names::Clusters | Names::Held => {
                found.extend(of(&client, in_namespace, ResourceType::Clusters).await?);
            }
            Names::Tops => {
                let clusters = of(&client, in_namespace, ResourceType::Clusters).await?;
                found.extend(clusters.into_iter().map(|name| format!("cluster/{name}")));
            }
            Names::Nodes => {
                let kind = ApiResource::erase::<Node>(&());
                found.extend(listing::names(&client, None, &kind).await?);
            }
            Names::Windows => {
                let kind = ApiResource::erase::<RolloutWindow>(&());
                found.extend(listing::names(&client, in_namespace, &kind).await?);
            }
            Names::Listed => {
                if let Some(what) = self.what {
                    found.extend(of(&client, in_namespace, what).await?);
                }
            }
            Names::Modules | Names::Rollouts | Names::Contexts => {}
        }
        Ok(found)
    }
}

/// The names of the objects of the listed type.
async fn of(client: &Client, namespace: Option<&str>, what: ResourceType) -> anyhow::Result<Vec<String>> {
    let namespace = namespace.filter(|_| !what.is_of_nodes());
    let mut found = Vec::new();
    for kind in get::kinds(client, what).await? {
        found.extend(listing::names(client, namespace, &kind).await?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each argument that takes a name, as `verb argument`.
    fn with_names(command: &Command, found: &mut Vec<String>) {
        for arg in command.get_arguments() {
            if Names::of(arg).is_some() && !arg.is_global_set() {
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
