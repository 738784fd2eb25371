//! Events of a fleet: which are about what, and which were told already.

use k8s_openapi::api::events::v1::Event;
use kube::{ResourceExt, runtime::watcher};
use muster_dashboard::Happened;
use serde::Serialize;

use crate::{happened::happened, name::Top};

/// What is about a cluster, besides its Cluster.
const ABOUT_A_CLUSTER: [&str; 3] = ["Cluster", "ProxyAssemblage", "RemoteAssemblage"];

/// How far events are told. A watch begins with all that are there, and may have to begin again: what was told is not told twice.
pub struct Followed {
    /// The greatest version that was told.
    upto: u64,
    /// Those of a list that is being read, which are in no order.
    listed: Vec<Event>,
}

impl Followed {
    /// Nothing is told yet but a list of this version.
    pub fn from(version: Option<&str>) -> Self {
        Self {
            upto: number(version),
            listed: Vec::new(),
        }
    }

    /// What is to be told now.
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

/// A version as the number that it is; one that is none comes before all.
fn number(version: Option<&str>) -> u64 {
    version.unwrap_or_default().parse().unwrap_or_default() // as above
}

/// An event, and where it is.
#[derive(Serialize)]
pub struct Told {
    /// Where it is.
    pub namespace: String,
    #[serde(flatten)]
    /// What it says.
    pub happened: Happened,
}

impl Told {
    /// What an event says; none if it is about no object of a fleet.
    pub fn of(event: &Event) -> Option<Self> {
        Some(Self {
            namespace: event.namespace().unwrap_or_default(), // an event that was read has one
            happened: happened(event)?,
        })
    }
}

/// Whether an event is about what a view begins with.
pub fn is_about(event: &Happened, top: &Top) -> bool {
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
    fn what_was_told_is_not_told_again_when_a_watch_begins_anew() {
        let mut told = Followed::from(Some("7"));
        let mut check = |event: watcher::Event<Event>, expect: &[&str]| {
            let news = told.news(event);
            let versions = news
                .iter()
                .filter_map(|event| event.metadata.resource_version.as_deref());
            assert_eq!(versions.collect::<Vec<_>>(), expect);
        };
        check(Init, &[]);
        check(InitApply(event("5")), &[]);
        check(InitDone, &[]);
        check(Apply(event("9")), &["9"]);
        // The watch is lost: 12 and 11 happened meanwhile, and a list is in the order of names.
        check(Init, &[]);
        for version in ["12", "5", "9", "11"] {
            check(InitApply(event(version)), &[]);
        }
        check(InitDone, &["12", "11"]);
        check(Apply(event("12")), &[]);
        check(Apply(event("13")), &["13"]);
    }
}
