//! Checks what currently blocks each opted-in Cluster from a version, before a ClusterUpgrade. Only reads.

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, stream};
use kube::{Client, ResourceExt as _, core::DynamicObject};
use muster_api::{
    cluster::asks_for_upgrades,
    labels::{MUSTER, annotation},
};
use muster_controllers::{
    runtime::call::error_chain,
    upgrade::{
        first::{Way, prospect},
        reading::Reader,
        version::Version,
    },
};
use muster_fleet as fleet;

use super::{code::Code, deep, finding::Finding};

/// The most names on one line.
const SHOWN: usize = 5;
/// How many Clusters are read concurrently.
const AT_ONCE: usize = 8;

/// Parses a version such as v1.34.2, or v1.34 for the oldest patch of that minor version.
pub fn version(text: &str) -> Result<Version, String> {
    Version::parse(text)
        .or_else(|| Version::parse(&format!("{text}.0")))
        .ok_or_else(|| format!("{text:?} is not a Kubernetes version: write v1.34 or v1.34.2"))
}

/// Checks each Cluster. An error is about the management cluster.
pub(crate) async fn check_upgrades(
    client: &Client,
    namespace: &str,
    target: Version,
) -> anyhow::Result<Vec<Finding>> {
    let Some(served) = fleet::served(client).await? else {
        bail!(
            "Clusters of Cluster API are not served here; next: name the management cluster with --context"
        );
    };
    let mut clusters = fleet::clusters(client, namespace, Some(served))
        .await
        .context("reading Clusters")?;
    clusters.sort_by_key(kube::ResourceExt::name_any);
    let opts_in = |cluster: &DynamicObject| asks_for_upgrades(cluster.annotations());
    let (asking, silent): (Vec<_>, Vec<_>) = clusters.into_iter().partition(opts_in);
    let reader = Reader::new(client.clone(), namespace);
    let reader = &reader;
    let findings = stream::iter(asking).map(|cluster| async move {
        let name = cluster.name_any();
        let there = deep::reach(client, namespace, &name).await;
        let way = prospect(reader, &name, target, there).await;
        finding(&name, target, way.map_err(|error| error_chain(&error)))
    });
    let mut findings: Vec<Finding> = findings.buffered(AT_ONCE).collect().await;
    if !silent.is_empty() {
        let names: Vec<String> = silent.iter().map(kube::ResourceExt::name_any).collect();
        let text = format!(
            "not opted in to ClusterUpgrades: {}",
            muster_dashboard::listed(names.iter().map(String::as_str), SHOWN)
        );
        let remedy = format!(
            "if it should: kubectl annotate cluster/{} -n {namespace} {}={MUSTER}",
            names.first().map_or("NAME", String::as_str),
            annotation::UPGRADES
        );
        findings.push(Finding::warning(Code::UpgradeAsked, text).remedy(remedy));
    }
    if findings.is_empty() {
        bail!("there are no Clusters in namespace {namespace}; next: name another with -n");
    }
    Ok(findings)
}

fn finding(name: &str, target: Version, way: Result<Option<Way>, String>) -> Finding {
    let text = format!("{name} cannot start {target} now");
    let found = match way {
        Ok(None) => Finding::ok(
            Code::UpgradeWay,
            format!("{name} asks for {target} or a newer version already"),
        ),
        Ok(Some(Way::Free)) => Finding::ok(Code::UpgradeWay, format!("{name} can have {target}")),
        Ok(Some(Way::NotYet(reason, message))) => with(
            Finding::warning(Code::UpgradeWay, text),
            reason.as_str(),
            &message,
        ),
        Ok(Some(Way::No(reason, message))) => with(
            Finding::problem(Code::UpgradeWay, text),
            reason.as_str(),
            &message,
        ),
        Err(why) => Finding::unknown(Code::UpgradeWay, &format!("Cluster {name}"), &why),
    };
    found.about(format!("cluster/{name}"))
}

/// The reason, its message, and separately the remedy.
fn with(finding: Finding, reason: &str, message: &str) -> Finding {
    match message.rsplit_once("; next: ") {
        Some((message, next)) => finding.reason(format!("{reason}: {message}")).remedy(next),
        None => finding.reason(format!("{reason}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::reasons::Reason;

    use super::{
        super::finding::{Level, Report},
        *,
    };

    #[test]
    fn a_minor_version_means_its_oldest_patch() {
        assert_eq!(version("v1.34"), version("v1.34.0"));
        assert_eq!(version("1.34.2"), Ok(Version::parse("v1.34.2").unwrap()));
        assert!(version("newest").unwrap_err().contains("write v1.34 or v1.34.2"));
    }

    #[test]
    fn what_ends_by_itself_is_a_warning_and_what_does_not_a_problem() {
        let target = Version::parse("v1.34.2").unwrap();
        let found = |way| finding("c-1", target, way);
        let message = "it is at v1.30.0; next: upgrade it to v1.31.0 first".to_owned();
        let skewed = found(Ok(Some(Way::No(Reason::VersionSkew, message))));
        assert_eq!(skewed.level, Level::Problem);
        assert_eq!(skewed.reason.as_deref(), Some("VersionSkew: it is at v1.30.0"));
        assert_eq!(skewed.remedy.as_deref(), Some("upgrade it to v1.31.0 first"));
        let waits = found(Ok(Some(Way::NotYet(Reason::Remediating, "a Machine".to_owned()))));
        assert_eq!(waits.level, Level::Warning);
        assert_eq!(found(Err("no route".to_owned())).level, Level::Unknown);
        let free = found(Ok(Some(Way::Free)));
        assert_eq!(
            (free.level, free.about.as_deref()),
            (Level::Ok, Some("cluster/c-1"))
        );
        assert_eq!(Report::new("fleet", vec![free]).result, Level::Ok);
    }
}
