//! An observer of the limit: it reads the event logs of API servers and nothing else, and shares no code with muster.
//!
//! A cluster counts as changing from the write of an assignment with a new token until the same object reports that
//! digest and token as succeeded, which it may only after the Assemblage in the cluster did. At each write of a new
//! token to a cluster that is not counted yet, the number of counted clusters, including this one and excluding those
//! away for longer than `absence`, is at most the limit.
//!
//! Also: a token never decreases, means one digest only, and is written into a cluster once during the life of an
//! object there.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use muster_apiserver::ChangeKind;
use serde_json::Value;
use tokio::time::Instant;

use super::{Bed, Kind, kinds, objects, observer};

/// How many of the last events are kept.
const DIARY: usize = 160;

/// An event about one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The time of the event.
    pub at: Instant,
    /// The name of the cluster.
    pub cluster: String,
    /// The content of the event.
    pub what: Observation,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The row in the management cluster.
    Row(Row),
    /// The row, or the object that contained it, does not exist.
    NoRow,
    /// The row in the cluster.
    Inside(Row),
    /// There is no such row in the cluster.
    NothingInside,
    /// The cluster itself reports success for a digest and a token.
    Succeeded(Option<String>, u64),
    /// The management cluster reports the same about the cluster.
    Report(Option<String>, u64),
    /// The Cluster was deleted: it no longer counts.
    Left,
    /// The cluster became unreachable.
    Away,
    /// The cluster is reachable again.
    Back,
}

/// A row with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The token of the assignment.
    pub token: u64,
    /// The digest of the assigned revision; none for a withdrawal.
    pub digest: Option<String>,
    /// Whether it assigns a revision: it is neither a withdrawal nor a mere fence.
    pub carries: bool,
}

/// The observed state of a cluster.
#[derive(Debug, Default)]
struct ClusterState {
    row: Option<Row>,
    inside: Option<Row>,
    highest: u64,
    highest_inside: u64,
    digests: BTreeMap<u64, String>,
    succeeded: BTreeSet<(Option<String>, u64)>,
    counted: bool,
    away: Option<Instant>,
}

/// Counts the changing clusters of one module.
#[derive(Debug)]
pub struct Observer {
    kind: Kind,
    sync: String,
    limit: usize,
    absence: Duration,
    clusters: BTreeMap<String, ClusterState>,
    most: usize,
    assigned: usize,
    breaches: Vec<String>,
    /// The last events, to explain a violation.
    diary: VecDeque<String>,
    began: Option<Instant>,
}

impl Observer {
    /// An observer for the module `sync`, whose rows are in objects of `kind`.
    pub fn new(kind: Kind, sync: &str, limit: usize) -> Self {
        Self {
            kind,
            sync: sync.to_owned(),
            limit,
            absence: Duration::from_mins(5),
            clusters: BTreeMap::new(),
            most: 0,
            assigned: 0,
            breaches: Vec::new(),
            diary: VecDeque::new(),
            began: None,
        }
    }

