//! What the demo prints: the commands to observe it, changes, and the next steps.

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use muster_dashboard::{Fleet, Shape};
use muster_fleet as fleet;
use muster_fleet::Extent;

use super::{directory::Directory, name::Name, narrator::Narrator, plane::NAMESPACE};

/// Printed at the start.
pub(crate) fn print_next_commands(directory: &Directory, clusters: &[Name], reporter: &Narrator) {
    let path = directory.path().display();
    let names: Vec<String> = clusters.iter().map(Name::to_string).collect();
    reporter.line(&format!(
        "muster demo: a management cluster and {} simulated clusters ({})",
        clusters.len(),
        names.join(", ")
    ));
    reporter.line("The clusters are simulated: their API servers run in this process, and their pods only report that they run.");
    reporter.line("Git, HTTPS, the controller and the agents are real.\n");
    reporter.line("In another terminal:");
    reporter.line(&format!("  export D={path}"));
    reporter.line(&format!("  export KUBECONFIG={path}/management.kubeconfig"));
    reporter.line("  kubectl get modules,bootstrapmodules,clusters");
    // If the path of the program is unknown, its usual name is used.
    let command =
        std::env::current_exe().map_or_else(|_| "muster".to_owned(), |path| path.display().to_string());
    reporter.line(&format!("  alias muster={command}"));
    reporter.line("  muster matrix -w                 # Ctrl-C stops it; in a browser: muster dashboard");
    if let Some(first) = names.first() {
        reporter.line(&format!(
            "  kubectl --kubeconfig {path}/clusters/{first}.kubeconfig get deployments -A"
        ));
    }
    // A module alone must never make `diff` read a directory of this machine.
    reporter.line(
        "  muster diff module/podinfo --allow-insecure-sources   # drift; the repository is a file:// URL\n",
    );
}

/// Printed once everything is created and the first rollout is done.
fn what_next(directory: &Directory, clusters: &[Name], nodes: bool, reporter: &Narrator) {
    reporter.line("\nEverything is up to date. Now roll out a new version: just commit and tag.");
    reporter.line(&format!("  cd {}", directory.fleet().display()));
    let next = if nodes { NEXT_OF_NODES } else { NEXT };
    for line in next.lines() {
        reporter.line(line);
    }
    if let Some(last) = clusters.last() {
        reporter.line(&format!("\n{}", join_and_leave(last)));
    }
    reporter.line("\nCtrl-C stops everything.");
}

/// The commands to try; the tour (`muster demo --tour`) runs them.
const NEXT: &str = "  sed -i 's/podinfo:6.0.0/podinfo:6.1.0/' apps/podinfo/deployment.yaml
  sed -i 's/tag: v1.0.0/tag: v1.1.0/' modules/podinfo.yaml
  muster plan -f modules            # what it would do; nothing is written
  git commit -am 'podinfo 6.1.0' && git tag v1.1.0
  muster rollout status module/podinfo --tag v1.1.0

Then break it (an image with 'bad' in its name cannot be pulled), ask why, and recover:
  sed -i 's/podinfo:6.1.0/podinfo:bad/' apps/podinfo/deployment.yaml
  sed -i 's/tag: v1.1.0/tag: v1.2.0/' modules/podinfo.yaml
  git commit -am 'podinfo bad' && git tag v1.2.0
  muster rollout status module/podinfo --tag v1.2.0
  muster why module/podinfo
  git revert --no-edit HEAD
  muster rollout status module/podinfo --tag v1.1.0
";

/// The same for a NodeModule: the Module delivers it to one cluster after another, where it is rolled out node by node.
const NEXT_OF_NODES: &str = "  cat ../nodes/dev-1/worker-1/etc/sysctl.d/90-fleet.conf
  sed -i 's/= 262144/= 524288/' apps/nodes/sysctl.yaml
  sed -i 's/tag: v1.0.0/tag: v1.1.0/' modules/nodes.yaml
  git commit -am 'vm.max_map_count 524288' && git tag v1.1.0
  muster rollout status module/nodes --tag v1.1.0

