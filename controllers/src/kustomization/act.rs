//! Acts on the decision.

use std::time::Duration;

use muster_api::labels::finalizer;

use super::{
    Error, Kustomizations, apply,
    decide::Decision,
    finalize, health,
    outcome::{Applied, ReconcileOutcome},
    status::Writer,
};
use crate::runtime::finalizers;

pub(super) async fn act(
    writer: &mut Writer,
    decision: Decision,
    kustomizations: &Kustomizations,
) -> Result<ReconcileOutcome, Error> {
    Ok(match decision {
        Decision::Forget => ReconcileOutcome::Gone,
        // A change of the object or of its source triggers the next reconcile.
        Decision::Suspended | Decision::AwaitFetch => ReconcileOutcome::Idle,
        Decision::Rest { until } => {
            health::observe_jobs(writer.object(), kustomizations).await;
            ReconcileOutcome::Rest { until }
        }
        Decision::Refuse(refusal) => ReconcileOutcome::Refused(refusal),
        Decision::Hold => {
            // A change of the object triggers the next reconcile.
            finalizers::add(&kustomizations.context.client, writer.object(), finalizer::FLUX).await?;
            ReconcileOutcome::Idle
        }
        Decision::AwaitSource { message } => ReconcileOutcome::Waiting {
            reason: "ArtifactFailed",
            message,
            after: None,
        },
        Decision::AwaitDependency { message } => ReconcileOutcome::Waiting {
            reason: "DependencyNotReady",
            message,
            after: Some(DEPENDENCY_POLL),
        },
        Decision::Finalize => finalize::finalize(writer, kustomizations).await?,
        Decision::Apply(work) => apply::apply(writer, *work, kustomizations).await?,
        Decision::Check {
            aim,
            settings,
            since,
            watch,
            wanted,
        } => {
            let check = health::Check {
                report: Applied {
                    checked: !watch.targets.is_empty(),
                    ..Applied::default()
                },
                aim,
                settings: *settings,
                since,
                watch: *watch,
                leaving: None,
            };
            apply::check_again(writer, check, wanted, kustomizations).await?
        }
    })
}

/// How often dependencies are checked; they are cached, so a check costs nothing.
const DEPENDENCY_POLL: Duration = Duration::from_secs(2);
