//! Promise: no deadline runs while nobody led, however often the first write of who leads next fails.

use std::{sync::Arc, time::Duration};

use muster_api::{Module, validate::InsecureSources};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_controllers::{
    bindings::{Kinds, Objects},
    gates::{self, Evaluator, Hosts},
    metrics::Metrics,
    module, proxyassemblage,
    registry::{self, Registry},
    runtime::{Context, Events},
};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::bed::*;

/// The controllers that a rollout needs, after a time in which nobody led.
fn lead(bed: &Bed, gap: Duration) -> Vec<AbortOnDropHandle<()>> {
    let setup = bed.setup(&bed.management, "controller", NS);
    let registry = Registry::new(registry::Setup {
        client: setup.client.clone(),
        namespace: NS.to_owned(),
        clock: setup.clock.clone(),
        jitter: setup.jitter.clone(),
        connect: setup.connect,
    });
    let objects = Objects::new(setup.client.clone(), NS, Kinds::default());
    let gates = Evaluator::new(gates::Setup {
        client: setup.client.clone(),
        namespace: NS.to_owned(),
        objects: Arc::clone(&objects),
        hosts: Hosts::default(),
        insecure: InsecureSources::Refused,
        fetch: setup.gates,
        clock: setup.clock.clone(),
    });
    let context = Context {
        events: Events::new(setup.client.clone(), "test", "0", setup.clock.clone()),
        client: setup.client,
        namespace: NS.to_owned(),
        options: Arc::new(setup.options),
        clock: setup.clock,
        jitter: setup.jitter,
        source: setup.source,
        remote: registry.clone(),
        registry: Arc::clone(&registry),
        gap,
        metrics: Metrics::default(),
        shutdown: setup.shutdown.clone(),
    };
    let shutdown = setup.shutdown;
    let dependencies = Arc::<module::Dependencies>::default();
    let tasks = [
        tokio::spawn(registry.run(shutdown.clone())),
        tokio::spawn(Arc::clone(&objects).run(shutdown)),
        tokio::spawn(Arc::clone(&dependencies).run(context.clone())),
        tokio::spawn(module::run::<Module>(
            context.clone(),
            Arc::clone(&objects),
            dependencies,
            gates,
        )),
        tokio::spawn(proxyassemblage::run(context, objects)),
    ];
    tasks.map(AbortOnDropHandle::new).into()
}

async fn reason(bed: &Bed) -> String {
    let module = bed.module("web").await.unwrap();
    let first = &module["status"]["attention"][0];
    assert_eq!(first["cluster"], "eu-1");
    first["reason"].as_str().unwrap().to_owned()
}

/// A cluster that does not pick its assignment up; two minutes of five are over when the leader ends, and an hour later another leads.
async fn after_an_hour(gap: Duration) -> (Bed, Vec<AbortOnDropHandle<()>>) {
    let mut bed = Bed::without_controller(&["eu-1"]).await;
    bed.crash_agent("eu-1");
    bed.release("v1", &["web"], "one");
    let first = lead(&bed, Duration::ZERO);
    bed.create::<Module>(module("web", "v1", json!({}))).await;
    bed.until("eu-1 is being changed", || async {
        (bed.module("web").await?["status"]["summary"]["updating"] == 1).then_some(())
    })
    .await;
    pass(Duration::from_mins(2)).await;
    drop(first);
    pass(Duration::from_hours(1)).await;
    bed.management.faults().add(Rule::times(
        Match {
            verbs: vec![Verb::Patch],
            path: Some("/modules/web/status".to_owned()),
            ..Match::default()
        },
        Fault::Status(Failure::Internal),
        3,
    ));
    let second = lead(&bed, gap);
    (bed, second)
}

#[tokio::test(start_paused = true)]
async fn the_time_in_between_is_on_nobodys_account() {
    let (bed, _leads) = after_an_hour(Duration::from_hours(1)).await;
    pass(Duration::from_secs(150)).await;
    assert_eq!(reason(&bed).await, "Updating", "not yet five minutes");
    pass(Duration::from_mins(1)).await;
    assert_eq!(
        reason(&bed).await,
        "NotPickedUp",
        "five minutes, and counted once"
    );
}

#[tokio::test(start_paused = true)]
async fn and_it_would_be_if_it_were_not_known() {
    let (bed, _leads) = after_an_hour(Duration::ZERO).await;
    pass(Duration::from_mins(1)).await;
    assert_eq!(reason(&bed).await, "NotPickedUp");
}
