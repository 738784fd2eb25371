//! Promise: no infrastructure failure marks a good revision as bad, however long it lasts; unreachable clusters do not
//! block the others.

use std::time::Duration;

use super::CLUSTERS;
use crate::{
    bed::{AGENT, Bed, Ground, Obstacle, kinds},
    fleet::{Quality, ROLLED, status_text},
};

/// Longer than pickup (5 min) and progress (10 min) together, and than absence (5 min).
const LASTS: Duration = Duration::from_mins(16);
/// How long an absent cluster keeps its slot.
const ABSENCE: Duration = Duration::from_mins(5);

/// The Secret of the cluster that is changing is deleted, and restored.
pub async fn secret_gone(ground: Ground) {
    away(ground, Obstacle::Kubeconfig, "NoKubeconfig").await;
}

/// Its API server refuses all connections, and recovers.
pub async fn api_down(ground: Ground) {
    away(ground, Obstacle::Unreachable, "Unreachable").await;
}

/// It becomes unreachable while it changes: its slot is free after `absence`, and the others continue; when it returns
/// it is in flight again, and finishes.
async fn away(ground: Ground, obstacle: Obstacle, reason: &str) {
    let mut bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    bed.crash_agent("eu-1").await;
    let version = bed.roll("web", 2, Quality::Good).await;
    until_assigned(&bed, "eu-1", &version).await;
    bed.obstruct("eu-1", obstacle).await;
    let left = bed.elapsed();
    let poll = async || match bed.version_in("eu-2", "web").await {
        Some(observed) if observed == version => Ok(()),
        observed => Err(format!("{observed:?}")),
    };
    bed.wait_until("eu-2 has its turn", ABSENCE + ROLLED, poll).await;
    let freed = bed.elapsed().saturating_sub(left);
    assert!(freed >= ABSENCE, "the slot was free after {freed:?}");
    bed.pass(LASTS).await;
    let module = bed.module("web").await;
    let attention = &module["status"]["attention"][0];
    assert_eq!(
        (&attention["cluster"], &attention["reason"]),
        (&"eu-1".into(), &reason.into()),
        "{}",
        status_text(&module)
    );
    assert_eq!(module["status"]["summary"]["clusters"], "2/3");
    bed.clear("eu-1", obstacle).await;
    bed.start_agent("eu-1");
    until_all(&bed, &version).await;
    assert_no_bad_revision(&bed).await;
}

/// The git host does not answer the cluster that is changing.
pub async fn source_away(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    bed.crash_agent("eu-1").await;
    let version = bed.roll("web", 2, Quality::Good).await;
    until_assigned(&bed, "eu-1", &version).await;
    bed.git.go_away();
    bed.start_agent("eu-1");
    bed.pass(LASTS).await;
    assert_eq!(bed.version_in("eu-1", "web").await.as_deref(), Some("web-v1"));
    bed.git.come_back();
    until_all(&bed, &version).await;
    assert_no_bad_revision(&bed).await;
}

/// Writes fail with 500, as on an API server whose admission webhook cannot be called.
pub async fn webhook_late(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let late = bed.fail_writes("eu-1", AGENT, "/deployments/");
    let version = bed.roll("web", 2, Quality::Good).await;
    until_assigned(&bed, "eu-1", &version).await;
    bed.pass(LASTS).await;
    assert_eq!(bed.version_in("eu-2", "web").await.as_deref(), Some("web-v1"));
    bed.clear_fault("eu-1", late);
    until_all(&bed, &version).await;
    assert_no_bad_revision(&bed).await;
}

/// The sync of a confirmed cluster reconciles again and is not `Ready` for a while.
pub async fn checking_again(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-2", "web", &version).await;
    bed.crash_agent("eu-1").await;
    let inside = bed.inside("eu-1", muster_api::labels::SYSTEM_NAMESPACE);
    for sync in inside.list(kinds::KUSTOMIZATION).await {
        let mut checking = sync["status"].clone();
        for condition in checking["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" {
                condition["status"] = "Unknown".into();
                condition["reason"] = "Progressing".into();
            }
        }
        let name = sync["metadata"]["name"].as_str().unwrap();
        inside
            .patch_status(
                kinds::KUSTOMIZATION,
                name,
                serde_json::json!({"status": checking}),
            )
            .await;
    }
    bed.pass(LASTS).await;
    bed.start_agent("eu-1");
    until_all(&bed, &version).await;
    assert_no_bad_revision(&bed).await;
}

async fn until_assigned(bed: &Bed, cluster: &str, version: &str) {
    let poll = async || {
        let source = bed.module("web").await["status"]["source"].clone();
        let proxy = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await;
        let row = proxy.and_then(|proxy| proxy.pointer("/spec/syncs/0/commit").cloned());
        if source["tag"] == version && row.as_ref() == Some(&source["commit"]) {
            Ok(())
        } else {
            Err(format!("{row:?} {source}"))
        }
    };
    bed.wait_until(&format!("{cluster} is assigned {version}"), ROLLED, poll)
        .await;
}

async fn until_all(bed: &Bed, version: &str) {
    let poll = async || {
        let module = bed.module("web").await;
        if module["status"]["summary"]["clusters"] == "3/3" && module["status"]["source"]["tag"] == version {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until("all three are confirmed", ROLLED, poll).await;
    for cluster in CLUSTERS {
        assert_eq!(bed.version_in(cluster, "web").await.as_deref(), Some(version));
    }
}

/// No revision was ever marked as bad, and no cluster ever failed.
async fn assert_no_bad_revision(bed: &Bed) {
    for revision in bed.fleet().list(kinds::MODULE_REVISION).await {
        assert_eq!(revision["status"]["verdict"], "Good", "{revision:#}");
    }
    let failed = bed.reasons_of("web");
    assert!(
        !failed
            .iter()
            .any(|reason| ["Failed", "Halted", "KnownBad"].contains(&reason.as_str())),
        "{failed:?}"
    );
}
