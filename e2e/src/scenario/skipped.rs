//! Promise: a cluster that cannot be changed is skipped, counted, listed with its reason, and updated once it can be;
//! others do not wait for it.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::{
    bed::{Bed, Ground, Obstacle, kinds},
    fleet::{Quality, ROLLED, is_ready, status_text},
};

/// Clusters that start with an obstacle, and how soon they are updated when it is removed: within 2 s of an event; a
/// missing kind within one poll of 20 s; an unreachable server after one probe, with at most 27 s ± 10 % between two
/// probes.
const LAME: [(&str, Obstacle, Duration); 5] = [
    ("away", Obstacle::Unreachable, Duration::from_secs(30)),
    ("no-kind", Obstacle::Kind, Duration::from_secs(22)),
    ("no-plane", Obstacle::ControlPlane, Duration::from_secs(2)),
    ("no-secret", Obstacle::Kubeconfig, Duration::from_secs(2)),
    ("paused", Obstacle::Paused, Duration::from_secs(2)),
];
/// The poll interval, which adds to the measured time.
const STEP: Duration = Duration::from_millis(100);

/// All five reasons at once, then one after another is removed.
pub async fn five_reasons(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1"]).await;
    for (name, obstacle, _) in LAME {
        bed.join(name, &[("env", "prod")], &[obstacle]).await;
    }
    bed.deploy(&["web"]).await;
    let mut skipped: BTreeMap<&str, &str> = LAME.map(|(name, obstacle, _)| (name, obstacle.reason())).into();
    until_skipped(&bed, &skipped).await;
    for (name, obstacle, within) in LAME {
        bed.clear(name, obstacle).await;
        let took = until_assigned(&bed, name).await;
        println!("{name} is taken {took:?} after its obstacle went away");
        assert!(
            !bed.is_virtual() || took <= within + STEP,
            "{name} was taken after {took:?}"
        );
        skipped.remove(name);
        until_skipped(&bed, &skipped).await;
        assert_eq!(bed.version_in(name, "web").await.as_deref(), Some("web-v1"));
    }
    assert_eq!(bed.module("web").await["status"]["summary"]["clusters"], "6/6");
    assert!(bed.premature_claims("web").is_empty());
}

/// A cluster with a version becomes unreachable: it keeps what it has, the others continue without it, and it is
/// updated when it is back.
pub async fn away_for_a_while(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1", "eu-2", "us-1"]).await;
    bed.deploy(&["web"]).await;
    bed.obstruct("eu-2", Obstacle::Unreachable).await;
    until_skipped(&bed, &[("eu-2", "Unreachable")].into()).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    let summary = bed.module("web").await["status"]["summary"].clone();
    assert_eq!(
        (&summary["clusters"], &summary["skipped"]),
        (&"2/3".into(), &1.into())
    );
    if !bed.is_real() {
        // The objects cannot be read while the API server itself is down.
        assert_eq!(bed.version_in("eu-2", "web").await.as_deref(), Some("web-v1"));
    }
    bed.clear("eu-2", Obstacle::Unreachable).await;
    until_skipped(&bed, &BTreeMap::new()).await;
    assert_eq!(bed.version_in("eu-2", "web").await.as_deref(), Some("web-v2"));
}

/// Waits until exactly these clusters are skipped, counted and listed, and all others are confirmed.
async fn until_skipped(bed: &Bed, skipped: &BTreeMap<&str, &str>) {
    let poll = async || {
        let module = bed.module("web").await;
        let named: BTreeMap<&str, &str> = module["status"]["attention"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(cluster_and_reason)
            .collect();
        let counted = module["status"]["summary"]["skipped"] == skipped.len();
        if named == *skipped && counted && is_ready(&module) {
            Ok(())
        } else {
            Err(status_text(&module))
        }
    };
    // After an outage of an API server, its own controllers reconnect with delay, and Flux checks health for 30 s.
    let deadline = if bed.is_real() { 2 * ROLLED } else { ROLLED };
    bed.wait_until(&format!("skipped are {skipped:?}"), deadline, poll)
        .await;
}

fn cluster_and_reason(entry: &Value) -> Option<(&str, &str)> {
    Some((entry["cluster"].as_str()?, entry["reason"].as_str()?))
}

async fn until_assigned(bed: &Bed, cluster: &str) -> Duration {
    let poll = async || {
        let assemblage = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await;
        let row = assemblage.and_then(|assemblage| assemblage.pointer("/spec/syncs/0/source").cloned());
        row.map(|_| ()).ok_or_else(|| "no row".to_owned())
    };
    bed.wait_until(&format!("{cluster} is taken"), ROLLED, poll)
        .await
        .0
}
