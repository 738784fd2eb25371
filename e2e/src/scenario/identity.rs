//! Promise: a Secret that now points at another cluster stops all changes for it, in both clusters, until it is fixed
//! or accepted.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    bed::{Bed, CONTROLLER, Ground, RequestEntry, kinds},
    fleet::{Quality, ROLLED, condition},
};

/// Several polls and retries; on real sockets a tenth of it.
const WATCHED: Duration = Duration::from_mins(5);

/// The Secret of one of three clusters points at another cluster for a while.
pub async fn leads_elsewhere(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1", "eu-2"]).await;
    bed.join("us-1", &[("env", "other")], &[]).await;
    bed.let_bootstrap().await;
    bed.deploy(&["web"]).await;
    let base = bed.release("base", 1, Quality::Good);
    bed.create_module(kinds::BOOTSTRAP_MODULE, "base", &base).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &base, ROLLED)
        .await;
    let before = written(&bed);
    bed.give_kubeconfig("eu-1", &bed.kubeconfig("us-1")).await;
    let words = bed
        .until_named("web", "eu-1", "KubeconfigRejected", &[], ROLLED)
        .await;
    assert!(
        words.contains("it points to the cluster of Cluster us-1") && words.contains("accept-identity="),
        "{words}"
    );
    until_suspended(&bed, true).await;

    let web = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &web).await;
    let base = bed.release("base", 2, Quality::Good);
    let version = json!({"spec": {"sync": {"source": {"git": {"version": {"tag": base}}}}}});
    bed.fleet().patch(kinds::BOOTSTRAP_MODULE, "base", version).await;
    bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "base", &base, ROLLED)
        .await;
    bed.pass(if bed.is_virtual() { WATCHED } else { WATCHED / 10 })
        .await;
    assert_eq!(
        written(&bed),
        before,
        "neither in the new nor in the previous cluster"
    );

    bed.give_kubeconfig("eu-1", &bed.kubeconfig("eu-1")).await;
    until_suspended(&bed, false).await;
    for app in ["web", "base"] {
        let poll = async || match bed.version_in("eu-1", app).await {
            Some(version) if version == format!("{app}-v2") => Ok(()),
            version => Err(format!("{version:?}")),
        };
        bed.wait_until(&format!("eu-1 follows with {app}"), ROLLED, poll)
            .await;
    }
}

/// What the controller wrote into the cluster that the Secret pointed at before, and the one that it points at now; the
/// agents there keep running.
fn written(bed: &Bed) -> Vec<RequestEntry> {
    let requests = ["eu-1", "us-1"].map(|cluster| bed.muster_requests(cluster));
    requests
        .into_iter()
        .flatten()
        .filter(|(_, client, method, _)| client == CONTROLLER && method != "GET")
        .collect()
}

/// Waits until muster has suspended the Kustomizations for eu-1, or resumed them; those of eu-2 are never suspended.
async fn until_suspended(bed: &Bed, expect: bool) {
    let poll = async || {
        let all = bed.fleet().list(kinds::KUSTOMIZATION).await;
        let secret = |object: &Value, cluster: &str| {
            object["spec"]["kubeConfig"]["secretRef"]["name"] == format!("{cluster}-kubeconfig")
        };
        let suspended = |object: &Value| object["spec"]["suspend"] == true;
        assert!(
            !all.iter()
                .any(|object| secret(object, "eu-2") && suspended(object))
        );
        let ours: Vec<&Value> = all.iter().filter(|object| secret(object, "eu-1")).collect();
        if !ours.is_empty() && ours.iter().all(|object| suspended(object) == expect) {
            Ok(())
        } else {
            let conditions: Vec<_> = ours.iter().map(|object| condition(object, "Ready")).collect();
            Err(format!("{conditions:?}"))
        }
    };
    bed.wait_until(&format!("suspended: {expect}"), ROLLED, poll)
        .await;
}
