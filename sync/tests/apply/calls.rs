//! Every call ends: before its deadline, within a size limit, and it is repeated only if the server says that it did
//! not act.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_sync::{
    apply::{self, ApplyError, ApplyOutcome, Cluster, ObjectFailure, RESPONSE_LIMIT},
    inventory::Inventory,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Bed, DEADLINE, config_map, hooked, pass, widget, widget_definition};

const PATH: &str = "/api/v1/namespaces/default/configmaps/a";

fn wanted() -> [Value; 1] {
    [config_map("a", &json!({"k": "v"}))]
}

fn only(error: ApplyError) -> ObjectFailure {
    let ApplyError::Objects { mut failures, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(failures.len(), 1);
    failures.remove(0)
}

fn on(verb: Verb) -> Match {
    Match {
        verbs: vec![verb],
        path: Some("configmaps".into()),
        ..Match::default()
    }
}

fn busy(seconds: u32) -> Fault {
    Fault::Status(Failure::TooManyRequests(seconds))
}

/// How often a verb was called.
fn count(bed: &Bed, verb: Verb) -> usize {
    let requests = bed.api.recorder().requests();
    requests
        .iter()
        .filter(|request| request.verb == Some(verb))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_its_deadline() {
    for verb in [Verb::Get, Verb::Patch] {
        let bed = Bed::new();
        bed.api
            .faults()
            .add(Rule::always(on(verb), Fault::Delay(Duration::from_secs(3_600))));
        let started = Instant::now();
        let failure = only(bed.apply(&wanted()).await.unwrap_err());
        assert_eq!(started.elapsed(), DEADLINE);
        assert_eq!((failure.reason.as_str(), failure.of_cluster), ("Timeout", true));
        assert!(failure.message.ends_with("no answer within 10 s"), "{failure}");
    }
}

/// A client for which every response about a ConfigMap is `chunk`, `chunks` times, with a pause after each.
fn answering(bed: &Bed, chunk: &'static [u8], chunks: usize, wait: Duration) -> kube::Client {
    hooked(bed.api.client(), move |request, client| async move {
        if !request.uri().path().contains("configmaps") {
            return pass(request, client).await;
        }
        let frames = stream::iter(0..chunks).then(move |_| async move {
            tokio::time::sleep(wait).await;
            Ok(Frame::data(Bytes::from_static(chunk)))
        });
        Ok(http::Response::new(StreamBody::new(frames).boxed_unsync()))
    })
}

#[tokio::test(start_paused = true)]
async fn a_drip_does_not_extend_the_deadline() {
    let bed = Bed::new();
    let client = answering(&bed, b" ", usize::MAX, Duration::from_secs(1));
    let bed = bed.through(client);
    let started = Instant::now();
    let failure = only(bed.apply(&wanted()).await.unwrap_err());
    assert_eq!(
        (failure.reason.as_str(), started.elapsed()),
        ("Timeout", DEADLINE)
    );
}

/// Wraps every client, including that of the local cluster.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    static MEBIBYTE: [u8; 1024 * 1024] = [b' '; 1024 * 1024];
    let limit = RESPONSE_LIMIT / MEBIBYTE.len();
    // A response within the limit is read, but is not JSON.
    for (chunks, expect) in [
        (limit, "Garbled"),
        (limit + 1, "TooLong"),
        (usize::MAX, "TooLong"),
    ] {
        let bed = Bed::new();
        let client = answering(&bed, &MEBIBYTE, chunks, Duration::ZERO);
        let bed = bed.through(client);
        let failure = only(bed.apply(&wanted()).await.unwrap_err());
        assert_eq!(failure.reason, expect, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says() {
    for verb in [Verb::Get, Verb::Patch] {
        let bed = Bed::new();
        bed.api.faults().add(Rule::times(on(verb), busy(3), 2));
        let started = Instant::now();
        assert_eq!(
            bed.applied(&wanted()).await["ConfigMap/default/a"],
            ApplyOutcome::Created
        );
        assert_eq!((started.elapsed().as_secs(), count(&bed, verb)), (6, 3));
    }
}

/// It is requested again in a later run, not by this call.
#[tokio::test(start_paused = true)]
async fn a_wait_for_which_there_is_no_time_is_not_begun() {
    let bed = Bed::new();
    bed.api.faults().add(Rule::always(on(Verb::Get), busy(3_600)));
    let started = Instant::now();
    let failure = only(bed.apply(&wanted()).await.unwrap_err());
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(
        (failure.reason.as_str(), failure.of_cluster),
        ("TooManyRequests", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_an_hour_is_thirty_seconds() {
    let bed = Bed::new();
    bed.api.faults().add(Rule::times(on(Verb::Get), busy(3_600), 1));
    let patient = Cluster::new(bed.api.client(), Duration::from_secs(60));
    let plan = bed.plan(&wanted()).await;
    let started = Instant::now();
    apply::run(&patient, &plan, &bed.ledger, &apply::Alone)
        .await
        .unwrap();
    assert_eq!(started.elapsed().as_secs(), 30);
}

/// A server that is always busy is called at most once a second, and not after the deadline.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_always_busy_is_not_hammered() {
    let bed = Bed::new();
    bed.api.faults().add(Rule::always(on(Verb::Get), busy(0)));
    let started = Instant::now();
    only(bed.apply(&wanted()).await.unwrap_err());
    assert!(started.elapsed() < DEADLINE);
    assert_eq!(count(&bed, Verb::Get), 10);
}

/// It is unknown then whether the server acted; the next run reads first.
#[tokio::test(start_paused = true)]
async fn what_failed_otherwise_is_not_sent_again() {
    for fault in [
        Fault::Refuse,
        Fault::DropResponse,
        Fault::Status(Failure::Internal),
        Fault::Status(Failure::Unavailable),
    ] {
        let bed = Bed::new();
        bed.api.faults().add(Rule::always(on(Verb::Patch), fault.clone()));
        let failure = only(bed.apply(&wanted()).await.unwrap_err());
        assert!(failure.of_cluster, "{failure}");
        assert_eq!(count(&bed, Verb::Patch), 1, "{fault:?}");
        bed.api.faults().clear();
        bed.applied(&wanted()).await;
        assert!(bed.read(PATH).await.is_some());
    }
}

/// Measured at the server: never more than eight open requests, and exactly eight while there is enough to do.
#[tokio::test(start_paused = true)]
async fn eight_at_a_time() {
    let bed = Bed::new();
    let all: Vec<Value> = (0..30)
        .map(|n| config_map(&format!("c{n}"), &json!({"k": "v"})))
        .collect();
    let plan = bed.plan(&all).await;
    bed.api.recorder().clear();
    bed.api.faults().add(Rule::always(
        Match::default(),
        Fault::Delay(Duration::from_secs(1)),
    ));
    let open = AtomicUsize::new(0);
    // Two Kustomizations of one cluster share the limit.
    let (one, other) = (bed.cluster.clone(), bed.cluster.clone());
    let runs = async {
        tokio::try_join!(
            apply::run(&one, &plan, &bed.ledger, &apply::Alone),
            apply::run(&other, &plan, &bed.ledger, &apply::Alone),
        )
    };
    let watch = async {
        loop {
            let requests = bed.api.recorder().requests();
            let now = requests.iter().filter(|request| request.code() == 0).count();
            open.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let started = Instant::now();
    tokio::select! {
        runs = runs => { runs.unwrap(); }
        () = watch => {}
    }
    assert_eq!(open.load(Ordering::Relaxed), 8);
    let requests = bed.api.recorder().requests().len() as u64;
    assert_eq!(
        started.elapsed().as_secs(),
        requests.div_ceil(8),
        "{requests} requests"
    );
}

/// A cluster whose credentials were renewed keeps its limit.
#[tokio::test(start_paused = true)]
async fn a_renewed_client_shares_the_bound() {
    let bed = Bed::new();
    let renewed = Arc::new(bed.cluster.through(bed.api.client_as("renewed")));
    let plan = bed.plan(&wanted()).await;
    apply::run(&renewed, &plan, &bed.ledger, &apply::Alone)
        .await
        .unwrap();
    let requests = bed.api.recorder().requests();
    let discovery = requests.iter().filter(|request| request.verb.is_none()).count();
    assert_eq!(discovery, 1, "what is known of the cluster stays known");
}

/// As in a controller: on any thread.
#[tokio::test(start_paused = true)]
async fn applying_and_pruning_can_be_spawned() {
    let Bed {
        api,
        cluster,
        options,
        ledger,
    } = Bed::new();
    let definition = widget_definition("Namespaced");
    let work = async move {
        let plan = apply::plan(&cluster, vec![definition, widget("w", 1)], options.clone())
            .await
            .unwrap();
        apply::run(&cluster, &plan, &ledger, &apply::Alone).await.unwrap();
        let all = plan.inventory().pruned_by(&Inventory::default());
        apply::prune(&cluster, &options.owner, &all, &apply::Alone).await
    };
    let pruned = tokio::spawn(work).await.unwrap();
    assert_eq!(pruned.gone.len(), 1);
    drop(api);
}
