//! Which step is next. Pure.

use jiff::Timestamp;
use muster_sync::{health::evidence::Watch, inventory::Inventory};

use super::{
    observe::Observed,
    settings::{Settings, UnsupportedSpec},
    work::{Aim, Phase, Work},
};

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// It is being deleted and has no finalizer of muster.
    Forget,
    /// It is being deleted: its deletion policy decides whether the applied objects are deleted.
    Finalize,
    /// Its deletion must delete the applied objects: the finalizer is added first.
    Hold,
    /// Suspended, or reconciled by Flux: do nothing and report nothing.
    Suspended,
    /// The spec is not supported.
    Refuse(UnsupportedSpec),
    /// The artifact is from Flux and is about to be fetched again: nothing is reported until then.
    AwaitFetch,
    /// There is nothing to apply yet.
    AwaitSource { message: String },
    /// A dependency is not ready.
    AwaitDependency { message: String },
    /// Apply.
    Apply(Box<Work>),
    /// Check the health of the applied objects, and whether pruned objects are gone.
    Check {
        aim: Aim,
        settings: Box<Settings>,
        since: Timestamp,
        watch: Box<Watch>,
        wanted: Option<Inventory>,
    },
    /// Nothing is due before this time.
    Rest { until: Timestamp },
}

pub(super) fn decide(observed: &Observed) -> Decision {
    if observed.flux {
        return Decision::Suspended;
    }
    if observed.deleting {
        return if observed.held {
            Decision::Finalize
        } else {
            Decision::Forget
        };
    }
    // Without a finalizer it cannot get stuck when its namespace is deleted together with muster's ServiceAccount.
    if !observed.held && !observed.orphans {
        return Decision::Hold;
    }
    if observed.suspended {
        return Decision::Suspended;
    }
    let settings = match &observed.settings {
        Ok(settings) => settings.clone(),
        Err(refusal) => return Decision::Refuse(refusal.clone()),
    };
    let Some(source) = &observed.source else {
        let message = format!("Source 'GitRepository/{}' not found", observed.source_name);
        return Decision::AwaitSource { message };
    };
    let Some(revision) = &source.revision else {
        if source.left_by_flux && source.trouble.is_none() {
            return Decision::AwaitFetch;
        }
        let trouble = source.trouble.as_deref().unwrap_or("it was not fetched yet");
        let message = format!(
            "Source artifact not found: GitRepository/{}: {trouble}",
            observed.source_name
        );
        return Decision::AwaitSource { message };
    };
    let aim = Aim {
        uid: observed.uid.clone(),
        generation: observed.generation,
        revision: revision.clone(),
        requested: observed.requested.clone(),
        allow_empty: observed.allow_empty,
        settle: settings.settle,
        assumes: settings.assumes,
        plan: settings.plan.clone(),
    };
    let last = observed.run.as_ref().filter(|run| run.aim == aim);
    match last.map(|run| &run.phase) {
        Some(Phase::Checking { since, watch, wanted }) => {
            return Decision::Check {
                aim,
                settings: Box::new(settings),
                since: *since,
                watch: Box::new(watch.clone()),
                wanted: wanted.clone(),
            };
        }
        Some(Phase::Resting { until }) if observed.now < *until => return Decision::Rest { until: *until },
        Some(Phase::Resting { .. }) | None => {}
    }
    if let Some(message) = &observed.waits_for {
        return Decision::AwaitDependency {
            message: message.clone(),
        };
    }
    let is_new = observed.spoken_of.as_deref() != Some(revision);
    Decision::Apply(Box::new(Work {
        aim,
        settings,
        source: source.clone(),
        is_new,
    }))
}

