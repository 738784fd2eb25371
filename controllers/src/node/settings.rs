//! The settings of a NodeModule in the engine's form. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_api::{
    node::{
        module::{NodeModuleSpec, NodeOnDelete},
        rollout::{DomainOrder, NodeDomains},
    },
    reasons::Reason,
    rollout::Rollout,
};
use muster_rollout as engine;

use super::observation::Observation;
use crate::module::units;

/// The settings at a point in time. Unavailable nodes count against the limit, too.
pub fn engine_spec(module: &NodeModuleSpec, observed: &Observation, now: Timestamp) -> engine::Spec {
    let wishes = units::rollout_settings(&Rollout::from(&module.rollout));
    let target = observed.target.as_ref();
    engine::Spec {
        target: target.and_then(|target| engine::Revision::parse(&target.revision)),
        unavailable: Some(unavailable(wishes.limit, observed)),
        domains: module
            .rollout
            .domains
            .as_ref()
            .map_or(engine::Domains::ANY, domains),
        controls: observed.one_time_controls(now),
        withdraw: engine::Withdraw {
            // Deletion leaves the files unless the author requested more, which is a change under the limit.
            how: match module.on_delete {
                NodeOnDelete::Orphan => engine::How::Orphan,
                NodeOnDelete::Restore => engine::How::Prune,
            },
            brake: wishes.withdraw.brake.filter(|_| !observed.deleting),
            acknowledged: observed
                .controls
                .acknowledged(now)
                .map(|control| control.what.clone()),
            ..wishes.withdraw
        },
        paused: !observed.deleting && (wishes.paused || observed.controls.paused(now).is_some()),
        abandoned: observed.controls.given_up(now),
        ..wishes
    }
}

/// How many nodes may be changing or unavailable. A node whose content cannot be determined, or which is on hold, still
/// works and must not block the others: the engine counts it as unavailable, so the limit is raised by one for it.
fn unavailable(limit: engine::Limit, observed: &Observation) -> engine::Limit {
    let selected = observed.units.iter().filter(|unit| unit.selected()).count();
    let limit = match limit {
        engine::Limit::Count(count) => count,
        engine::Limit::Percent(0) => 0,
        engine::Limit::Percent(percent) => {
            let of = selected * usize::from(percent.min(100)) / 100;
            u32::try_from(of).unwrap_or(u32::MAX).max(1)
        }
    };
    let unfit = observed.units.iter().filter(|unit| {
        let own = [
            Reason::BindingFailed,
            Reason::NameConflict,
            Reason::Held,
            Reason::HeldLocally,
            Reason::Pinned,
        ];
        let reason = match unit.eligible {
            engine::Eligible::No(why) => Reason::of_code(why.code),
            _ => None,
        };
        unit.selected() && unit.available && reason.is_some_and(|reason| own.contains(&reason))
    });
    let unfit = u32::try_from(unfit.count()).unwrap_or(u32::MAX);
    engine::Limit::Count(if limit == 0 {
        0
    } else {
        limit.saturating_add(unfit)
    })
}

fn domains(domains: &NodeDomains) -> engine::Domains {
    engine::Domains {
        ordered: domains.order != DomainOrder::None,
        at_once: Some(domains.at_once),
        limit: domains.limit.map(engine::Limit::Count),
    }
}

/// The values of the domain label, in the order in which domains are changed.
pub fn order<'a>(domains: &'a NodeDomains, present: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let listed = match domains.order {
        DomainOrder::Listed => &domains.values[..],
        DomainOrder::None | DomainOrder::Name => &[],
    };
    let listed: Vec<&str> = listed
        .iter()
        .map(String::as_str)
        .filter(|value| present.contains(value))
        .collect();
    let others = present.iter().copied().filter(|value| !listed.contains(value));
    listed.iter().copied().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn domains_come_as_they_are_listed_and_others_after_them_by_name() {
        let check = |domains: serde_json::Value, expect: &[&str]| {
            let domains: NodeDomains = serde_json::from_value(domains).unwrap();
            assert_eq!(order(&domains, &BTreeSet::from(["a", "b", "c"])), expect);
        };
        check(json!({"key": "rack"}), &["a", "b", "c"]);
        check(json!({"key": "rack", "order": "Name"}), &["a", "b", "c"]);
        check(
            json!({"key": "rack", "order": "Listed", "values": ["c", "x", "a"]}),
            &["c", "a", "b"],
        );
    }
}
