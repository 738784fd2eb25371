//! Events of a fleet: which objects they are about, and which were already printed.

use k8s_openapi::api::events::v1::Event;
use kube::{ResourceExt, runtime::watcher};
use muster_dashboard::FleetEvent;
use serde::Serialize;

use crate::{event_log::read_event, name::Top};

/// The kinds that are about a cluster, in addition to its Cluster.
const ABOUT_A_CLUSTER: [&str; 3] = ["Cluster", "ProxyAssemblage", "RemoteAssemblage"];

/// Which events were printed. A watch starts with all existing events, and may restart: no event is printed twice.
pub struct Followed {
    /// The greatest resource version that was printed.
    upto: u64,
    /// The events of a list that is being read, which are in no order.
    listed: Vec<Event>,
}

impl Followed {
    /// Starts after a list of this version.
    pub fn from(version: Option<&str>) -> Self {
        Self {
            upto: number(version),
            listed: Vec::new(),
        }
    }

    /// The events to print now.
    pub fn news(&mut self, event: watcher::Event<Event>) -> Vec<Event> {
        let mut news = match event {
            watcher::Event::Init => {
                self.listed.clear();
                return Vec::new();
            }
            watcher::Event::InitApply(event) => {
                self.listed.push(event);
                return Vec::new();
            }
            watcher::Event::InitDone => std::mem::take(&mut self.listed),
            watcher::Event::Apply(event) => vec![event],
            watcher::Event::Delete(_) => return Vec::new(),
        };
        let version = |event: &Event| number(event.metadata.resource_version.as_deref());
        news.retain(|event| version(event) > self.upto);
        self.upto = news.iter().map(version).fold(self.upto, u64::max);
        news
    }
}

/// A resource version as a number; one that is not a number sorts first.
fn number(version: Option<&str>) -> u64 {
    version.unwrap_or_default().parse().unwrap_or_default() // as above
}

/// An event, and its namespace.
#[derive(Serialize)]
pub struct NamespacedEvent {
    /// Namespace of the event.
    pub namespace: String,
    #[serde(flatten)]
    /// What the event is about.
    pub happened: FleetEvent,
}

impl NamespacedEvent {
    /// Reads an event; `None` if it is not about an object of a fleet.
    pub fn of(event: &Event) -> Option<Self> {
        Some(Self {
            namespace: event.namespace().unwrap_or_default(), // an event from the API server has one
            happened: read_event(event)?,
        })
    }
}

/// Whether an event is about the root of a view.
pub fn is_about(event: &FleetEvent, top: &Top) -> bool {
    match top {
        Top::Fleet => true,
        Top::Cluster(name) => ABOUT_A_CLUSTER.contains(&&*event.kind) && event.name == *name,
        Top::Module(module) => event.is_about(&module.reference()),
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event::{Apply, Init, InitApply, InitDone};

    use super::*;

    fn event(version: &str) -> Event {
        let mut event = Event::default();
        event.metadata.resource_version = Some(version.to_owned());
        event
    }

    #[test]
    fn events_are_not_repeated_when_a_watch_restarts() {
        let mut followed = Followed::from(Some("7"));
        let mut check = |event: watcher::Event<Event>, expect: &[&str]| {
            let news = followed.news(event);
            let versions = news
                .iter()
                .filter_map(|event| event.metadata.resource_version.as_deref());
            assert_eq!(versions.collect::<Vec<_>>(), expect);
        };
        check(Init, &[]);
        check(InitApply(event("5")), &[]);
        check(InitDone, &[]);
        check(Apply(event("9")), &["9"]);
        // The watch is lost: 12 and 11 are written meanwhile, and a list is ordered by name.
        check(Init, &[]);
        for version in ["12", "5", "9", "11"] {
            check(InitApply(event(version)), &[]);
        }
        check(InitDone, &["12", "11"]);
        check(Apply(event("12")), &[]);
        check(Apply(event("13")), &["13"]);
    }
}
