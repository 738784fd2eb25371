//! The newest events of the objects of a fleet.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event as ApiEvent;
use kube::{ResourceExt, runtime::watcher::Event};
use muster_api::{cluster, kind};
use muster_dashboard::{FleetEvent, Trouble};

/// Number of events kept: several rollouts over a large fleet.
const KEPT: usize = 1_000;

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// By time, and by name for the same time.
    by_time: BTreeMap<(Timestamp, String), Arc<FleetEvent>>,
    times: HashMap<String, Timestamp>,
    failing: Option<Trouble>,
}

impl Log {
    /// Handles an event; returns whether the view changed.
    pub(crate) fn event(&mut self, event: Event<ApiEvent>) -> bool {
        // A list that has started may fail again.
        if !matches!(event, Event::Init) {
            self.failing = None;
        }
        match event {
            Event::Init => {
                self.by_time.clear();
                self.times.clear();
                false
            }
            Event::InitDone => true,
            Event::InitApply(object) | Event::Apply(object) => self.put(&object),
            Event::Delete(object) => self.remove(&object.name_any()),
        }
    }

    fn put(&mut self, event: &ApiEvent) -> bool {
        let Some(happened) = read_event(event) else {
            return false;
        };
        let name = event.name_any();
        self.remove(&name);
        self.times.insert(name.clone(), happened.at);
        self.by_time.insert((happened.at, name), Arc::new(happened));
        while self.by_time.len() > KEPT {
            if let Some(((_, name), _)) = self.by_time.pop_first() {
                self.times.remove(&name);
            }
        }
        true
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.times.remove(name) else {
            return false;
        };
        self.by_time.remove(&(at, name.to_owned())).is_some()
    }

    /// Records a failure of the watch; returns whether it is new.
    pub(crate) fn failed(&mut self, message: String, now: Timestamp) -> bool {
        let since = self.failing.as_ref().map_or(now, |trouble| trouble.since);
        let what = "events".to_owned();
        let trouble = Some(Trouble { what, since, message });
        let is_news = self.failing != trouble;
        self.failing = trouble;
        is_news
    }

    /// Newest first.
    pub(crate) fn newest(&self) -> Vec<Arc<FleetEvent>> {
        self.by_time.values().rev().cloned().collect()
    }

    /// What cannot be read.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        self.failing.iter().cloned()
    }
}

/// Reads an event, if it is about an object of the fleet.
pub fn read_event(event: &ApiEvent) -> Option<FleetEvent> {
    let regarding = event.regarding.as_ref()?;
    let group = regarding
        .api_version
        .as_deref()?
        .split_once('/')
        .map_or("", |(group, _)| group);
    if ![kind::GROUP, cluster::GROUP].contains(&group) {
        return None;
    }
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let old = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    let created = event.creation_timestamp().map(|time| time.0);
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    Some(FleetEvent {
        at: series.or(old).or(first).or(created)?,
        warning: event.type_.as_deref() == Some("Warning"),
        reason: text(&event.reason),
        note: text(&event.note),
        kind: text(&regarding.kind),
        name: text(&regarding.name),
        by: text(&event.reporting_controller),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str, second: u32, group: &str) -> ApiEvent {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "fleet"}, "eventTime": format!("2026-01-01T00:{:02}:{:02}.000000Z", second / 60, second % 60),
            "regarding": {"apiVersion": format!("{group}/v1alpha1"), "kind": "Module", "name": "web"}, "reason": "RolloutStarted",
            "note": "n", "type": "Normal", "reportingController": "muster-controller",
        }))
        .unwrap()
    }

    #[test]
    fn the_newest_are_kept_and_strangers_are_not() {
        let mut log = Log::default();
        assert!(!log.event(Event::Apply(event("pod", 1, "apps"))));
        for number in 0..1_100 {
            assert!(log.event(Event::Apply(event(&format!("e{number}"), number, kind::GROUP))));
        }
        let all = log.newest();
        assert_eq!((all.len(), log.times.len()), (KEPT, KEPT));
        assert!(all.windows(2).all(|two| two[0].at >= two[1].at));
        // The same event again replaces the old one.
        assert!(log.event(Event::Apply(event("e1099", 3_000, kind::GROUP))));
        assert_eq!(log.newest().len(), KEPT);
        assert!(log.event(Event::Delete(event("e1099", 3_000, kind::GROUP))));
        assert!(!log.event(Event::Delete(event("e0", 0, kind::GROUP))));
        assert_eq!(log.newest().len(), KEPT - 1);
    }
}
