//! Measurements on real control planes: how long a health flip and a rollout over five clusters take, what the
//! controller uses, and the idle traffic. Printed, not asserted; counts come from audit logs and from a relay that
//! counts bytes.

use std::time::Duration;

use muster_real::Meter;
use tokio::time::Instant;

use crate::{
    bed::{AGENT, Bed, CONTROLLER, Ground, kinds},
    fleet::{Quality, ROLLED},
};

/// The clusters that idle, and those that join for rollouts.
const THREE: [&str; 3] = ["a", "b", "c"];
const TWO_MORE: [&str; 2] = ["d", "e"];
/// Until no more writes follow.
const SETTLED: Duration = Duration::from_secs(45);
/// Duration of the idle measurement: two intervals of what is applied.
const AT_REST: Duration = Duration::from_mins(2);
/// Measurements per figure; the median is printed.
const TIMES: usize = 5;

/// All measurements, for one way of applying.
pub async fn all(ground: Ground) {
    let name = ground.sync();
    let mut bed = Bed::seeded(ground, 1, Some(Duration::from_secs(15))).await;
    bed.prepare(&[&THREE[..], &TWO_MORE[..]].concat()).await;
    for cluster in THREE {
        bed.join(cluster, &[("env", "prod")], &[]).await;
    }
    let meter = through_a_meter(&bed, "a").await;
    bed.deploy(&["web"]).await;
    bed.pass(SETTLED).await;
    let (began, bytes) = (Instant::now(), meter.bytes());
    bed.pass(AT_REST).await;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_minute = |number: usize| number as f64 / minutes;
    let kib = (meter.bytes() - bytes) / 1024;
    println!(
        "{name}: at rest, cluster and minute: {:.1} requests of the controller, {:.1} of the agent; {:.1} KiB between controller and cluster",
        per_minute(bed.requests_since("a", true, began)),
        per_minute(bed.requests_since("a", false, began)),
        per_minute(usize::try_from(kib).unwrap()),
    );
    println!(
        "{name}: at rest, management cluster, minute: {:.1} requests of the controller",
        per_minute(bed.requests_since("management", true, began))
    );
    let memory = bed.memory_of_controller().unwrap() / (1024 * 1024);
    println!("{name}: memory of muster controller with 3 clusters: at most {memory} MiB");

    for cluster in TWO_MORE {
        bed.join(cluster, &[("env", "prod")], &[]).await;
    }
    let (mut rollouts, mut flips) = (Vec::new(), Vec::new());
    bed.until_ready("web", "web-v1").await;
    for number in 2..2 + u32::try_from(TIMES).unwrap() {
        let version = bed.release("web", number, Quality::Good);
        let began = Instant::now();
        bed.target("web", &version).await;
        bed.until_ready_within(kinds::MODULE, "web", &version, 5 * ROLLED)
            .await;
        rollouts.push(began.elapsed());
        flips.extend(last_flips(&bed));
    }
    println!(
        "{name}: from a cluster's report to the module's status: {:.0?} (median of {})",
        median(&flips),
        flips.len()
    );
    println!(
        "{name}: a version over 5 clusters, one at a time: {:.2?} (of {rollouts:.2?})",
        median(&rollouts)
    );
}

/// For each cluster: the time from its last report to the next write of the module's status, by the audit logs.
fn last_flips(bed: &Bed) -> Vec<Duration> {
    let writes = |server: &str, user: &str, path: &str| -> Vec<Duration> {
        let requests = bed.muster_requests(server).into_iter();
        requests
            .filter(|(_, by, method, requested)| by == user && method == "PATCH" && requested.ends_with(path))
            .map(|(at, ..)| at)
            .collect()
    };
    let status_writes = writes("management", CONTROLLER, "/modules/web/status");
    let clusters = bed.clusters().into_iter();
    clusters
        .filter_map(|cluster| {
            let reported = *writes(&cluster, AGENT, &format!("/assemblages/{cluster}/status")).last()?;
            let mut later = status_writes
                .iter()
                .filter_map(|written| written.checked_sub(reported));
            later.find(|later| !later.is_zero())
        })
        .collect()
}

/// The controller reaches a cluster through a relay that counts bytes after this call.
async fn through_a_meter(bed: &Bed, cluster: &str) -> Meter {
    let kubeconfig = bed.kubeconfig(cluster);
    let (_, rest) = kubeconfig.split_once("https://").unwrap();
    let address = rest.split('"').next().unwrap();
    let meter = Meter::before(address).await.unwrap();
    let through = kubeconfig.replace(address, meter.address());
    bed.give_kubeconfig(cluster, &through).await;
    meter
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}
