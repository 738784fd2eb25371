//! The passes of two leaders, step by step as in the controller: read one list after the other, decide, write, act.

use std::rc::Rc;

use jiff::Timestamp;
use muster_api::zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus};
use muster_zones::{
    budget::OfRollout,
    decide::{Action, Decision, decide},
    model::{Group, Pod, Set},
    roll::{Budget, Delete, code},
    scale::{
        Change, Facts,
        operation::Downscale,
        pods::{Answer, Answered, Ask, Method},
    },
};

use super::{
    chance::Chance,
    reviews::Reviewing,
    sets::{State, index, name},
    world::{Holds, Sent, SentWrite, World},
};

/// A leader; two of them may act as leader at the same time.
#[derive(Default)]
pub(crate) struct Leader {
    pass: Option<Pass>,
    view: Option<View>,
}

/// The sets and pods as the watches of a leader see them.
struct View {
    sets: Rc<[Set]>,
    pods: Rc<[Pod]>,
    /// The version of these sets and pods.
    print: u64,
    /// The version of the ZoneRollout for which nothing has to be done, and until when.
    rest: Option<(u64, Option<Timestamp>)>,
}

/// A pass between two of its steps.
struct Pass {
    version: u64,
    spec: ZoneRolloutSpec,
    status: ZoneRolloutStatus,
    sets: Rc<[Set]>,
    versions: Vec<u64>,
    facts: Facts,
    decided: Timestamp,
    decision: Rc<Decision>,
    next: Next,
}

enum Next {
    Sets,
    Pods,
    Write,
    Act(Vec<Action>),
    /// A change of replicas is under review.
    Answer,
}

impl Leader {
    /// The API server answered a change of replicas. If it was rejected, the rest of the pass is decided without it.
    pub(crate) fn answered(&mut self, is_written: bool) {
        let Some(pass) = self.pass.take_if(|pass| matches!(pass.next, Next::Answer)) else {
            return;
        };
        if !is_written {
            let mut facts = pass.facts;
            facts.refused = Some(pass.decision.refused("denied".to_owned()));
            self.pass = Some(Pass {
                facts,
                version: u64::MAX, // read again
                next: Next::Sets,
                ..pass
            });
        }
    }
}

/// The budgets of the namespace, which additionally deny one request in ten at random.
struct Sometimes<'a>(OfRollout<'a>, Chance);

impl Budget for Sometimes<'_> {
    fn counts_by_partition(&mut self, pod: &Pod) -> Result<bool, String> {
        self.0.counts_by_partition(pod)
    }

    fn allows(&mut self, pod: &Pod, if_zero: u32) -> Result<(), String> {
        if self.1.is(100) {
            return Err("another zone is short of a pod".to_owned());
        }
        self.0.allows(pod, if_zero)
    }
}

/// A budget that denies every deletion.
struct Refusing;

impl Budget for Refusing {
    fn counts_by_partition(&mut self, _: &Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, _: &Pod, _: u32) -> Result<(), String> {
        Err("it is not known yet".to_owned())
    }
}

impl World {
    /// One step of a leader.
    pub(crate) fn lead(&mut self, leader: usize) -> Holds {
        if self.chance.is(20) {
            self.leaders[leader].pass = None;
            self.tally.kills += 1;
            self.log_event(format!("leader {leader} is killed"));
            return Ok(());
        }
        let Some(mut pass) = self.leaders[leader].pass.take() else {
            if self.rests(leader) {
                return Ok(());
            }
            if self.chance.is(300) || self.leaders[leader].view.is_none() {
                self.leaders[leader].view = Some(View {
                    sets: self.set_rows(),
                    pods: self.pod_rows(),
                    print: self.print(),
                    rest: None,
                });
            }
            if !self.is_quiet(leader) {
                self.leaders[leader].pass = Some(self.begin(Facts::default()));
            }
            return Ok(());
        };
        pass = match pass.next {
            Next::Sets if pass.version == u64::MAX => self.begin(pass.facts),
            Next::Sets => Pass {
                sets: self.set_rows(),
                versions: self.sets.iter().map(|set| set.version).collect(),
                next: Next::Pods,
                ..pass
            },
            Next::Pods => self.decide(pass)?,
            Next::Write => {
                if !self.write(pass.version, &pass.decision.status) {
                    self.begin(pass.facts)
                } else if self.chance.is(20) {
                    return Ok(()); // the answer was lost
                } else {
                    Pass {
                        next: Next::Act(pass.decision.actions.clone()),
                        ..pass
                    }
                }
            }
            Next::Act(ref actions) => match self.act(leader, &pass, actions) {
                Some(next) => Pass { next, ..pass },
                None => return Ok(()),
            },
            Next::Answer => pass,
        };
        self.leaders[leader].pass = Some(pass);
        Ok(())
    }

