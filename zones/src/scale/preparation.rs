//! How the pods of a set are prepared for a downscale, as its label and annotations say.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Settings,
    pods::{Ask, Method, fqdn, prepare_url},
};
use crate::model::{Pod, Set};

/// `true` and nothing else: pods are prepared before they leave.
pub const PREPARE: &str = "grafana.com/prepare-downscale";
/// The annotation with the path at which they are asked.
pub const PATH: &str = "grafana.com/prepare-downscale-http-path";
/// The annotation with the port.
pub const PORT: &str = "grafana.com/prepare-downscale-http-port";

/// Where the pods of a set are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Port, as it is written.
    pub port: String,
    /// Path, as it is written.
    pub path: String,
    /// The service that gives the pods their names.
    pub service: String,
}

impl Preparation {
    /// Whether the pods of a set are prepared at all.
    pub fn is_asked_for(set: &Set) -> bool {
        is_asked_for(&set.labels)
    }

    /// What labels and annotations say, and `spec.serviceName`; nothing where pods are not prepared. An error says what is missing.
    pub fn of(
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        service: &str,
    ) -> Option<Result<Self, String>> {
        if !is_asked_for(labels) {
            return None;
        }
        let said = |key: &str| {
            let said = annotations.get(key).filter(|text| !text.is_empty());
            said.cloned()
                .ok_or_else(|| format!("the {key} annotation is not set or empty."))
        };
        let read = || {
            let (port, path) = (said(PORT)?, said(PATH)?);
            if service.is_empty() {
                return Err("the serviceName is not set or empty.".to_owned());
            }
            let service = service.to_owned();
            Ok(Self { port, path, service })
        };
        Some(read())
    }

    /// The requests to the pods of some replicas that have something to hand over, the highest first. Only pods that are there: how many
    /// requests there are does not follow from numbers of a review. An error is a host, port or path that would lead elsewhere.
    pub fn asks(
        &self,
        set: &Set,
        replicas: &Range<u32>,
        method: Method,
        settings: &Settings,
    ) -> Result<Vec<Ask>, String> {
        let leaving = set.pods.iter().filter_map(|pod| {
            let replica = set.replica(pod)?;
            let leaves = replicas.contains(&replica) && !has_nothing_to_hand_over(set, &pod.name);
            leaves.then_some((replica, pod))
        });
        let mut leaving: Vec<_> = leaving.collect();
        leaving.sort_by_key(|(replica, _)| std::cmp::Reverse(*replica));
        let ask = |(replica, pod): (u32, &Pod)| {
            let ordinal = u64::from(set.start) + u64::from(replica);
            let host = fqdn(
                &set.name,
                ordinal,
                &self.service,
                &settings.namespace,
                &settings.cluster_domain,
            );
            Ok(Ask {
                method,
                pod: pod.name.clone(),
                url: prepare_url(&host, &self.port, &self.path)?,
            })
        };
        leaving.into_iter().map(ask).collect()
    }
}

fn is_asked_for(labels: &BTreeMap<String, String>) -> bool {
    labels.get(PREPARE).is_some_and(|value| value == "true")
}

/// Whether a pod has nothing to hand over, so that it counts as prepared without being asked: there is none, or it is Pending and no
/// container of it ever ran (R12).
pub fn has_nothing_to_hand_over(set: &Set, pod: &str) -> bool {
    let found: Option<&Pod> = set.pods.iter().find(|found| found.name == pod);
    found.is_none_or(|pod| pod.phase == "Pending" && !pod.was_started())
}