    /// Sets another limit for the following events.
    pub fn allow(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The largest number of changing clusters at the write of a new token.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many new tokens that assign a revision were written.
    pub fn assigned(&self) -> usize {
        self.assigned
    }

    /// The violations found.
    pub fn breaches(&self) -> &[String] {
        &self.breaches
    }

    /// Fails if there are violations, and prints the events before them.
    #[track_caller]
    pub fn must_be_content(&self) {
        let diary: Vec<&str> = self.diary.iter().map(String::as_str).collect();
        assert!(
            self.breaches.is_empty(),
            "{:#?}\nafter\n{}",
            self.breaches,
            diary.join("\n")
        );
    }

    /// Processes the next event.
    pub fn see(&mut self, event: &ClusterEvent) {
        let (at, name) = (event.at, event.cluster.as_str());
        self.log_event(at, &format!("{name} {:?}", event.what));
        match &event.what {
            Observation::Row(row) => self.see_row(at, name, row),
            Observation::Inside(row) => self.see_inside(at, name, row),
            Observation::Report(digest, token) => self.see_report(at, name, digest.as_ref(), *token),
            Observation::Succeeded(digest, token) => {
                self.known(name).succeeded.insert((digest.clone(), *token));
            }
            Observation::NoRow => self.known(name).row = None,
            Observation::NothingInside => self.known(name).inside = None,
            Observation::Left => drop(self.clusters.remove(name)),
            Observation::Away => self.known(name).away = Some(at),
            Observation::Back => self.known(name).away = None,
        }
    }

    /// Adds a line to the log, unless a recent line is the same.
    pub fn log_event(&mut self, at: Instant, words: &str) {
        let began = *self.began.get_or_insert(at);
        let line = format!("{:>9.3} {words}", at.duration_since(began).as_secs_f64());
        let subject = |line: &str| line[9..].to_owned();
        if self
            .diary
            .iter()
            .rev()
            .take(DIARY / 2)
            .any(|other| subject(other) == subject(&line))
        {
            return;
        }
        if self.diary.len() == DIARY {
            self.diary.pop_front();
        }
        self.diary.push_back(line);
    }

    fn see_row(&mut self, at: Instant, name: &str, row: &Row) {
        let known = self.known(name);
        let (highest, counted) = (known.highest, known.counted);
        known.row = Some(row.clone());
        known.highest = highest.max(row.token);
        let before = match (&row.digest, row.carries) {
            (Some(digest), true) => known.digests.insert(row.token, digest.clone()),
            _ => None,
        };
        if before.is_some_and(|before| Some(before) != row.digest) {
            self.breach(at, name, &format!("token {} now means another digest", row.token));
        }
        if row.token < highest {
            self.breach(
                at,
                name,
                &format!("the token fell from {highest} to {}", row.token),
            );
        }
        if row.token <= highest {
            return;
        }
        self.known(name).counted = row.carries;
        if !row.carries {
            return;
        }
        self.assigned += 1;
        let all = self.counted(at);
        self.most = self.most.max(all.len());
        if !counted && all.len() > self.limit {
            let words = format!("token {} makes {all:?} of {}", row.token, self.limit);
            self.breach(at, name, &words);
        }
    }

    fn see_inside(&mut self, at: Instant, name: &str, row: &Row) {
        let known = self.known(name);
        let before = known.inside.replace(row.clone());
        let highest = known.highest_inside;
        known.highest_inside = highest.max(row.token);
        if row.token < highest {
            let words = format!("inside, the token fell from {highest} to {}", row.token);
            self.breach(at, name, &words);
        }
        let again = before.is_some_and(|before| before.token == row.token && before != *row);
        if again {
            self.breach(at, name, &format!("inside, token {} came twice", row.token));
        }
    }

    fn see_report(&mut self, at: Instant, name: &str, digest: Option<&String>, token: u64) {
        let remote = self.kind.resource() == kinds::REMOTE_ASSEMBLAGE.resource();
        let known = self.known(name);
        let is_of_row =
            |row: &Row| row.carries && row.token == token && row.digest.as_ref() == digest && known.counted;
        if !known.row.as_ref().is_some_and(is_of_row) {
            return;
        }
        known.counted = false;
        if !remote && !known.succeeded.contains(&(digest.cloned(), token)) {
            let words = format!("token {token} is reported as succeeded, and the cluster did not report it");
            self.breach(at, name, &words);
        }
    }

    fn counted(&self, now: Instant) -> Vec<String> {
        let absent = |known: &ClusterState| {
            known
                .away
                .is_some_and(|since| now.duration_since(since) > self.absence)
        };
        let counted = self
            .clusters
            .iter()
            .filter(|(_, known)| known.counted && !absent(known));
        counted.map(|(name, _)| name.clone()).collect()
    }

    fn known(&mut self, name: &str) -> &mut ClusterState {
        self.clusters.entry(name.to_owned()).or_default()
    }

    fn breach(&mut self, at: Instant, name: &str, words: &str) {
        self.log_event(at, &format!("BREACH {name}: {words}"));
        self.breaches.push(format!("{name}: {words}"));
    }
}

impl Bed {
    /// Feeds an observer all events since [`Bed::forget_requests`].
    pub fn show(&self, observer: &mut Observer) {
        // Read before the clusters: on real servers, a report of a cluster is then visible if the management cluster
        // has it.
        let (proxies, members) = (
            self.management.events(observer.kind),
            self.management.events(kinds::CLUSTER),
        );
        let mut sights = Vec::new();
        // Reports of the clusters first, so that those of the management cluster at the same instant follow them.
        for (name, cluster) in &self.clusters {
            for event in cluster.api.events(kinds::ASSEMBLAGE) {
                let gone = event.kind() == ChangeKind::Deleted;
                let object = (!gone).then(|| event.object());
                inside(event.at, name, object, &observer.sync, &mut sights);
            }
        }
        for event in proxies {
            let name = objects::name(event.object());
            let object = (event.kind() != ChangeKind::Deleted).then(|| event.object());
            upstream(event.at, name, object, &observer.sync, &mut sights);
        }
        for event in members {
            if event.kind() == ChangeKind::Deleted {
                sights.push(cluster_event(
                    event.at,
                    objects::name(event.object()),
                    Observation::Left,
                ));
            }
        }
        sights.sort_by_key(|event| event.at);
        for event in &sights {
            observer.see(event);
        }
    }