    /// Reads the ZoneRollout.
    fn begin(&self, facts: Facts) -> Pass {
        Pass {
            version: self.version,
            spec: self.spec.clone(),
            status: self.record.clone(),
            sets: Rc::new([]),
            versions: Vec::new(),
            facts,
            decided: self.now,
            decision: Rc::default(),
            next: Next::Sets,
        }
    }

    /// Whether a leader is up to date, and nothing has to be done.
    fn rests(&self, leader: usize) -> bool {
        let view = self.leaders[leader].view.as_ref();
        let rest = view
            .filter(|view| view.print == self.print())
            .and_then(|view| view.rest);
        rest.is_some_and(|(version, at)| version == self.version && at.is_none_or(|at| self.now < at))
    }

    /// A pass that only updates the status is based on the watches, however stale they are.
    fn is_quiet(&mut self, leader: usize) -> bool {
        let Some(mut view) = self.leaders[leader].view.take() else {
            return false;
        };
        let group = Self::group(&view.sets, &view.pods, self.spec.clone(), self.record.clone());
        let facts = Facts::default();
        let decision = decide(&group, &facts, &Self::settings(), &mut Refusing, self.now);
        let (before, after) = (&group.status, &decision.status);
        let is_quiet = decision.actions.is_empty()
            && decision.read.is_empty()
            && decision.ask.is_empty()
            && !after.reasons.iter().any(|reason| reason.reason == code::BUDGET)
            && after.in_flight == before.in_flight
            && after.operation == before.operation
            && after.last_downscale == before.last_downscale;
        if is_quiet {
            self.write(self.version, after);
            view.rest = Some((self.version, decision.wake_at));
        }
        self.leaders[leader].view = Some(view);
        is_quiet
    }

    /// Reads the pods, and decides.
    fn decide(&mut self, mut pass: Pass) -> Result<Pass, String> {
        let pods = self.pod_rows();
        let group = Self::group(&pass.sets, &pods, pass.spec.clone(), pass.status.clone());
        let in_flight = group.status.in_flight.clone();
        let of_budget = pass.sets.iter().filter(|_| self.budget.is_some());
        let rows: Vec<Set> = of_budget.map(|set| set.clone().with(&pods)).collect();
        let budgets = self.budgets.clone();
        let of_rollout = OfRollout::new(&budgets, "test", (&rows, &pods), in_flight, self.now);
        let mut budget = Sometimes(of_rollout, Chance(self.chance.next()));
        let decision = decide(&group, &pass.facts, &Self::settings(), &mut budget, self.now);
        self.check(&group, &decision)?;
        pass.decided = self.now;
        if decision.ask.is_empty() {
            pass.decision = Rc::new(decision);
            pass.next = Next::Write;
            return Ok(pass);
        }
        // The ZoneRollout is read again before requests are sent to pods.
        if pass.version != self.version {
            return Ok(self.begin(pass.facts));
        }
        for ask in decision.ask {
            let answered = self.call_pod(&ask);
            pass.facts.answers.insert(ask, answered);
        }
        Ok(self.begin(pass.facts))
    }

