//! What it cost: writes as the API server counts them, and what the kernel says of a process.

use std::fs;

use anyhow::{Context, ensure};
use http::Request;
use kube::Client;
use muster_apiserver::record::Recorder;
use prometheus_parse::{Scrape, Value};

/// Writes of controllers, by what they were for. The clusters' answers, which are the load and not the controller's, are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writes {
    /// Of rows: creations and patches of ProxyAssemblages.
    pub rows: f64,
    /// Of statuses of Modules, where the memory is.
    pub memory: f64,
    /// Everything else of muster: ModuleRevisions, events, finalizers.
    pub other: f64,
}

impl Writes {
    /// All so far, as a kube-apiserver counts them.
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

    /// All so far, as our own API server has them on record.
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

    /// Those since then.
    pub(crate) fn since(self, then: Self) -> Self {
        Self {
            rows: self.rows - then.rows,
            memory: self.memory - then.memory,
            other: self.other - then.other,
        }
    }

    /// All of them.
    pub(crate) fn all(self) -> f64 {
        self.rows + self.memory + self.other
    }
}

/// The most memory that a process had, in MiB.
pub(crate) fn most_memory(pid: u32) -> anyhow::Result<f64> {
    memory(pid, "VmHWM:")
}

/// Memory of a process in MiB, by the kernel's word for it: `VmRSS:` is what it has, `VmHWM:` the most that it had.
pub(crate) fn memory(pid: u32, word: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(word));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .context("the kernel does not say")?
        .parse()?;
    Ok(kib / 1024.0)
}

/// The processor time that a process took, in seconds.
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may hold spaces; it ends with the last parenthesis.
    let (_, fields) = stat.rsplit_once(')').context("no stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // utime and stime: the 14th and 15th field, of which two are before the parenthesis. Linux counts them in hundredths.
    let ticks = fields.get(11..13).context("no times")?;
    let ticks: Vec<f64> = ticks
        .iter()
        .map(|field| field.parse())
        .collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}
