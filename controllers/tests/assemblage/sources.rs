//! Promise: sources are shared by their content, and are deleted ten minutes after the last reference.

use std::time::Duration;

use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use muster_api::{
    Assemblage,
    flux::{GitRepository, Kustomization},
    names,
};
use serde_json::json;

use super::support::*;

async fn names_of_sources(cluster: &Cluster) -> Vec<String> {
    let mut names: Vec<String> = cluster
        .api::<GitRepository>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|source| source.name_any())
        .collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn assemblages_share_a_source_and_the_last_reference_decides() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    for name in ["eu-1", "eu-2"] {
        cluster.create(assemblage(name, &[row("web", OLD, 1)])).await;
    }
    for name in ["eu-1", "eu-2"] {
        cluster.carry_out(name, "web", OLD).await;
        cluster
            .until_state::<Assemblage>(name, "web", "1 Succeeded UpToDate")
            .await;
    }
    let (old, new) = (names::source(URL, OLD, None), names::source(URL, NEW, None));
    assert_eq!(names_of_sources(&cluster).await, std::slice::from_ref(&old));

    cluster
        .set_rows::<Assemblage>("eu-1", &[row("web", NEW, 2)])
        .await;
    cluster.carry_out("eu-1", "web", NEW).await;
    pass(Duration::from_hours(1)).await;
    assert_eq!(
        names_of_sources(&cluster).await.len(),
        2,
        "eu-2 still refers to it"
    );

    let theirs: Kustomization = serde_json::from_value(json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "theirs"},
        "spec": {"interval": "1m", "prune": false, "sourceRef": {"kind": "GitRepository", "name": old}},
    })).unwrap();
    cluster.create(theirs).await;
    cluster
        .set_rows::<Assemblage>("eu-2", &[row("web", NEW, 2)])
        .await;
    cluster.carry_out("eu-2", "web", NEW).await;
    pass(Duration::from_hours(1)).await;
    assert_eq!(
        names_of_sources(&cluster).await.len(),
        2,
        "another Kustomization refers to it"
    );

    cluster
        .api::<Kustomization>()
        .delete("theirs", &DeleteParams::default())
        .await
        .unwrap();
    pass(Duration::from_mins(9)).await;
    assert_eq!(names_of_sources(&cluster).await.len(), 2, "it lingers");
    pass(Duration::from_mins(3)).await;
    assert_eq!(names_of_sources(&cluster).await, [new]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_not_ours_is_left_alone() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let theirs: GitRepository = serde_json::from_value(json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": "theirs"},
        "spec": {"interval": "1m", "url": URL},
    }))
    .unwrap();
    let theirs = cluster.create(theirs).await;
    pass(Duration::from_hours(1)).await;
    let now: GitRepository = cluster.api().get("theirs").await.unwrap();
    assert_eq!(now.resource_version(), theirs.resource_version());
}