    /// Sends a request to a pod.
    pub(crate) fn call_pod(&mut self, ask: &Ask) -> Answered {
        let (set, ordinal) = ask.pod.rsplit_once('-').unwrap();
        let ordinal: usize = ordinal.parse().unwrap();
        let fails = self.chance.is(50);
        let pod = self.sets[index(set)].pods.get_mut(ordinal);
        let pod = pod.and_then(Option::as_mut).ok_or("no such host")?;
        match (ask.method, pod.state) {
            (Method::Delete, _) => pod.prepared = false,
            (Method::Post, State::Ready | State::Failing) if !fails => pod.prepared = true,
            (Method::Post, _) => return Err("connection refused".to_owned()),
        }
        self.log_event(format!("{} asked to {}", ask.pod, ask.method.as_str()));
        Ok(Answer {
            status: 204,
            body: String::new(),
        })
    }

    /// Checks that nothing available is deleted while a pod of another zone is unavailable in the data that was read,
    /// and that every deletion is recorded.
    fn check(&self, group: &Group, decision: &Decision) -> Holds {
        let deletes = decision.actions.iter().filter_map(|action| match action {
            Action::Delete(delete) => Some(delete),
            Action::Record(_) | Action::Scale(_) => None,
        });
        for delete in deletes {
            let mut on_record = decision.status.in_flight.iter();
            if !on_record.any(|entry| entry.uid == delete.uid) {
                return Err(self.broken(&format!("{delete:?} is not on record")));
            }
            let mut pods = group.sets.iter().flat_map(|set| &set.pods);
            let pod = pods.find(|pod| pod.uid == delete.uid);
            let others = group.sets.iter().filter(|set| set.name != delete.set);
            let unavailable: Vec<_> = others.flat_map(|set| set.unavailable(|_| false)).collect();
            if !unavailable.is_empty() && pod.is_some_and(Pod::is_available) {
                return Err(self.broken(&format!("{delete:?} while {unavailable:?}")));
            }
        }
        Ok(())
    }

    /// Sends the decided actions; returns the next step, if the pass is not complete.
    fn act(&mut self, leader: usize, pass: &Pass, actions: &[Action]) -> Option<Next> {
        for action in actions {
            match action {
                Action::Delete(delete) => self.send(leader, delete),
                Action::Record(record) => {
                    let set = &mut self.sets[index(&record.set)];
                    set.status.current_revision.clone_from(&record.revision);
                    set.version += 1;
                }
                Action::Scale(Change::Replicas(change)) => {
                    return self.scale(leader, pass, change);
                }
                Action::Scale(Change::WriteBack { .. }) => {}
            }
        }
        None
    }

    fn send(&mut self, leader: usize, delete: &Delete) {
        self.log_event(format!(
            "leader {leader} sends delete of {} {}",
            delete.pod, delete.uid
        ));
        let due = if self.now < self.outage {
            let late = self.chance.seconds(150);
            self.now + late + late
        } else {
            self.now
        };
        let what = SentWrite::Pod {
            set: index(&delete.set),
            uid: delete.uid.parse().unwrap(),
            version: delete
                .resource_version
                .as_ref()
                .map(|version| version.parse().unwrap()),
            evicts: false,
        };
        let latest = Timestamp::MAX;
        self.sent.push(Sent { due, latest, what });
    }

    /// A change of replicas by the controller is reviewed like any other.
    fn scale(&mut self, leader: usize, pass: &Pass, change: &Downscale) -> Option<Next> {
        let at = index(&change.set);
        let set = &mut self.sets[at];
        let to = usize::try_from(change.to).unwrap();
        if set.version != pass.versions[at] {
            let mut facts = pass.facts.clone();
            facts.refused = Some(pass.decision.refused("conflict".to_owned()));
            self.leaders[leader].pass = Some(self.begin(facts));
            return None;
        }
        if to > set.replicas {
            set.scaled(to);
            self.log_event(format!("{} rises to {to}", name(at)));
            return None;
        }
        if !set.prepares {
            let what = SentWrite::Replicas {
                set: at,
                to,
                version: set.version,
                started: Vec::new(),
                by: Some(leader),
            };
            let (due, latest) = (self.now, Self::latest(pass.decided));
            self.sent.push(Sent { due, latest, what });
            return Some(Next::Answer);
        }
        let review = Reviewing::new(self, at, to, Some(leader));
        self.reviews.push(review);
        Some(Next::Answer)
    }
}
