//! Reports the commits still in use to the source from time to time, so that it can free the space of everything else.
//!
//! Invariant: the report follows only a complete, successful, fresh read of all repositories.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use kube::api::ListParams;
use muster_api::flux::GitRepository;
use muster_sync::source::CommitId;
use tracing::warn;

use crate::{
    reconcile::Context,
    runtime::{Api, CallError, call, call::error_chain},
};

/// How often to report. Unused commits only cost disk space.
const PERIOD: Duration = Duration::from_hours(1);

/// The jitter of the periods.
const SPREAD: f64 = 0.1;

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Cleans up at intervals, until it is dropped.
pub(super) async fn run(context: &Context) -> Infallible {
    loop {
        tokio::time::sleep(context.jitter.spread(PERIOD, SPREAD)).await;
        match commits_in_use(context).await {
            Err(error) => warn!(error = error_chain(&error), "git mirrors are not cleaned up"),
            Ok(named) => {
                if let Err(error) = context.source.retain(&named).await {
                    warn!(error = error_chain(&error), "git mirrors are not cleaned up");
                }
            }
        }
    }
}

/// The commits that statuses and specs name, with their URLs.
async fn commits_in_use(context: &Context) -> Result<BTreeSet<(String, CommitId)>, CallError> {
    let api: Api<GitRepository> = Api::namespaced(context.client.clone(), &context.namespace);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut named = BTreeSet::new();
    loop {
        let page = call("listing gitrepositories".to_owned(), api.list(&parameters)).await?;
        for object in &page.items {
            named.extend(commits(object).map(|commit| (object.spec.url.clone(), commit)));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(named),
            Some(token) => parameters = parameters.continue_token(&token),
        }
    }
}

/// The last good revision, and the commit that is pinned.
fn commits(object: &GitRepository) -> impl Iterator<Item = CommitId> {
    let artifact = object.status.as_ref().and_then(|status| status.artifact.as_ref());
    let revision = artifact.and_then(|artifact| artifact.revision.rsplit(':').next());
    let pinned = object
        .spec
        .reference
        .as_ref()
        .and_then(|reference| reference.commit.as_deref());
    // A revision that is not a commit was never fetched.
    [revision, pinned]
        .into_iter()
        .flatten()
        .filter_map(|text| text.parse().ok())
        .collect::<Vec<_>>()
        .into_iter()
}
