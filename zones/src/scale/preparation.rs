//! How pods of a set are prepared for a downscale, according to its label and annotations.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Settings,
    pods::{Ask, Method, fqdn, prepare_url},
};
use crate::model::{Pod, Set};

/// Only with the value `true` are pods prepared before they are removed.
pub const PREPARE: &str = "grafana.com/prepare-downscale";
/// The annotation with the path of the requests.
pub const PATH: &str = "grafana.com/prepare-downscale-http-path";
/// The annotation with the port of the requests.
pub const PORT: &str = "grafana.com/prepare-downscale-http-port";

/// The endpoint of a set's pods for preparation requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Port, as written in the annotation.
    pub port: String,
    /// Path, as written in the annotation.
    pub path: String,
    /// The headless Service that provides the pods' DNS names.
    pub service: String,
}

impl Preparation {
    /// Whether the pods of the set are prepared at all.
    pub fn is_asked_for(set: &Set) -> bool {
        is_asked_for(&set.labels)
    }

    /// Parses labels, annotations and `spec.serviceName`; `None` if pods are not prepared. An error says what is
    /// missing.
    pub fn of(
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        service: &str,
    ) -> Option<Result<Self, String>> {
        if !is_asked_for(labels) {
            return None;
        }
        let annotation = |key: &str| {
            let value = annotations.get(key).filter(|text| !text.is_empty());
            value
                .cloned()
                .ok_or_else(|| format!("the {key} annotation is not set or empty."))
        };
        let read = || {
            let (port, path) = (annotation(PORT)?, annotation(PATH)?);
            if service.is_empty() {
                return Err("the serviceName is not set or empty.".to_owned());
            }
            let service = service.to_owned();
            Ok(Self { port, path, service })
        };
        Some(read())
    }

    /// The requests to those pods in a range of replicas that must be prepared, the highest index first. Only for
    /// existing pods, so that the numbers in a review do not determine the number of requests. An error is a host, port
    /// or path that would send the request elsewhere.
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

/// Whether a pod needs no preparation and counts as prepared without a request: it does not exist, or is Pending and
/// none of its containers ever ran (R12).
pub fn has_nothing_to_hand_over(set: &Set, pod: &str) -> bool {
    let found: Option<&Pod> = set.pods.iter().find(|found| found.name == pod);
    found.is_none_or(|pod| pod.phase == "Pending" && !pod.was_started())
}