#[cfg(test)]
#[allow(clippy::unnecessary_wraps, reason = "cases are listed next to `None`")]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use serde_json::json;

    use super::*;
    use crate::{
        gitrepository::remote::RepositoryAccess,
        kustomization::{settings, source::SourceRow, work::Run},
        runtime::Key,
    };

    const NOW: &str = "2026-11-21T12:00:00Z";

    fn observed() -> Observed {
        let spec =
            json!({"interval": "10m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "src"}});
        let address = RepositoryAccess {
            at: "spec",
            namespace: "ns".into(),
            url: "https://git.test/r".into(),
            secret: None,
            proxy: None,
            ignore: None,
        };
        Observed {
            uid: "u".into(),
            generation: 2,
            settings: settings::parse_settings(
                &serde_json::from_value(spec).unwrap(),
                &BTreeMap::new(),
                "ns",
            ),
            flux: false,
            suspended: false,
            deleting: false,
            held: true,
            orphans: false,
            requested: None,
            allow_empty: false,
            source_name: Key::new("ns", "src"),
            source: Some(SourceRow {
                address,
                revision: Some("sha1:b".into()),
                left_by_flux: false,
                trouble: None,
            }),
            spoken_of: Some("sha1:b".into()),
            waits_for: None,
            run: None,
            now: NOW.parse().unwrap(),
        }
    }

    /// The aim of [`observed`].
    fn aim() -> Aim {
        Aim {
            uid: "u".into(),
            generation: 2,
            revision: "sha1:b".into(),
            requested: None,
            allow_empty: false,
            settle: Duration::from_secs(30),
            assumes: true,
            plan: None,
        }
    }

    fn resting(aim: Aim, until: &str) -> Option<Run> {
        let until = until.parse().unwrap();
        Some(Run {
            aim,
            phase: Phase::Resting { until },
        })
    }

    fn checking(aim: Aim) -> Option<Run> {
        let since = NOW.parse().unwrap();
        Some(Run {
            aim,
            phase: Phase::Checking {
                since,
                watch: Watch::default(),
                wanted: None,
            },
        })
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Observed), expect: &str) {
        let mut observed = observed();
        change(&mut observed);
        let got = match decide(&observed) {
            Decision::Forget => "forget".to_owned(),
            Decision::Finalize => "finalize".to_owned(),
            Decision::Hold => "hold".to_owned(),
            Decision::Suspended => "suspended".to_owned(),
            Decision::AwaitFetch => "await the fetch".to_owned(),
            Decision::Refuse(refusal) => format!("refuse {}", refusal.reason),
            Decision::AwaitSource { message } | Decision::AwaitDependency { message } => message,
            Decision::Apply(work) => format!("apply {} new={}", work.aim.revision, work.is_new),
            Decision::Check { .. } => "check".to_owned(),
            Decision::Rest { until } => format!("rest until {until}"),
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn what_comes_first() {
        check(|_| {}, "apply sha1:b new=false");
        check(|o| o.spoken_of = None, "apply sha1:b new=true");
        check(|o| o.held = false, "hold");
        check(
            |o| {
                o.held = false;
                o.suspended = true;
            },
            "hold",
        );
        let free = |o: &mut Observed| (o.held, o.orphans) = (false, true);
        check(free, "apply sha1:b new=false");
        check(
            |o| {
                free(o);
                o.deleting = true;
            },
            "forget",
        );
        check(|o| o.orphans = true, "apply sha1:b new=false");
        check(|o| o.suspended = true, "suspended");
        check(|o| o.flux = true, "suspended");
        check(
            |o| {
                o.suspended = true;
                o.deleting = true;
            },
            "finalize",
        );
        check(
            |o| {
                o.held = false;
                o.deleting = true;
            },
            "forget",
        );
        let refusal = UnsupportedSpec {
            reason: "Unsupported",
            message: String::new(),
        };
        check(|o| o.settings = Err(refusal.clone()), "refuse Unsupported");
        check(|o| o.source = None, "Source 'GitRepository/ns/src' not found");
        let unread = |o: &mut Observed| o.source.as_mut().unwrap().revision = None;
        check(
            unread,
            "Source artifact not found: GitRepository/ns/src: it was not fetched yet",
        );
        let left_by_flux = |o: &mut Observed, trouble: Option<&str>| {
            let source = o.source.as_mut().unwrap();
            source.revision = None;
            source.left_by_flux = true;
            source.trouble = trouble.map(str::to_owned);
        };
        check(|o| left_by_flux(o, None), "await the fetch");
        check(
            |o| left_by_flux(o, Some("GitOperationFailed: away")),
            "Source artifact not found: GitRepository/ns/src: GitOperationFailed: away",
        );
        check(|o| o.waits_for = Some("dependency".into()), "dependency");
    }

    #[test]
    fn when_a_run_is_due_again() {
        let later = "2026-11-21T12:00:01Z";
        check(
            |o| o.run = resting(aim(), later),
            "rest until 2026-11-21T12:00:01Z",
        );
        check(|o| o.run = resting(aim(), NOW), "apply sha1:b new=false");
        check(|o| o.run = checking(aim()), "check");
        let others: [fn(&mut Aim); 7] = [
            |aim| aim.uid = "v".into(),
            |aim| aim.generation = 1,
            |aim| aim.revision = "sha1:a".into(),
            |aim| aim.requested = Some("then".into()),
            |aim| aim.allow_empty = true,
            |aim| aim.settle = Duration::ZERO,
            |aim| aim.assumes = false,
        ];
        for change in others {
            let mut other = aim();
            change(&mut other);
            check(|o| o.run = checking(other.clone()), "apply sha1:b new=false");
            check(
                |o| o.run = resting(other.clone(), later),
                "apply sha1:b new=false",
            );
        }
        // A dependency that is unavailable for a while does not affect what is applied already.
        check(
            |o| {
                o.run = resting(aim(), later);
                o.waits_for = Some("dependency".into());
            },
            "rest until 2026-11-21T12:00:01Z",
        );
    }
}
