//! `muster rollout history` without a name: the modules that have a history, and how each stands.

use kube::Client;
use muster_api::kind::GROUP;
use muster_dashboard::{Fleet, ModuleView};
use muster_fleet as fleet;
use muster_sync::build::print;
use serde::Serialize;

use crate::{exit::DONE, flags::Output, output};

/// The modules of a namespace: `modules/v1`.
#[derive(Debug, Serialize)]
struct Modules {
    schema: &'static str,
    modules: Vec<Standing>,
}

/// Where a module stands.
#[derive(Debug, Serialize)]
struct Standing {
    /// The module: `module/podinfo`.
    module: String,
    /// The version that it asks for.
    version: String,
    /// The reason of its condition Ready.
    reason: String,
    /// How many clusters have that version, of how many.
    clusters: String,
}

impl Modules {
    fn of(fleet: &Fleet) -> Self {
        let standing = |view: &ModuleView| Standing {
            module: format!("{}/{}", view.kind.as_str().to_lowercase(), view.name),
            version: view.version.clone(),
            reason: view.reason.clone(),
            clusters: view.summary.clusters.clone(),
        };
        Self {
            schema: "modules/v1",
            modules: fleet.modules.iter().map(standing).collect(),
        }
    }
}

/// Prints them, with the command that shows the history of one.
pub(crate) async fn list(client: &Client, namespace: &str, how: Output) -> anyhow::Result<u8> {
    let fleet = fleet::read(client, namespace).await?;
    let modules = Modules::of(&fleet);
    match how {
        Output::Json => output::text(&(serde_json::to_string_pretty(&modules)? + "\n"))?,
        Output::Yaml => output::text(&print::yaml(&serde_json::to_value(&modules)?))?,
        Output::Name => {
            let name =
                |view: &ModuleView| format!("{}.{GROUP}/{}", view.kind.as_str().to_lowercase(), view.name);
            output::print(&fleet.modules.iter().map(name).collect::<Vec<_>>());
        }
        Output::Table | Output::Wide => match modules.modules.first() {
            None => complain!("No modules found in {namespace} namespace."),
            Some(first) => {
                output::print(&table(&modules.modules));
                say!(
                    "\nThe revisions of one: muster rollout history {} -n {namespace}",
                    first.module
                );
            }
        },
    }
    Ok(DONE)
}

fn table(modules: &[Standing]) -> Vec<String> {
    let mut table = output::table(["MODULE", "VERSION", "STATUS", "CLUSTERS"]);
    for Standing {
        module,
        version,
        reason,
        clusters,
    } in modules
    {
        table.add_row([module, version, reason, clusters]);
    }
    output::lines(&table)
}
