//! `muster rollout history` without a name: lists the modules that have a history, with the status of each.

use kube::Client;
use muster_api::kind::GROUP;
use muster_dashboard::ModuleView;
use muster_fleet as fleet;
use muster_fleet::history::{ModuleStanding, Standings};
use muster_sync::build::print;

use crate::{
    exit::DONE,
    flags::Output,
    output::{self, Out},
};

/// Prints the list, with the command that shows one history.
pub(crate) async fn list(client: &Client, namespace: &str, how: Output, out: &Out) -> anyhow::Result<u8> {
    let fleet = fleet::read(client, namespace).await?;
    let modules = Standings::of(&fleet);
    match how {
        Output::Json => out.json(&modules)?,
        Output::Yaml => out.text(&print::yaml(&serde_json::to_value(&modules)?))?,
        Output::Name => {
            let name =
                |view: &ModuleView| format!("{}.{GROUP}/{}", view.kind.as_str().to_lowercase(), view.name);
            out.lines(&fleet.modules.iter().map(name).collect::<Vec<_>>())?;
        }
        Output::Table | Output::Wide => match modules.modules.first() {
            None => complain!(out, "No modules found in {namespace} namespace."),
            Some(first) => {
                out.lines(&table(&modules.modules))?;
                say!(
                    out,
                    "\nThe revisions of a module: muster rollout history {} -n {namespace}",
                    first.module
                )?;
            }
        },
    }
    Ok(DONE)
}

fn table(modules: &[ModuleStanding]) -> Vec<String> {
    let mut table = output::table(["MODULE", "VERSION", "STATUS", "CLUSTERS"]);
    for ModuleStanding {
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
