//! Deployments: one ReplicaSet for each template so far; pods are moved from the old ones to the new one.
//!
//! revise (which ReplicaSet is the new one) ─► roll (how many replicas has each) ─► status

mod family;
pub(super) mod limits;
mod rolling;
mod status;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::plan::{Plan, Verb};
use super::settings::Settings;
use family::Family;

/// A ReplicaSet of a Deployment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    /// The ReplicaSet.
    pub set: &'a ReplicaSet,
    /// Number of its pods, including terminating ones.
    pub pods: usize,
}

/// Decides what to do about a Deployment. `is_taken` tells whether the name of a ReplicaSet is in use.
pub(super) fn decide(
    deployment: &Deployment,
    children: &[Child<'_>],
    is_taken: impl Fn(&str) -> bool,
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if deployment.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let family = Family::of(deployment, children);
    let mut event = status::Event::None;
    match family.new {
        None if !family.is_paused() => {
            let old_pods: usize = children.iter().map(|child| child.pods).sum();
            let replicas = rolling::first_size(&family, old_pods);
            match family.next_set(replicas, is_taken) {
                Some(set) => {
                    event = status::Event::Created(set.metadata.name.clone().unwrap_or_default()); // it has one
                    plan.write(Verb::Create, set);
                }
                None => event = status::Event::Collision,
            }
        }
        Some(new) if !family.is_paused() => {
            if let Some(set) = family.with_newest_revision(new.set) {
                plan.write(Verb::Replace, set);
                return plan;
            }
            if let Some(deployment) = family.with_revision_of(new.set) {
                plan.write(Verb::Replace, deployment);
                return plan;
            }
            resize(&mut plan, &family);
            if status::is_complete(deployment, deployment.status.as_ref()) {
                for set in family.beyond_history() {
                    plan.write(Verb::Delete, set.clone());
                }
            }
        }
        _ => resize(&mut plan, &family),
    }
    status::write(&mut plan, &family, &event, settings, now);
    plan
}

fn resize(plan: &mut Plan, family: &Family<'_>) {
    for (set, replicas) in rolling::sizes(family) {
        plan.write(Verb::Replace, family.resized(set, replicas));
    }
}
