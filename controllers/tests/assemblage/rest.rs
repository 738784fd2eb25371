//! Promise: at rest nothing is written, and nothing is read but watches; a restart writes nothing.

use std::time::Duration;

use muster_api::Assemblage;
use muster_apiserver::Verb;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_asked_and_nothing_is_written() {
    let mut cluster = Cluster::downstream().await;
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
