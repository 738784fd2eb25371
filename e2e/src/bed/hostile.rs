//! API servers that are hostile to the controller, and the memory that it uses for them.

use std::{fs, time::Duration};

use muster_apiserver::fault::{Failure, Fault, Match, Rule};

use super::{Bed, CONTROLLER, Obstacle, kinds, observer::find_by_name, process::Process};

/// How an API server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostile {
    /// It accepts connections and never answers.
    Silent,
    /// It answers one byte per second.
    Drips,
    /// It answers with 300 MiB.
    Floods,
    /// It answers 429 with a Retry-After of a day.
    Parks,
}

impl Hostile {
    /// All of these behaviors.
    pub const ALL: [Self; 4] = [Self::Silent, Self::Drips, Self::Floods, Self::Parks];

    fn fault(self) -> Fault {
        match self {
            Self::Silent => Fault::Delay(Duration::from_hours(24)),
            Self::Drips => Fault::Drip(Duration::from_secs(1)),
            Self::Floods => Fault::Flood(300 * 1024 * 1024),
            Self::Parks => Fault::Status(Failure::TooManyRequests(86_400)),
        }
    }
}

impl Bed {
    /// A cluster joins, optionally hostile from the start.
    pub async fn join_hostile(&mut self, name: &str, hostile: Option<Hostile>) {
        self.join(name, &[("env", "prod")], &[Obstacle::ControlPlane])
            .await;
        if let Some(hostile) = hostile {
            self.turn(name, hostile);
        }
        self.clear(name, Obstacle::ControlPlane).await;
    }

    /// The version of an application that a cluster is confirmed at: the row reports success, and this is the version
    /// of the workload.
    pub async fn confirmed_in(&self, cluster: &str, app: &str) -> Option<String> {
        let proxy = self.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await?;
        let row = find_by_name(&proxy["spec"]["syncs"], app)?;
        let state = find_by_name(&proxy["status"]["syncs"], app)?;
        let confirmed = state["state"] == "succeeded"
            && state["token"] == row["token"]
            && state["digest"] == row["digest"];
        if confirmed {
            self.version_in(cluster, app).await
        } else {
            None
        }
    }

    /// The API server of a cluster is hostile to the controller after this call.
    pub fn turn(&self, cluster: &str, hostile: Hostile) {
        let faults = self.clusters[cluster].api.embedded().faults();
        faults.add(Rule::always(Match::client(CONTROLLER), hostile.fault()));
        faults.close_watches(Match::client(CONTROLLER));
    }

    /// The peak memory of the controller, in bytes; only where it is a separate process.
    pub fn memory_of_controller(&self) -> Option<u64> {
        let children = self.controllers.values().filter_map(|process| match process {
            Process::Child(child) => child.id(),
            Process::Task(..) => None,
        });
        children
            .map(|pid| {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let number = line.and_then(|line| line.split_whitespace().next());
                number.unwrap().parse::<u64>().unwrap() * 1024
            })
            .max()
    }
}
