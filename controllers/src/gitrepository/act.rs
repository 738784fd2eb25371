//! Acts on the decision: fetches, or removes the finalizer.

use std::{sync::Arc, time::Duration};

use muster_api::{flux::GitRepository, labels::finalizer, reasons::Reason};
use muster_sync::source::{Fetched, SourceError, SourceErrorClass, Verify};

use super::{
    Error,
    decide::{Decision, Fetch, UnsupportedSource},
    remote::{Failure, RepositoryAccess, enter, verification_keys},
};
use crate::{reconcile::Context, runtime::finalizers};

/// A source ends at the deadline on its own, with a better message; if it does not, it is abandoned.
const GRACE: Duration = Duration::from_secs(2);

/// The result of acting on a decision.
#[derive(Debug)]
pub(super) enum FetchOutcome {
    /// There was nothing to do.
    Nothing,
    /// Nothing is due before this time.
    Rest { until: jiff::Timestamp },
    /// The spec is not supported.
    Refused(UnsupportedSource),
    /// The repository was fetched.
    Fetched { fetch: Fetch, fetched: Fetched },
    /// The fetch failed.
    Failed { fetch: Fetch, failure: Failure },
}

pub(super) async fn act(
    object: &GitRepository,
    decision: Decision,
    context: &Context,
) -> Result<FetchOutcome, Error> {
    Ok(match decision {
        Decision::Leave { held: false } | Decision::Suspended => FetchOutcome::Nothing,
        Decision::Leave { held: true } => {
            finalizers::remove(&context.client, object, finalizer::FLUX).await?;
            FetchOutcome::Nothing
        }
        Decision::Rest { until } => FetchOutcome::Rest { until },
        Decision::Refuse(refusal) => FetchOutcome::Refused(refusal),
        Decision::Fetch(fetch) => match fetch_and_verify(object, &fetch, context).await {
            Ok(fetched) => FetchOutcome::Fetched { fetch, fetched },
            Err(failure) => FetchOutcome::Failed { fetch, failure },
        },
    })
}

async fn fetch_and_verify(
    object: &GitRepository,
    fetch: &Fetch,
    context: &Context,
) -> Result<Fetched, Failure> {
    let address = RepositoryAccess::of(object);
    let mut remote = enter(&address, context).await?;
    remote.timeout = Some(fetch.timeout);
    if let Some(verify) = &fetch.verify {
        remote.verify = Some(Verify {
            mode: verify.mode,
            keys: Arc::new(verification_keys(&address, &verify.secret, context).await?),
        });
    }
    let fetching = context.source.fetch(&remote, &fetch.want);
    match tokio::time::timeout(fetch.timeout + GRACE, fetching).await {
        Ok(Ok(fetched)) if fetch.verify.is_some() && fetched.verified.is_none() => Err(Failure {
            reason: Reason::VerificationFailed.as_str(),
            message: format!("{} of {} was not verified", fetch.want, remote.url),
            class: SourceErrorClass::Content,
        }),
        Ok(result) => result.map_err(Failure::from),
        Err(_elapsed) => Err(Failure::from(SourceError::Timeout {
            url: remote.url,
            after: fetch.timeout,
            phase: "spec.timeout",
        })),
    }
}
