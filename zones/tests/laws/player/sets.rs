//! Simulates the StatefulSets, their pods, and their controller.

use jiff::Timestamp;
use muster_zones::{
    model::{Container, Owner, Pod, Set, SetStatus, annotations},
    scale::{follower, preparation, times},
};
use serde_json::{Value, json};

use super::chance::Chance;

pub(crate) const GROUP: &str = "db";
/// Minimum number of seconds between the downscales of two zones.
pub(crate) const MIN_TIME: i64 = 90;

/// Revisions are numbers; pods at odd ones never become ready.
pub(crate) fn is_bad(revision: u32) -> bool {
    revision % 2 == 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Ready,
    /// The pod is in a crash loop. At a good revision it may become ready.
    Crashing,
    /// A probe fails; the pod may recover.
    Failing,
    Terminating,
}

#[derive(Clone, Debug)]
pub(crate) struct SimPod {
    pub uid: u32,
    pub revision: u32,
    pub state: State,
    /// The resourceVersion of the pod.
    pub version: u64,
    /// Whether the pod is prepared: asked to prepare, and not asked to cancel.
    pub prepared: bool,
    /// Whether one of its containers ever ran.
    pub started: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SimSet {
    pub index: usize,
    pub replicas: usize,
    /// Maximum number of unavailable pods, according to the annotation.
    pub limit: usize,
    pub template: u32,
    pub generation: i64,
    /// The resourceVersion of the set.
    pub version: u64,
    /// Whether the set follows the first set.
    pub follows: bool,
    /// Whether the pods are prepared for a downscale.
    pub prepares: bool,
    pub pods: Vec<Option<SimPod>>,
    pub status: SetStatus,
    /// By ordinal: whether muster made the pod unavailable and it has not come back.
    pub ours: Vec<bool>,
    /// Whether pods that a downscale by muster removes still exist.
    pub leaving: bool,
    /// When a downscale by muster was last performed.
    pub fell: Option<Timestamp>,
}

pub(crate) fn name(index: usize) -> String {
    format!("zone-{index}")
}

pub(crate) fn index(name: &str) -> usize {
    name.trim_start_matches("zone-").parse().unwrap()
}

impl SimSet {
    pub(crate) fn new(index: usize, replicas: usize, limit: usize, next_uid: &mut u32) -> Self {
        let mut set = Self {
            index,
            replicas,
            limit,
            template: 0,
            generation: 1,
            version: 1,
            follows: false,
            prepares: false,
            pods: Vec::new(),
            status: SetStatus {
                current_revision: "r0".to_owned(),
                ..SetStatus::default()
            },
            ours: vec![false; replicas],
            leaving: false,
            fell: None,
        };
        for _ in 0..replicas {
            *next_uid += 1;
            set.pods.push(Some(SimPod {
                uid: *next_uid,
                revision: 0,
                state: State::Ready,
                version: 1,
                prepared: false,
                started: true,
            }));
        }
        set.report();
        set
    }

    /// The StatefulSet controller updates the status.
    pub(crate) fn report(&mut self) {
        let pods = self.pods.iter().flatten();
        let count =
            |is: &dyn Fn(&SimPod) -> bool| u32::try_from(pods.clone().filter(|pod| is(pod)).count()).unwrap();
        let status = SetStatus {
            observed_generation: self.generation,
            replicas: count(&|_| true),
            ready_replicas: count(&|pod| pod.state == State::Ready),
            updated_replicas: count(&|pod| pod.revision == self.template),
            current_revision: self.status.current_revision.clone(),
            update_revision: format!("r{}", self.template),
        };
        if status != self.status {
            self.status = status;
            self.version += 1;
        }
    }

    /// The set is scaled. Surplus pods are removed anyway.
    pub(crate) fn scaled(&mut self, to: usize) {
        self.replicas = to;
        self.ours.iter_mut().skip(to).for_each(|ours| *ours = false);
        self.changed();
    }

    /// The spec changes.
    pub(crate) fn changed(&mut self) {
        self.generation += 1;
        self.version += 1;
    }

    /// Whether pods of the set are unavailable because of muster.
    pub(crate) fn is_ours(&self) -> bool {
        (self.leaving && self.pods.len() > self.replicas) || self.ours.contains(&true)
    }

    pub(crate) fn of_uid(&mut self, uid: u32) -> Option<(usize, &mut SimPod)> {
        let mut pods = self.pods.iter_mut().enumerate();
        pods.find_map(|(ordinal, pod)| Some((ordinal, pod.as_mut().filter(|pod| pod.uid == uid)?)))
    }

    /// A pod changes state, or the controller creates or removes one.
    pub(crate) fn moves(&mut self, chance: &mut Chance, next_uid: &mut u32) {
        self.pods.resize(self.pods.len().max(self.replicas), None);
        let is_open = |(ordinal, pod): &(usize, &Option<SimPod>)| {
            *ordinal >= self.replicas || pod.as_ref().is_none_or(|pod| pod.state != State::Ready)
        };
        let open: Vec<usize> = self
            .pods
            .iter()
            .enumerate()
            .filter(is_open)
            .map(|(ordinal, _)| ordinal)
            .collect();
        if open.is_empty() || chance.is(30) {
            self.fail(chance);
        } else {
            let ordinal = open[chance.below(open.len())];
            self.forward(ordinal, chance, next_uid);
        }
        while self.pods.len() > self.replicas && self.pods.last().is_some_and(Option::is_none) {
            self.pods.pop();
        }
        self.leaving &= self.pods.len() > self.replicas;
        self.ours.resize(self.pods.len(), false);
    }

