//! Promise: where Flux applies, a directory may contain what only Flux handles: a `kustomization.yaml`, a HelmRelease.
//! A version is in a cluster before muster reports it, and one that fails there stops at the first cluster.

use std::time::Duration;

use serde_json::json;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, Registry, kinds},
    fleet::{APPS, Quality, condition, manifests, workload},
};

/// How long a version that Helm installs may take over all clusters.
const HELM: Duration = Duration::from_mins(2);

/// Patches and images of a `kustomization.yaml` reach every cluster, in this version and in the next.
pub async fn kustomized(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    for (number, replicas) in [(1, 2), (2, 3)] {
        let version = format!("web-v{number}");
        // The manifest itself stays unchanged: Kustomize makes the difference.
        let (plain, kustomization) = (
            manifests("web", "base", Quality::Good),
            kustomization(&version, replicas),
        );
        bed.git.commit(&[
            ("apps/web/all.yaml", &plain),
            ("apps/web/kustomization.yaml", &kustomization),
        ]);
        bed.git.tag(&version);
        if number == 1 {
            bed.create_module(kinds::MODULE, "web", &version).await;
        } else {
            bed.target("web", &version).await;
        }
        bed.until_ready("web", &version).await;
        for cluster in CLUSTERS {
            let inside = bed.inside(cluster, APPS);
            let deployment = inside.get(kinds::DEPLOYMENT, "web").await.unwrap();
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["image"], format!("example.com/mirror:{version}"));
            assert_eq!(deployment["spec"]["replicas"], replicas, "{cluster}");
            assert_eq!(deployment["status"]["readyReplicas"], replicas, "{cluster}");
            assert_eq!(deployment["metadata"]["annotations"]["team"], "web");
            let config = inside.get(kinds::CONFIG_MAP, "web").await.unwrap();
            assert_eq!(
                config["data"]["cluster"], cluster,
                "substitution comes after Kustomize"
            );
        }
    }
    for version in ["web-v1", "web-v2"] {
        assert_eq!(bed.order(&workload("web"), version), CLUSTERS);
    }
    assert_eq!(bed.most_changing(&workload("web")), 1);
    let premature = bed.premature_claims("web");
    assert!(premature.is_empty(), "{premature:#?}");
    let summary = &bed.module("web").await["status"]["summary"];
    assert_eq!((&summary["updated"], &summary["ready"]), (&json!(3), &json!(3)));
}

fn kustomization(version: &str, replicas: u32) -> String {
    format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [all.yaml]\n\
         images: [{{name: example.com/web, newName: example.com/mirror, newTag: {version}}}]\n\
         patches:\n- target: {{kind: Deployment, name: web}}\n  patch: |\n    \
         - {{op: replace, path: /spec/replicas, value: {replicas}}}\n    \
         - {{op: add, path: /metadata/annotations, value: {{team: web}}}}\n"
    )
}

/// A HelmRelease is judged by its Ready condition: version 2, whose Deployment fails, stops at the first cluster; a
/// fixed one rolls out.
pub async fn helm_release_fails(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.start_helm(&CLUSTERS).await;
    let registry = bed.registry().await;
    for cluster in CLUSTERS {
        let secret = registry.certificate_secret("registry");
        bed.inside(cluster, APPS).create(kinds::SECRET, secret).await;
    }
    let version = release(&bed, &registry, 1, Quality::Good);
    let mut spec = bed.spec("web", &version);
    // A HelmRelease is a custom resource: with Flux it counts once it has been Ready for this long.
    spec["sync"]["package"]["settle"] = json!("3s");
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
    let took = bed.until_ready_within(kinds::MODULE, "web", &version, HELM).await;
    println!("a HelmRelease over {} clusters: {took:?}", CLUSTERS.len());
    assert_eq!(bed.order(&workload("web"), &version), CLUSTERS);
    let before = others(&bed).await;

    let version = release(&bed, &registry, 2, Quality::Bad);
    bed.target("web", &version).await;
    let module = bed.until_reason("web", "Failed", HELM).await;
    let message = condition(&module, "Ready").unwrap()["message"].as_str().unwrap();
    println!("{message}");
    for word in ["eu-1", "HelmRelease/default/web", "Failed"] {
        assert!(message.contains(word), "{word} is not named: {message}");
    }
    assert_eq!(module["status"]["summary"]["failed"], 1);
    assert_eq!(bed.order(&workload("web"), &version), ["eu-1"]);
    assert_eq!(others(&bed).await, before, "the other clusters keep version 1");

    let version = release(&bed, &registry, 3, Quality::Good);
    bed.target("web", &version).await;
    bed.until_ready_within(kinds::MODULE, "web", &version, HELM).await;
    assert_eq!(bed.order(&workload("web"), &version), CLUSTERS);
    assert_eq!(bed.most_changing(&workload("web")), 1);
    let premature = bed.premature_claims("web");
    assert!(premature.is_empty(), "{premature:#?}");
}

/// Pushes a chart, and commits and tags a directory that uses it.
fn release(bed: &Bed, registry: &Registry, number: u32, quality: Quality) -> String {
    let version = format!("web-v{number}");
    let template =
        manifests("web", &version, quality).replace("\"${CLUSTER}\"", "{{ .Values.cluster | quote }}");
    registry.push_chart(
        "charts",
        "web",
        &format!("{number}.0.0"),
        &[("templates/all.yaml", &template)],
    );
    bed.commit_version("web", &helm_release(registry.host(), number), &version);
    version
}

fn helm_release(host: &str, number: u32) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: {APPS}}}\n\
         spec: {{type: oci, url: \"oci://{host}/charts\", interval: 1m, certSecretRef: {{name: registry}}}}\n---\n\
         apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, namespace: {APPS}}}\n\
         spec:\n  interval: 1m\n  timeout: 10s\n  releaseName: web\n  values: {{cluster: \"${{CLUSTER}}\"}}\n  \
         chart: {{spec: {{chart: web, version: {number}.0.0, interval: 1m, sourceRef: {{kind: HelmRepository, name: charts}}}}}}\n"
    )
}

async fn others(bed: &Bed) -> Vec<Vec<String>> {
    let mut versions = Vec::new();
    for cluster in &CLUSTERS[1..] {
        versions.push(bed.resource_versions(cluster, "web").await);
    }
    versions
}
