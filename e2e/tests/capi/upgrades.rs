//! Promise: with Cluster API's own controllers, a version is rolled out to as many Clusters at once as allowed, one
//! that hangs stops the rest, and no Cluster is confirmed before its machines and its API server have the version.

use serde_json::{Value, json};

use crate::{
    NEW, OLD,
    bed::{APART, Bed, of},
    observer::{Observed, observed},
};

/// Machines of each Cluster.
const MACHINES: usize = 2;
/// A finalizer that keeps a Machine until it is removed, like a provider that waits for its load balancer.
const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/held";

async fn is_confirmed(bed: &Bed, clusters: usize) -> Option<()> {
    let status = bed.upgrades().get("next").await.unwrap().status?;
    let summary = status.summary?;
    (status.observed_generation.is_some() && summary.updated as usize == clusters).then_some(())
}

fn all(names: &[&str], most: usize) -> Observed {
    Observed {
        given: names.iter().map(|name| (*name).to_owned()).collect(),
        most,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "real: cargo xtask real run cluster-api"]
async fn three_clusters_two_at_a_time_and_a_controller_that_is_killed() {
    let names = ["c-1", "c-2", APART];
    let mut bed = Bed::new(&names, OLD).await;
    let before = bed.muster(&["check", "--upgrade", NEW]).await;
    for name in names {
        assert!(before.contains(&format!("{name} can have {NEW}")), "{before}");
    }
    bed.start_controller().await;
    bed.upgrade(json!({"maxUnreadyClusters": 2})).await;
    bed.until("a Cluster is given the version", async || {
        (bed.version("c-1").await == NEW).then_some(())
    })
    .await;
    bed.kill_controller().await;
    bed.start_controller().await;
    bed.until("all are confirmed", async || is_confirmed(&bed, 3).await)
        .await;
    assert_eq!(observed(&bed.audit_log(), NEW, MACHINES), all(&names, 2));
    bed.keep_uses("three");
}

/// The first stage hangs: the deletion of its control plane Machine is blocked. No other Cluster begins until it is
/// unblocked; then the rollout completes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "real: cargo xtask real run cluster-api"]
async fn six_clusters_of_which_the_first_hangs_and_is_approved() {
    let names = ["c-1", "c-2", "c-3", "c-4", "c-5", "c-6"];
    let mut bed = Bed::new(&names, OLD).await;
    let machine = bed.machine_of_the_control_plane("c-1").await;
    let held = |value: Value| json!({"metadata": {"annotations": {HOOK: value}}});
    bed.merge(of("cluster.x-k8s.io", "Machine"), &machine, held(json!("test")))
        .await;
    bed.start_controller().await;
    let first =
        json!({"name": "first", "selector": {"matchLabels": {"name": "c-1"}}, "approval": "Required"});
    let deadlines = json!({"progress": "45s"});
    bed.upgrade(json!({"maxUnreadyClusters": 2, "stages": [first], "deadlines": deadlines}))
        .await;

    let message = bed.until_why("c-1", "Overdue").await;
    assert!(message.contains("KubeadmControlPlane c-1-"), "{message}");
    assert!(message.contains("1 of 2 machines at v1.34.2"), "{message}");
    let halted = bed.until_why("c-6", "Halted").await;
    for name in &names[1..] {
        assert_eq!(bed.version(name).await, OLD, "{name}");
    }
    assert_eq!(observed(&bed.audit_log(), NEW, MACHINES), all(&names[..1], 1));

    bed.merge(of("cluster.x-k8s.io", "Machine"), &machine, held(Value::Null))
        .await;
    assert!(
        halted.ends_with("clusterupgrade/next --overwrite fleet.muster.dev/retry=157ab79b"),
        "{halted}"
    );
    let why = bed
        .muster(&["why", "clusterupgrade/next", "--cluster", "c-1", "-o", "json"])
        .await;
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(
        why["command"],
        "muster rollout retry clusterupgrade/next -n default"
    );
    bed.muster(&["rollout", "retry", "clusterupgrade/next"]).await;
    let approval = bed.until_why("c-6", "WaitingApproval").await;
    assert_eq!(observed(&bed.audit_log(), NEW, MACHINES), all(&names[..1], 1));
    bed.run_command_of(&approval).await;
    bed.until("all are confirmed", async || is_confirmed(&bed, 6).await)
        .await;
    assert_eq!(observed(&bed.audit_log(), NEW, MACHINES), all(&names, 2));
    let matrix = bed.muster(&["matrix"]).await;
    assert!(matrix.contains("next") && matrix.contains(NEW), "{matrix}");
    bed.muster(&["rollout", "status", "clusterupgrade/next", "--no-watch"])
        .await;
    bed.keep_uses("six");
}
