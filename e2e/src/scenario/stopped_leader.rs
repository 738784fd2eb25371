//! Promise: a leader that is suspended past its lease does no harm when it resumes: the new leader continues, and the
//! limit holds.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    bed::{Bed, CONTROLLER, Ground::Wire, Observer, kinds},
    fleet::{Quality, is_current, is_ready, status_text},
};

/// The shortest lease duration that is supported.
const LEASE: Duration = Duration::from_secs(1);
/// The other controller.
const SECOND: &str = "controller-2";
/// The Lease of controllers.
const NAME: &str = "muster-controller";
/// How long it may take until another controller holds the lease: a few lease durations, on a busy machine.
const TAKEN: Duration = Duration::from_secs(20);
/// How long a rollout may take, including changes of leadership.
const FINISHED: Duration = Duration::from_mins(4);
/// The poll interval.
const STEP: Duration = Duration::from_millis(100);
const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Two controllers elect a leader; in each of several rollouts the leader is stopped until the other one leads, and
/// then continued. With real processes.
pub async fn wakes_up(times: u32, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut bed = Bed::seeded(Wire, seed, Some(LEASE)).await;
    bed.start_controller_as(SECOND);
    for name in FIVE {
        bed.join(name, &[("env", "prod")], &[]).await;
    }
    let mut observer = Observer::new(kinds::PROXY_ASSEMBLAGE, "web", 2);
    let version = bed.release("web", 1, Quality::Good);
    let mut spec = bed.spec("web", &version);
    spec["rollout"] = json!({"maxUnreadyClusters": 2});
    let module = json!({"metadata": {"name": "web"}, "spec": spec});
    bed.fleet().create(kinds::MODULE, module).await;
    let mut revived = until_there(&mut bed, &version).await;
    for round in 0..times {
        let version = bed.roll("web", round + 2, Quality::Good).await;
        bed.pass(Duration::from_millis(random.random_range(0..2000)))
            .await;
        let leader = leader(&mut bed, None).await;
        bed.signal_controller(&leader, "-STOP").await;
        let next = self::leader(&mut bed, Some(&leader)).await;
        bed.pass(Duration::from_millis(random.random_range(0..1500)))
            .await;
        bed.signal_controller(&leader, "-CONT").await;
        println!("{leader} was stopped, {next} took over, {leader} goes on");
        revived += until_there(&mut bed, &version).await;
        for cluster in FIVE {
            let found = bed.version_in(cluster, "web").await;
            assert_eq!(found.as_deref(), Some(&*version), "{cluster}");
        }
        bed.show_and_forget(&mut observer);
        observer.must_be_content();
    }
    println!(
        "{times} leaders slept past their lease, {revived} processes ended of it, {} assignments, at most {} at once, seed {seed}",
        observer.assigned(),
        observer.most()
    );
    assert!(observer.assigned() >= FIVE.len() * times as usize);
}

/// Waits until the module is ready at a version. Controllers that exit because they lost the lease are restarted;
/// returns how many did.
async fn until_there(bed: &mut Bed, version: &str) -> usize {
    let (began, mut revived) = (Instant::now(), 0);
    loop {
        let module = bed.module("web").await;
        let there = is_current(&module) && is_ready(&module);
        if there && module["status"]["source"]["tag"] == version {
            return revived;
        }
        assert!(
            began.elapsed() < FINISHED,
            "{version} is not ready: {}",
            status_text(&module)
        );
        revived += bed.revive();
        bed.pass(STEP).await;
    }
}

/// Waits until a controller, other than `other_than`, holds the lease. Returns its name.
async fn leader(bed: &mut Bed, other_than: Option<&str>) -> String {
    let began = Instant::now();
    loop {
        let lease = bed.fleet().get(kinds::LEASE, NAME).await.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        // The holder identity starts with a host name; hosts of this bed are named like their controllers, and one name
        // is a prefix of the other.
        let name = [SECOND, CONTROLLER]
            .into_iter()
            .find(|name| holder.starts_with(name));
        if let Some(name) = name.filter(|name| other_than != Some(*name)) {
            return name.to_owned();
        }
        assert!(began.elapsed() < TAKEN, "there is no leader: {lease:#}");
        bed.revive();
        bed.pass(STEP).await;
    }
}