Then break it (a parameter with 'bad' in its name is refused by the simulated sysctl), ask why, and recover:
  sed -i 's/vm.max_map_count/vm.bad_count/' apps/nodes/sysctl.yaml
  sed -i 's/tag: v1.1.0/tag: v1.2.0/' modules/nodes.yaml
  git commit -am 'vm.bad_count' && git tag v1.2.0
  muster rollout status module/nodes --tag v1.2.0
  muster why nodemodule/sysctl --kubeconfig ../clusters/dev-1.kubeconfig
  cat ../nodes/dev-1/worker-*/etc/sysctl.d/90-fleet.conf      # as before: the node rolled it back, the others never got it
  git revert --no-edit HEAD
  muster rollout status module/nodes --tag v1.1.0
";

/// How to enroll the remaining cluster, and to disconnect another one for a while.
fn join_and_leave(cluster: &Name) -> String {
    let spare = Name::spare();
    format!(
        "Enroll another cluster, and unplug one:
  muster enroll --downstream-kubeconfig ../clusters/{spare}.kubeconfig --name {spare} -l env=prod,region=ap --bootstrap --no-agent
  touch ../clusters/{cluster}.unplugged
  muster matrix -w                 # ? {cluster} within half a minute; Ctrl-C stops it
  rm ../clusters/{cluster}.unplugged"
    )
}

/// A line for each module and cluster whose reason changes, until a permanent error.
pub(crate) async fn what_moves(
    client: &Client,
    directory: &Directory,
    clusters: &[Name],
    nodes: bool,
    reporter: &Narrator,
) -> anyhow::Result<()> {
    let mut printed = BTreeMap::new();
    let (mut is_ready, mut invited) = (false, false);
    let mut snapshots = fleet::follow(client, NAMESPACE, Extent::Fleet);
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        if !snapshot.is_complete {
            continue;
        }
        let fleet = snapshot.fleet();
        if !is_ready && fleet.modules.iter().any(|module| module.observed) {
            is_ready = true;
            reporter.line("ready\n");
        }
        changes(fleet, &mut printed, reporter);
        if !invited
            && is_ready
            && fleet
                .modules
                .iter()
                .all(|module| module.ready == "True" && module.observed)
        {
            invited = true;
            what_next(directory, clusters, nodes, reporter);
        }
    }
    Ok(())
}

/// The last printed reason and version of a module in a cluster.
type PrintedReasons = BTreeMap<(String, String), (String, Option<String>)>;

fn changes(fleet: &Fleet, printed: &mut PrintedReasons, reporter: &Narrator) {
    for module in &fleet.modules {
        // A message that several clusters share is printed once.
        let mut last_message: Option<&str> = None;
        for cell in module
            .cells
            .iter()
            .filter(|cell| !matches!(cell.shape, Shape::NotSelected | Shape::Unknown))
        {
            let key = (format!("{}/{}", module.kind, module.name), cell.cluster.clone());
            let state = (cell.reason.clone(), cell.version.clone());
            if printed.get(&key) == Some(&state) {
                continue;
            }
            let again = cell.shape == Shape::WaitsForYou && last_message == Some(&cell.message);
            last_message = Some(&cell.message);
            let quiet = again || cell.shape == Shape::Waiting || cell.message.is_empty();
            let message = if quiet {
                String::new()
            } else {
                format!(": {}", cell.message)
            };
            let version = cell.version.as_deref().unwrap_or("-");
            reporter.line(&format!(
                "{} {:<10} {:<8} {:<8} {}{message}",
                cell.shape.glyph(),
                module.name,
                cell.cluster,
                version,
                cell.reason
            ));
            printed.insert(key, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::name;

    #[test]
    fn what_is_proposed_to_be_unplugged_is_there() {
        for count in [1, 2, 5, 20] {
            let names = name::names(count);
            let text = join_and_leave(names.last().unwrap());
            let unplugged = text.lines().find_map(|line| {
                line.trim()
                    .strip_prefix("touch ../clusters/")?
                    .strip_suffix(".unplugged")
            });
            let is_there = names
                .iter()
                .any(|name| Some(name.to_string().as_str()) == unplugged);
            assert!(is_there && !text.contains("sixth"), "{count}: {text}");
        }
    }
}
