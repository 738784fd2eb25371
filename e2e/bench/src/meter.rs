//! What it cost: writes as the API server counts them, and what the kernel says of a process.

use std::fs;

use anyhow::Context;
use http::Request;
use kube::Client;
use prometheus_parse::{Scrape, Value};

/// Writes of controllers, by what they were for. The clusters' answers, which are the load and not the controller's, are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// Of rows: creations and patches of ProxyAssemblages.
    pub rows: f64,
    /// Of statuses of Modules, where the memory is.
    pub memory: f64,
    /// Everything else of muster: ModuleRevisions, events, finalizers.
    pub other: f64,
}

impl Writes {
    /// All so far.
    pub async fn so_far(client: &Client) -> anyhow::Result<Self> {
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
            match (label("group"), label("resource"), label("subresource")) {
                (_, "proxyassemblages", "") => writes.rows += count,
                (_, "proxyassemblages", _) => {}
                (_, "modules", "status") => writes.memory += count,
                ("fleet.muster.dev" | "events.k8s.io", ..) => writes.other += count,
                _ => {}
            }
        }
        Ok(writes)
    }

    /// Those since then.
    pub fn since(self, then: Self) -> Self {
        Self {
            rows: self.rows - then.rows,
            memory: self.memory - then.memory,
            other: self.other - then.other,
        }
    }

    /// All of them.
    pub fn all(self) -> f64 {
        self.rows + self.memory + self.other
    }
}

/// The most memory that a process had, in MiB.
pub fn most_memory(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .context("the kernel does not say")?
        .parse()?;
    Ok(kib / 1024.0)
}

/// The processor time that a process took, in seconds.
pub fn processor_time(pid: u32) -> anyhow::Result<f64> {
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
