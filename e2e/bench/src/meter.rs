//! The cost: writes as counted by the API server, and process usage as reported by the kernel.

use std::fs;

use anyhow::{Context, ensure};
use http::Request;
use kube::Client;
use muster_apiserver::record::Recorder;
use prometheus_parse::{Scrape, Value};

/// Writes by controllers, by purpose. The clusters' status writes are the load, not the controller's cost, and are not
/// included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writes {
    /// Assignments: creations and patches of ProxyAssemblages.
    pub rows: f64,
    /// Statuses of Modules, which hold the rollout's memory.
    pub memory: f64,
    /// Everything else by muster: ModuleRevisions, events, finalizers.
    pub other: f64,
}

impl Writes {
    /// All writes so far, as counted by a kube-apiserver.
    pub(crate) async fn counted(client: &Client) -> anyhow::Result<Self> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = client.request_text(request).await?;
        let lines = text.lines().map(|line| Ok(line.to_owned()));
        let mut writes = Self::default();
        for sample in Scrape::parse(lines)?.samples {
            let Value::Counter(count) = sample.value else {
                continue;
            };
            let label = |name: &str| sample.labels.get(name).unwrap_or_default();
            let writes_it = matches!(label("verb"), "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
            if sample.metric != "apiserver_request_total" || !writes_it {
                continue;
            }
            writes.add(label("group"), label("resource"), label("subresource"), count);
        }
        Ok(writes)
    }

    /// All writes so far, as recorded by muster's own API server.
    pub(crate) fn recorded(recorder: &Recorder) -> anyhow::Result<Self> {
        let (lost, _) = recorder.dropped();
        ensure!(lost == 0, "{lost} requests were not kept");
        let mut writes = Self::default();
        for request in recorder.requests().iter().filter(|request| request.is_write()) {
            let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
            if let ["apis", group, _, "namespaces", _, resource, rest @ ..] = &parts[..] {
                writes.add(group, resource, rest.get(1).copied().unwrap_or_default(), 1.0);
            }
        }
        Ok(writes)
    }

    fn add(&mut self, group: &str, resource: &str, subresource: &str, count: f64) {
        match (group, resource, subresource) {
            (_, "proxyassemblages", "") => self.rows += count,
            (_, "proxyassemblages", _) => {}
            (_, "modules", "status") => self.memory += count,
            ("fleet.muster.dev" | "events.k8s.io", ..) => self.other += count,
            _ => {}
        }
    }

    /// The difference to an earlier count.
    pub(crate) fn since(self, then: Self) -> Self {
        Self {
            rows: self.rows - then.rows,
            memory: self.memory - then.memory,
            other: self.other - then.other,
        }
    }

    /// The total of all writes.
    pub(crate) fn all(self) -> f64 {
        self.rows + self.memory + self.other
    }
}

/// The peak memory of a process, in MiB.
pub(crate) fn most_memory(pid: u32) -> anyhow::Result<f64> {
    memory(pid, "VmHWM:")
}

/// Memory of a process in MiB, by field of `/proc/PID/status`: `VmRSS:` is the current value, `VmHWM:` the peak.
pub(crate) fn memory(pid: u32, word: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(word));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .context("the kernel does not report it")?
        .parse()?;
    Ok(kib / 1024.0)
}

/// The CPU time of a process, in seconds.
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may contain spaces; it ends at the last parenthesis.
    let (_, fields) = stat.rsplit_once(')').context("no stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // utime and stime are fields 14 and 15; two fields precede the parenthesis. Linux counts them in hundredths of a
    // second.
    let ticks = fields.get(11..13).context("no times")?;
    let ticks: Vec<f64> = ticks
        .iter()
        .map(|field| field.parse())
        .collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}
