//! The processes, wired as the command does it, with a lease.

use std::{sync::Arc, time::Duration};

use kube::{Api, Resource, api::PostParams};
use muster_api::{Module, crds};
use muster_apiserver::fault::{Fault, Match, Rule};
use muster_controllers::{
    lease::{Election, LeaseDuration, Lost},
    process::{ProcessError, Setup, controller, run_agent},
    runtime::{Jitter, Shutdown, call::error_chain},
};
use muster_sync::source::MemorySource;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    setup,
    support::{Bed, NS, SECOND, pass},
};

struct Process {
    shutdown: Shutdown,
    ended: AbortOnDropHandle<Result<(), ProcessError>>,
}

fn bed() -> Bed {
    Bed::with([crds::management(), crds::flux(), vec![crds::cluster_api()]].concat())
}

/// Starts `muster controller`; the user `NAME-lease` accesses its lease, the user `NAME` everything else.
fn start(bed: &Bed, name: &str) -> Process {
    let (setup, shutdown) = setup(bed, name);
    Process {
        shutdown,
        ended: AbortOnDropHandle::new(tokio::spawn(controller(setup))),
    }
}

fn setup(bed: &Bed, name: &str) -> (Setup, Shutdown) {
    let source = Arc::new(MemorySource::new(bed.clock.clone()));
    let setup = setup::setup(
        bed.api.client_as(name),
        NS,
        bed.clock.clone(),
        source,
        Arc::new(|_| unreachable!("there are no clusters")),
    );
    let setup = Setup {
        jitter: Jitter::seeded(1).of(name),
        instance: name.to_owned(),
        lease: Some(Election {
            client: bed.api.client_as(&format!("{name}-lease")),
            duration: LeaseDuration::default(),
        }),
        ..setup
    };
    let shutdown = setup.shutdown.clone();
    (setup, shutdown)
}

/// A module that a controller reports on in its status: its tag does not exist.
async fn create_module(bed: &Bed, name: &str) {
    let git = json!({"url": "https://git.test/fleet.git", "version": {"tag": "v1"}});
    let module = json!({
        "apiVersion": Module::api_version(&()), "kind": "Module", "metadata": {"name": name},
        "spec": {"selector": {}, "sync": {"source": {"git": git}, "package": {"path": "."}}},
    });
    let modules: Api<Module> = Api::namespaced(bed.api.client_as("person"), NS);
    modules
        .create(&PostParams::default(), &serde_json::from_value(module).unwrap())
        .await
        .unwrap();
}

async fn holder(bed: &Bed) -> String {
    let holder = bed.holder().await.unwrap_or_default();
    holder.split('_').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_standby_reads_the_lease_and_nothing_else() {
    let bed = bed();
    let _leader = start(&bed, "a");
    pass(SECOND).await;
    let standby = start(&bed, "b");
    create_module(&bed, "web").await;
    pass(60 * SECOND).await;
    assert_eq!(holder(&bed).await, "a");
    assert!(bed.writes("a") > 0);
    let requests = bed.api.recorder().requests();
    assert_eq!(requests.iter().filter(|request| request.client == "b").count(), 0);
    assert_eq!(bed.writes("b-lease"), 0);
    let started = Instant::now();
    standby.shutdown.cancel();
    standby.ended.await.unwrap().unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO, "nothing is in flight");
}

#[tokio::test(start_paused = true)]
async fn on_shutdown_the_lease_is_released() {
    let bed = bed();
    let leader = start(&bed, "a");
    pass(SECOND).await;
    let _standby = start(&bed, "b");
    create_module(&bed, "web").await;
    pass(60 * SECOND).await;
    let (told, before) = (Instant::now(), bed.writes("b"));
    leader.shutdown.cancel();
    leader.ended.await.unwrap().unwrap();
    assert!(told.elapsed() < SECOND, "nothing was in flight");
    create_module(&bed, "next").await;
    pass(4 * SECOND).await;
    assert_eq!(holder(&bed).await, "b");
    assert!(
        bed.writes("b") > before,
        "it leads and acts, long before a lease is over"
    );
}

/// Writes in flight keep the lease until they are done.
#[tokio::test(start_paused = true)]
async fn on_shutdown_in_flight_work_finishes_before_the_lease_is_released() {
    let bed = bed();
    let leader = start(&bed, "a");
    pass(SECOND).await;
    let slow = Match {
        verbs: vec![muster_apiserver::Verb::Patch],
        path: Some("/modules/".to_owned()),
        ..Match::client("a")
    };
    bed.api
        .faults()
        .add(Rule::times(slow, Fault::Delay(20 * SECOND), 1));
    create_module(&bed, "web").await;
    pass(2 * SECOND).await;
    let told = Instant::now();
    leader.shutdown.cancel();
    pass(16 * SECOND).await;
    assert_eq!(holder(&bed).await, "a", "renewed while something is in flight");
    leader.ended.await.unwrap().unwrap();
    assert!(
        told.elapsed() > 16 * SECOND && told.elapsed() < 30 * SECOND,
        "{:?}",
        told.elapsed()
    );
    assert_eq!(holder(&bed).await, "", "released at the end");
}

/// Only the Lease cannot be reached: the process ends, and writes nothing more.
#[tokio::test(start_paused = true)]
async fn without_renewals_it_ends() {
    let bed = bed();
    let leader = start(&bed, "a");
    pass(6 * SECOND).await;
    bed.fail("a-lease", Fault::Refuse);
    let error = leader.ended.await.unwrap().unwrap_err();
    assert!(
        matches!(error, ProcessError::Lost(Lost::NotRenewed { .. })),
        "{error}"
    );
    assert!(
        error_chain(&error).contains("was not renewed for 10 s: this process stops acting and ends"),
        "{}",
        error_chain(&error)
    );
    let writes = bed.writes("a");
    create_module(&bed, "web").await;
    pass(60 * SECOND).await;
    assert_eq!(bed.writes("a"), writes);
}

/// Stopped (SIGSTOP) past its lease during a lot of work, and continued.
#[tokio::test(start_paused = true)]
async fn stopped_and_continued_it_writes_nothing() {
    let bed = bed();
    let leader = start(&bed, "a");
    pass(6 * SECOND).await;
    let before = bed.writes("a");
    create_module(&bed, "web").await;
    pass(SECOND).await;
    assert!(bed.writes("a") > before, "it does act");
    // The state at the moment in which it stops.
    create_module(&bed, "next").await;
    let written = bed.writes("a");
    tokio::time::advance(60 * SECOND).await;
    let error = leader.ended.await.unwrap().unwrap_err();
    assert!(
        matches!(error, ProcessError::Lost(Lost::NotRenewed { .. })),
        "{error}"
    );
    pass(60 * SECOND).await;
    assert_eq!(bed.writes("a"), written);
}

/// Agents elect a leader in the same way.
#[tokio::test(start_paused = true)]
async fn an_agent_has_a_lease_of_its_own() {
    let bed = bed();
    let leader = start(&bed, "a");
    pass(SECOND).await;
    let (setup, shutdown) = setup(&bed, "below");
    let running = AbortOnDropHandle::new(tokio::spawn(run_agent(setup)));
    pass(SECOND).await;
    assert_eq!(holder(&bed).await, "a");
    let below = bed.leases().get("muster-agent").await.unwrap().spec.unwrap();
    assert!(below.holder_identity.unwrap().starts_with("below_"));
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(
        bed.leases()
            .get("muster-agent")
            .await
            .unwrap()
            .spec
            .unwrap()
            .holder_identity,
        None
    );
    drop(leader);
}
