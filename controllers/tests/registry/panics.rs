//! Promise: no Secret of one cluster ends the registry; all others continue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use http::{Request, Response};
use kube::{Client, client::Body};
use muster_api::cluster::{NotReady, Version};
use muster_apiserver::fault::Fault;
use muster_controllers::{
    metrics::Metrics,
    registry::{Access, Connect, connect_over_network},
};

use crate::support::{Bed, SOON, kubeconfig};

/// The counter of panics of the registry.
fn panics(metrics: &Metrics) -> u64 {
    let text = metrics.scrape().unwrap();
    let series = "muster_reconciles_total{controller=\"registry\",result=\"panic\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(series));
    count.map_or(0, |count| count.parse().unwrap())
}

/// Creates clients as the product does, for tokens that the bed does not know.
fn over_network(connect: Connect) -> Connect {
    Arc::new(move |access: &Access| connect(access).or_else(|_unknown| connect_over_network(access)))
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_sent_is_refused_and_the_others_go_on() {
    let bed = Bed::with(Version::V1Beta2, &["eu-1", "eu-2"], over_network);
    bed.cluster("eu-2").await;
    bed.secret("eu-2", &kubeconfig("eu-2", "tok\nen")).await;
    bed.until("eu-2", Some(NotReady::KubeconfigRejected)).await;
    assert_eq!(
        bed.message("eu-2"),
        "the kubeconfig in Secret fleet/eu-2-kubeconfig is not accepted: \
         field users[u].user.token: must be one line without control characters"
    );
    bed.good("eu-1").await;
    assert!(bed.until("eu-1", None).await <= SOON);
    bed.swap_secret("eu-2", &kubeconfig("eu-2", "token\n")).await;
    assert!(bed.until("eu-2", None).await <= SOON, "white space is trimmed");
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_client_is_made_is_its_clusters_alone() {
    let broken = Arc::new(AtomicBool::new(true));
    let panics_while = Arc::clone(&broken);
    let bed = Bed::with(Version::V1Beta2, &["eu-1", "eu-2"], |connect| {
        Arc::new(move |access: &Access| {
            let panics = access.server.contains("eu-2") && panics_while.load(Ordering::Relaxed);
            assert!(!panics, "hunter2");
            connect(access)
        })
    });
    let metrics = Metrics::default();
    metrics.clusters(Arc::clone(&bed.registry));
    bed.good("eu-2").await;
    bed.until("eu-2", Some(NotReady::Unreachable)).await;
    let message = "muster panicked while handling cluster eu-2 and will retry; \
                   please report this bug with the log of the controller";
    let mut changes = Box::pin(bed.registry.subscribe());
    while bed.message("eu-2") != message {
        tokio::time::timeout(SOON, changes.next()).await.unwrap();
    }
    assert!(bed.registry.client("eu-2").is_err());
    bed.good("eu-1").await;
    assert!(bed.until("eu-1", None).await <= SOON);
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(bed.message("eu-2"), message);
    let count = panics(&metrics);
    assert!((3..=20).contains(&count), "5 s, doubling to 5 min: {count}");
    assert_eq!(bed.state("eu-1"), None);
    broken.store(false, Ordering::Relaxed);
    assert!(
        bed.until("eu-2", None).await <= Duration::from_mins(6),
        "it is tried again"
    );
    // A new Secret is tried at once.
    broken.store(true, Ordering::Relaxed);
    bed.swap_secret("eu-2", &kubeconfig("eu-2", "old")).await;
    bed.until("eu-2", Some(NotReady::Unreachable)).await;
    broken.store(false, Ordering::Relaxed);
    bed.swap_secret("eu-2", &kubeconfig("eu-2", "new")).await;
    assert!(bed.until("eu-2", None).await <= SOON);
}

#[tokio::test(start_paused = true)]
async fn a_panic_within_a_probe_is_its_clusters_alone() {
    let broken = Arc::new(AtomicBool::new(true));
    let panics_while = Arc::clone(&broken);
    let bed = Bed::with(Version::V1Beta2, &["eu-1", "eu-2"], |connect| {
        Arc::new(move |access: &Access| {
            let client = connect(access)?;
            let panics_while = Arc::clone(&panics_while);
            if !access.server.contains("eu-2") {
                return Ok(client);
            }
            let send = tower::service_fn(move |request: Request<Body>| {
                let (client, panics) = (client.clone(), panics_while.load(Ordering::Relaxed));
                async move {
                    assert!(!panics, "hunter2");
                    client.send(request).await as kube::Result<Response<Body>>
                }
            });
            Ok(Client::new(send, "default"))
        })
    });
    let metrics = Metrics::default();
    metrics.clusters(Arc::clone(&bed.registry));
    bed.good("eu-2").await;
    bed.good("eu-1").await;
    assert!(bed.until("eu-1", None).await <= SOON);
    bed.until("eu-2", Some(NotReady::Unreachable)).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(
        bed.message("eu-2").contains("muster panicked"),
        "{}",
        bed.message("eu-2")
    );
    assert!(!bed.message("eu-2").contains("hunter2"));
    assert!(panics(&metrics) >= 3);
    broken.store(false, Ordering::Relaxed);
    assert!(bed.until("eu-2", None).await <= Duration::from_secs(30));
    bed.break_down("eu-1", Fault::Refuse);
    bed.registry.suspect("eu-1");
    bed.until("eu-1", Some(NotReady::Unreachable)).await;
}
