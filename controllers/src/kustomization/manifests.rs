//! From the source to manifests: read the path at the revision, build.

use muster_api::flux::commit_of;
use muster_sync::{
    build::{BuildOptions, build},
    source::{CommitId, Files, SourceError, SourceErrorClass, Want},
};
use serde_json::Value;

use super::{outcome::Failure, variables, work::Work};
use crate::{gitrepository::remote::enter, reconcile::Context};

/// The manifests built from the files with the variables of the spec, in order.
pub(super) async fn manifests(
    files: &Files,
    work: &Work,
    namespace: &str,
    context: &Context,
) -> Result<Vec<Value>, Failure> {
    let substitute = variables::gather(&work.settings, namespace, context).await?;
    let manifests = build(
        files,
        &BuildOptions {
            substitute,
            ..BuildOptions::default()
        },
    )
    .map_err(|errors| {
        if errors.only_misread_names() {
            Failure::misread_name(errors.to_string())
        } else {
            Failure::build(errors.to_string())
        }
    })?;
    Ok(manifests.into_iter().map(|manifest| manifest.object).collect())
}

/// The files below the path. A commit that is no longer stored here, for example after the data directory was lost, is
/// fetched.
pub(super) async fn read(work: &Work, context: &Context) -> Result<Files, Failure> {
    let commit: CommitId = commit_of(&work.aim.revision)
        .parse()
        .map_err(|error| Failure::artifact(format!("artifact revision {}: {error}", work.aim.revision)))?;
    let address = &work.source.address;
    match context
        .source
        .read(&address.remote(), &commit, &work.settings.path)
        .await
    {
        Err(SourceError::NotFetched { .. }) => {}
        read => return read.map_err(Failure::from),
    }
    let remote = enter(address, context)
        .await
        .map_err(|failure| Failure::artifact(failure.message).soon())?;
    context
        .source
        .fetch(&remote, &Want::Commit(commit.clone()))
        .await?;
    Ok(context.source.read(&remote, &commit, &work.settings.path).await?)
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let message = error.to_string();
        match (&error, error.class()) {
            (SourceError::PathNotFound { .. } | SourceError::InvalidPath { .. }, _) => {
                Self::artifact(message)
            }
            // The documented name is in the message: the reason is Flux's, which rollouts and users know.
            (SourceError::KustomizeUnsupported { .. }, _) => {
                Self::build(format!("KustomizeUnsupported: {message}"))
            }
            (_, SourceErrorClass::Content) => Self::build(message),
            (_, SourceErrorClass::Unavailable) => Self::artifact(message).soon(),
            (_, SourceErrorClass::Missing | SourceErrorClass::Invalid) => Self::artifact(message),
        }
    }
}
