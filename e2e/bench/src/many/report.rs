//! The table of results.

use std::time::Duration;

use super::{
    Plan,
    processes::Usage,
    rollout::Run,
    world::{CONNECTIONS, KINDS},
};

/// Results for one number of modules.
pub(super) struct Row {
    pub modules: usize,
    pub versions: [Run; 2],
    pub flips: Vec<Duration>,
    pub restart: Duration,
    pub rest: usize,
    /// The most clusters of one module that changed at once, and the limit.
    pub at_once: (usize, usize),
    pub memory: [Usage; 4],
}

pub(super) fn print(plan: &Plan, rows: &[Row]) {
    let Some(row) = rows.last() else { return };
    println!("## {} clusters, {} modules", plan.clusters, row.modules);
    for (version, run) in row.versions.iter().enumerate() {
        let each = |amount: f64| amount / number(run.assignments);
        println!(
            "version {}: {:.1} s, {:.1} ms of processor time per assignment, {:.0} KB, {:.2} writes",
            version + 1,
            run.time.as_secs_f64(),
            each(run.processor.iter().sum::<f64>() * 1000.0),
            each(number(run.bytes.iter().sum::<u64>() / 1000)),
            each(number(run.writes.values().sum::<usize>())),
        );
        for (kind, processor) in KINDS.iter().zip(run.processor) {
            println!("    {kind}: {:.1} ms", each(processor * 1000.0));
        }
        for (connection, bytes) in CONNECTIONS.iter().zip(run.bytes) {
            println!("    {connection}: {:.0} KB", each(number(bytes / 1000)));
        }
        for (what, count) in &run.writes {
            println!("    {what}: {:.2}", each(number(*count)));
        }
    }
    let median = row.flips.get(row.flips.len() / 2).copied().unwrap_or_default();
    println!(
        "a flip: {:.1} ms; restart during a rollout: {:.1} s; writes at rest: {}; at once: {} of {}",
        median.as_secs_f64() * 1000.0,
        row.restart.as_secs_f64(),
        row.rest,
        row.at_once.0,
        row.at_once.1
    );
    for (kind, usage) in KINDS.iter().zip(row.memory) {
        println!("    {kind}: {:.0} MiB, at most {:.0}", usage.resident, usage.most);
    }
}

/// The counts of a benchmark are far too small to be rounded.
fn number(count: impl TryInto<u32>) -> f64 {
    count.try_into().map_or(f64::INFINITY, f64::from)
}
