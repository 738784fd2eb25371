//! Promise: the cost of a cluster is bounded: each call by one deadline for headers and body, by its size, and by
//! concurrent calls; and no cluster affects another.

use std::time::Duration;

use futures::future::join_all;
use http::Request;
use kube::Client;
use muster_api::cluster::{NotReady, Version};
use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use tokio::time::Instant;

use crate::support::{Bed, SOON};

/// The deadline of all calls without a caller's own.
const TOTAL: Duration = Duration::from_secs(32);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn read(client: Client, path: &str) -> Result<String, String> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client
        .request_text(request)
        .await
        .map_err(|error| muster_controllers::runtime::call::error_chain(&error))
}

fn at(path: &str) -> Match {
    Match {
        path: Some(path.to_owned()),
        ..Match::default()
    }
}

async fn ready(clusters: &[&'static str]) -> Bed {
    let bed = Bed::new(Version::V1Beta2, clusters);
    for cluster in clusters {
        bed.good(cluster).await;
        bed.until(cluster, None).await;
    }
    bed
}

#[tokio::test(start_paused = true)]
async fn a_call_is_over_after_its_total_whatever_comes_meanwhile() {
    for fault in [
        Fault::Delay(Duration::from_hours(24)),
        Fault::Drip(Duration::from_secs(1)),
    ] {
        let bed = ready(&["eu-1"]).await;
        bed.downstream["eu-1"]
            .faults()
            .add(Rule::always(at(CONFIG_MAPS), fault.clone()));
        let started = Instant::now();
        let call = read(bed.registry.client("eu-1").unwrap(), CONFIG_MAPS);
        let answer = tokio::time::timeout(Duration::from_hours(1), call)
            .await
            .expect("it ends");
        assert_eq!(answer.unwrap_err(), "no complete answer within 32 s", "{fault:?}");
        assert_eq!(started.elapsed(), TOTAL, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_up_to_its_limit() {
    let bed = ready(&["eu-1"]).await;
    let flood = Fault::Flood(300 * 1024 * 1024);
    bed.downstream["eu-1"]
        .faults()
        .add(Rule::always(at(CONFIG_MAPS), flood));
    let client = bed.registry.client("eu-1").unwrap();
    let answer = read(client.clone(), CONFIG_MAPS).await;
    assert_eq!(answer.unwrap_err(), "the response is longer than 32 MiB");
    let answer = read(client, &format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(answer.unwrap_err(), "an event of a watch is longer than 4 MiB");
    let requests = bed.downstream["eu-1"].recorder().requests();
    let sent: u64 = requests.iter().map(|request| request.bytes()).sum();
    assert!(sent < 40 * 1024 * 1024, "{sent} bytes were taken");
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_their_turn_until_bodies_end_and_probes_do_not() {
    let bed = ready(&["eu-1"]).await;
    let slow = Fault::Drip(Duration::from_millis(20));
    bed.downstream["eu-1"]
        .faults()
        .add(Rule::always(at(CONFIG_MAPS), slow));
    let client = bed.registry.client("eu-1").unwrap();
    let reads = join_all((0..9).map(|_| read(client.clone(), CONFIG_MAPS)));
    let answers = tokio::spawn(reads);
    let under_way = || {
        let requests = bed.downstream["eu-1"].recorder().requests();
        requests
            .iter()
            .filter(|request| request.path == CONFIG_MAPS)
            .count()
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(under_way(), 3, "and one for the probe");
    let answers = answers.await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(under_way(), 9);

    let stuck = Fault::Delay(Duration::from_hours(24));
    bed.repair("eu-1");
    bed.downstream["eu-1"]
        .faults()
        .add(Rule::always(at(CONFIG_MAPS), stuck));
    let reads = tokio::spawn(join_all((0..12).map(|_| read(client.clone(), CONFIG_MAPS))));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.state("eu-1"), None, "a cluster that is busy is not silent");
    reads.abort();
}

#[tokio::test(start_paused = true)]
async fn a_hostile_cluster_is_named_and_costs_another_nothing() {
    let hostile = [
        (
            Fault::Delay(Duration::from_hours(24)),
            "reading namespace muster-system: no answer within 10 s",
        ),
        (
            Fault::Drip(Duration::from_secs(1)),
            "reading namespace muster-system: no answer within 10 s",
        ),
        (
            Fault::Flood(300 * 1024 * 1024),
            "reading namespace muster-system: the response is longer than 1 MiB",
        ),
        (
            Fault::Status(Failure::TooManyRequests(86_400)),
            "reading namespace muster-system: Too many requests, please try again later.",
        ),
    ];
    for (fault, words) in hostile {
        let bed = ready(&["eu-1"]).await;
        bed.break_down("eu-1", fault.clone());
        bed.registry.suspect("eu-1");
        bed.until("eu-1", Some(NotReady::Unreachable)).await;
        assert_eq!(
            bed.message("eu-1"),
            format!("the API server of eu-1 does not answer: {words}")
        );
        tokio::time::sleep(Duration::from_mins(10)).await;
        bed.repair("eu-1");
        let back = bed.until("eu-1", None).await;
        // A pause of 27 s, ± 10 %, and the timeout of the probe that was running.
        assert!(
            back <= Duration::from_secs(40),
            "it never waits longer: {back:?} after {fault:?}"
        );
    }
    let bed = Bed::new(Version::V1Beta2, &["eu-1", "us-1"]);
    bed.break_down("eu-1", Fault::Drip(Duration::from_secs(1)));
    bed.good("eu-1").await;
    bed.good("us-1").await;
    assert!(bed.until("us-1", None).await <= SOON);
}
