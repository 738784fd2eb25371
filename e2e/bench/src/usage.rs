//! Usage of this process and the writes in it, for benchmarks whose API server and controllers share one process.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context as _, ensure};
use muster_apiserver::record::Recorder;

pub(crate) fn ratio(one: usize, other: usize) -> f64 {
    let number = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    number(one) / number(other)
}

/// Writes so far, by resource and by writer, without Leases.
pub(crate) fn writes(recorder: &Recorder) -> anyhow::Result<BTreeMap<String, usize>> {
    let (lost, _) = recorder.dropped();
    ensure!(lost == 0, "{lost} requests were not kept");
    let mut counts = BTreeMap::new();
    for request in recorder.requests().iter().filter(|request| request.is_write()) {
        if request.client == "leases" || request.client == "bench" {
            continue;
        }
        let resource = resource(&request.path);
        let sub = if request.path.ends_with("/status") {
            "/status"
        } else {
            ""
        };
        *counts
            .entry(format!("{resource}{sub} by the {}", request.client))
            .or_default() += 1;
    }
    Ok(counts)
}

/// The resource (plural) in a request path.
fn resource(path: &str) -> &str {
    let mut parts = path.trim_matches('/').split('/');
    // `/api/v1/…` or `/apis/GROUP/VERSION/…`, optionally `namespaces/NAME/…`.
    let before = match parts.next() {
        Some("api") => 1,
        _ => 2,
    };
    let rest: Vec<&str> = parts.skip(before).collect();
    match rest[..] {
        ["namespaces", _, resource, ..] | [resource, ..] => resource,
        [] => "",
    }
}

/// Resident memory of this process, in MiB.
pub(crate) fn resident_memory() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .context("no VmRSS")?;
    Ok(kib / 1024)
}

/// CPU time of this process so far.
pub(crate) fn processor() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Ok(Duration::from_millis(ticks * 10))
}