    /// The same, and then discards the logs: for runs that are longer than a log.
    pub fn show_and_forget(&self, observer: &mut Observer) {
        self.show(observer);
        self.forget_requests();
    }

    /// The largest number of changing clusters at the write of a new token; fails if an observer without a limit finds
    /// a violation.
    pub fn most_in_flight(&self, kind: Kind, sync: &str) -> usize {
        let mut observer = Observer::new(kind, sync, usize::MAX);
        self.show(&mut observer);
        observer.must_be_content();
        observer.most()
    }
}

fn inside(at: Instant, cluster: &str, object: Option<&Value>, sync: &str, sights: &mut Vec<ClusterEvent>) {
    let row = object.and_then(|object| row(object, sync));
    let what = row.map_or(Observation::NothingInside, Observation::Inside);
    sights.push(cluster_event(at, cluster, what));
    let report = object.and_then(|object| succeeded(object, sync));
    sights.extend(
        report.map(|(digest, token)| cluster_event(at, cluster, Observation::Succeeded(digest, token))),
    );
}

fn upstream(at: Instant, cluster: &str, object: Option<&Value>, sync: &str, sights: &mut Vec<ClusterEvent>) {
    let row = object.and_then(|object| row(object, sync));
    sights.push(cluster_event(
        at,
        cluster,
        row.map_or(Observation::NoRow, Observation::Row),
    ));
    let report = object.and_then(|object| succeeded(object, sync));
    sights
        .extend(report.map(|(digest, token)| cluster_event(at, cluster, Observation::Report(digest, token))));
}

fn cluster_event(at: Instant, cluster: &str, what: Observation) -> ClusterEvent {
    let cluster = cluster.to_owned();
    ClusterEvent { at, cluster, what }
}

fn row(object: &Value, sync: &str) -> Option<Row> {
    let row = observer::find_by_name(&object["spec"]["syncs"], sync)?;
    Some(Row {
        token: row["token"].as_u64()?,
        digest: row["digest"].as_str().map(str::to_owned),
        carries: row["source"].is_object(),
    })
}

fn succeeded(object: &Value, sync: &str) -> Option<(Option<String>, u64)> {
    let report = observer::find_by_name(&object["status"]["syncs"], sync)?;
    let token = report["token"].as_u64()?;
    (report["state"] == "succeeded").then(|| (report["digest"].as_str().map(str::to_owned), token))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One entry per event, one second apart: `a row 1 x`, `a fence 2`, `a in 1 x`, `a ok 1 x`, `a report 1 x`, `a
    /// gone`, `a left`, `a away`, `a back`; `wait` is six minutes.
    fn check(limit: usize, log: &str, expect: &[&str]) {
        let mut observer = Observer::new(kinds::PROXY_ASSEMBLAGE, "web", limit);
        let mut at = Instant::now();
        for line in log.split(';').map(str::trim) {
            at += Duration::from_secs(if line == "wait" { 360 } else { 1 });
            let words: Vec<&str> = line.split(' ').collect();
            let token = || words[2].parse().unwrap();
            let digest = || words.get(3).map(|digest| (*digest).to_owned());
            let row = || Row {
                token: token(),
                digest: digest(),
                carries: words.len() > 3,
            };
            let what = match words.get(1) {
                None => continue,
                Some(&("row" | "fence")) => Observation::Row(row()),
                Some(&"in") => Observation::Inside(row()),
                Some(&"ok") => Observation::Succeeded(digest(), token()),
                Some(&"echo") => Observation::Report(digest(), token()),
                Some(&"gone") => Observation::NoRow,
                Some(&"left") => Observation::Left,
                Some(&"away") => Observation::Away,
                Some(&"back") => Observation::Back,
                Some(other) => panic!("{other}"),
            };
            observer.see(&cluster_event(at, words[0], what));
        }
        assert_eq!(observer.breaches(), expect, "{log}");
    }

    #[test]
    fn what_a_doctored_log_shows() {
        let good = "a row 1 x; a in 1 x; a ok 1 x; a echo 1 x; b row 2 x; b in 2 x; b ok 2 x; b echo 2 x";
        check(1, good, &[]);
        check(0, "a row 1 x", &["a: token 1 makes [\"a\"] of 0"]);
        check(
            1,
            "a row 1 x; b row 2 x",
            &["b: token 2 makes [\"a\", \"b\"] of 1"],
        );
        check(2, "a row 1 x; b row 2 x", &[]);
        // Another target reuses the slot of the cluster; a fence keeps it, a withdrawal does not.
        check(1, "a row 1 x; a row 2 y; a ok 2 y; a echo 2 y; b row 3 y", &[]);
        check(
            1,
            "a row 1 x; a row 2 x; b row 3 y",
            &["b: token 3 makes [\"a\", \"b\"] of 1"],
        );
        check(1, "a row 1 x; a fence 2; b row 3 y", &[]);
        // A report about another token or digest does not count, and one that the cluster did not make is a violation.
        check(
            1,
            "a row 1 x; a row 3 x; a ok 1 x; a echo 1 x; b row 4 x",
            &["b: token 4 makes [\"a\", \"b\"] of 1"],
        );
        check(
            1,
            "a row 1 x; a ok 1 y; a echo 1 y; b row 2 x",
            &["b: token 2 makes [\"a\", \"b\"] of 1"],
        );
        check(
            1,
            "a row 1 x; a echo 1 x",
            &["a: token 1 is reported as succeeded, and the cluster did not report it"],
        );
        // Deleted and re-created, it is still the same assignment.
        check(
            1,
            "a row 1 x; a gone; a row 1 x; b row 2 x",
            &["b: token 2 makes [\"a\", \"b\"] of 1"],
        );
        check(1, "a row 1 x; a left; b row 2 x", &[]);
    }

    #[test]
    fn a_token_is_one_assignment() {
        check(2, "a row 2 x; a row 1 x", &["a: the token fell from 2 to 1"]);
        check(
            2,
            "a row 2 x; a gone; a row 1 x",
            &["a: the token fell from 2 to 1"],
        );
        check(
            2,
            "a row 2 x; a row 2 y",
            &["a: token 2 now means another digest"],
        );
        check(
            2,
            "a in 2 x; a in 1 x",
            &["a: inside, the token fell from 2 to 1"],
        );
        check(2, "a in 2 x; a in 2 y", &["a: inside, token 2 came twice"]);
    }

    #[test]
    fn a_long_unreachable_cluster_does_not_count_until_it_is_back() {
        let away = "a row 1 x; a away; b row 2 x";
        check(1, away, &["b: token 2 makes [\"a\", \"b\"] of 1"]);
        check(1, "a row 1 x; a away; wait; b row 2 x", &[]);
        let back = "a row 1 x; a away; wait; b row 2 x; a back; b ok 2 x; b echo 2 x; c row 3 x";
        check(1, back, &["c: token 3 makes [\"a\", \"c\"] of 1"]);
    }
}