    /// A Ready pod becomes unready on its own.
    fn fail(&mut self, chance: &mut Chance) {
        let ordinal = chance.below(self.pods.len());
        let state = if chance.is(200) {
            State::Crashing
        } else {
            State::Failing
        };
        if let Some(Some(pod)) = self.pods.get_mut(ordinal)
            && pod.state == State::Ready
            && chance.is(100)
        {
            pod.state = state;
            pod.version += 1;
        }
    }

    fn forward(&mut self, ordinal: usize, chance: &mut Chance, next_uid: &mut u32) {
        let is_highest = ordinal + 1 == self.pods.len();
        match &mut self.pods[ordinal] {
            None if ordinal < self.replicas => {
                *next_uid += 1;
                self.pods[ordinal] = Some(SimPod {
                    uid: *next_uid,
                    revision: self.template,
                    state: State::Starting,
                    version: 1,
                    prepared: false,
                    started: false,
                });
            }
            None => {}
            Some(pod) => {
                let before = pod.state;
                match pod.state {
                    State::Terminating => {
                        self.pods[ordinal] = None;
                        return;
                    }
                    // The controller removes the highest one.
                    _ if ordinal >= self.replicas && is_highest => pod.state = State::Terminating,
                    State::Starting if is_bad(pod.revision) => {
                        pod.started = true;
                        pod.state = State::Crashing;
                    }
                    State::Crashing if is_bad(pod.revision) || !chance.is(100) => {}
                    State::Starting | State::Failing | State::Crashing => {
                        pod.started = true;
                        pod.state = State::Ready;
                        self.ours[ordinal] = false;
                    }
                    State::Ready => {}
                }
                // Crash loops increment the restart count now and then.
                pod.version += u64::from(before != pod.state || chance.is(20));
            }
        }
    }

    /// Whether all pods exist and are Ready at the revision of the template, and none is prepared to leave.
    pub(crate) fn is_rolled_out(&self) -> bool {
        let done = |pod: &Option<SimPod>| {
            pod.as_ref().is_some_and(|pod| {
                pod.revision == self.template && pod.state == State::Ready && !pod.prepared
            })
        };
        self.pods.len() == self.replicas && self.pods.iter().all(done)
    }

    /// The decision input for the set, without pods.
    pub(crate) fn row(&self) -> Set {
        let mut labels = annotations::Texts::from([("rollout-group".to_owned(), GROUP.to_owned())]);
        let mut texts = annotations::Texts::from([
            (annotations::MAX_UNAVAILABLE.to_owned(), self.limit.to_string()),
            (preparation::PORT.to_owned(), "80".to_owned()),
            (preparation::PATH.to_owned(), "/leave".to_owned()),
        ]);
        if self.prepares {
            labels.insert(preparation::PREPARE.to_owned(), "true".to_owned());
        }
        labels.insert(times::MIN_TIME.to_owned(), format!("{MIN_TIME}s"));
        if self.follows {
            texts.insert(follower::LEADER.to_owned(), name(0));
        }
        Set {
            uid: format!("uid-{}", self.index),
            name: name(self.index),
            generation: self.generation,
            labels,
            annotations: texts,
            replicas: Some(u32::try_from(self.replicas).unwrap()),
            service_name: "db".to_owned(),
            strategy: "OnDelete".to_owned(),
            status: self.status.clone(),
            ..Set::default()
        }
    }

    /// The set as contained in a review.
    pub(crate) fn object(&self, replicas: usize) -> Value {
        let row = self.row();
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": row.name, "namespace": "test", "uid": row.uid, "generation": row.generation,
                "labels": row.labels, "annotations": row.annotations},
            "spec": {"replicas": replicas, "serviceName": row.service_name},
        })
    }

    /// The decision input for the pods.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Pod> {
        let pods = self.pods.iter().enumerate();
        pods.filter_map(|(ordinal, pod)| Some(row(self.index, ordinal, pod.as_ref()?)))
    }
}

fn row(set: usize, ordinal: usize, pod: &SimPod) -> Pod {
    let waiting = (pod.state == State::Crashing).then(|| ("CrashLoopBackOff".to_owned(), String::new()));
    Pod {
        name: format!("{}-{ordinal}", name(set)),
        uid: pod.uid.to_string(),
        stuck_version: waiting.is_some().then(|| pod.version.to_string()),
        labels: [
            (
                "controller-revision-hash".to_owned(),
                format!("r{}", pod.revision),
            ),
            ("rollout-group".to_owned(), GROUP.to_owned()),
        ]
        .into(),
        controller: Some(Owner {
            kind: "StatefulSet".to_owned(),
            name: name(set),
            uid: format!("uid-{set}"),
            controller: true,
        }),
        phase: if pod.started { "Running" } else { "Pending" }.to_owned(),
        terminating: pod.state == State::Terminating,
        containers: vec![Container {
            name: "main".to_owned(),
            ready: pod.state == State::Ready,
            running: matches!(pod.state, State::Ready | State::Failing),
            waiting,
            was_started: pod.started,
        }],
        ..Pod::default()
    }
}
