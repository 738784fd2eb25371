//! Promise: at rest nothing is written, and nothing is read but watches; a restart writes nothing.

use std::time::Duration;

use muster_api::Assemblage;
use muster_apiserver::Verb;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_asked_and_nothing_is_written() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let rows: Vec<_> = (0..5)
        .map(|number| row(&format!("web-{number}"), OLD, number + 1))
        .collect();
    cluster.create(assemblage("eu-1", &rows)).await;
    for row in &rows {
        cluster.carry_out("eu-1", &row.name, OLD).await;
    }
    for row in &rows {
        cluster
            .until_state::<Assemblage>(
                "eu-1",
                &row.name,
                &format!("{} Succeeded UpToDate", row.token.unwrap()),
            )
            .await;
    }
    pass(Duration::from_mins(1)).await;
    let (writes, reads) = (
        cluster.writes(),
        cluster.requests(|request| request.verb != Some(Verb::Watch)),
    );
    pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.writes(), writes);
    assert_eq!(
        cluster.requests(|request| request.verb != Some(Verb::Watch)),
        reads
    );

    cluster.crash();
    cluster.run_assemblages();
    pass(Duration::from_hours(1)).await;
    assert_eq!(
        cluster.writes(),
        writes,
        "a restart finds everything as it should be"
    );
}

/// As Flux does at each interval, and at each retry after a failure.
#[tokio::test(start_paused = true)]
async fn repeated_flux_reconciliations_do_not_change_the_report() {
    let mut cluster = Cluster::downstream();
    cluster.run_assemblages();
    let rows = [row("good", OLD, 1), row("bad", OLD, 2)];
    cluster.create(assemblage("eu-1", &rows)).await;
    let good = cluster.carry_out("eu-1", "good", OLD).await;
    let bad = cluster.carry_out("eu-1", "bad", OLD).await;
    cluster.report(&bad, "False", "BuildFailed", "no").await;
    let until = async |name: &str, state: &str| cluster.until_state::<Assemblage>("eu-1", name, state).await;
    until("good", "1 Succeeded UpToDate").await;
    until("bad", "2 Failed BuildFailed Revision").await;
    pass(Duration::from_mins(1)).await;
    let writes = cluster.writes();
    for kustomization in [&good, &bad] {
        cluster
            .report(
                kustomization,
                "Unknown",
                "Progressing",
                "Reconciliation in progress",
            )
            .await;
    }
    pass(Duration::from_mins(1)).await;
    assert_eq!(cluster.writes(), writes);
    until("good", "1 Succeeded UpToDate").await;
    until("bad", "2 Failed BuildFailed Revision").await;
    // Being healthy except for a blocked finalizer is news: the previous failure no longer counts.
    let awaited = "waiting for the termination of ConfigMap/default/b";
    cluster.report(&bad, "Unknown", "Progressing", awaited).await;
    until("bad", "2 Updating Progressing Infra").await;
    // The result is news.
    let failed = "timeout waiting for: [a]";
    cluster.report(&good, "False", "HealthCheckFailed", failed).await;
    until("good", "1 Failed HealthCheckFailed Revision").await;
    cluster.report(&bad, "True", "ReconciliationSucceeded", "").await;
    until("bad", "2 Succeeded UpToDate").await;
}
