//! The GitRepository controller, for clusters without Flux: fetches the requested revisions and reports them.
//!
//! ```text
//!   GitRepository ─► observe ─► decide ─► act: Source::fetch ─► status.artifact
//!                      └ the last attempt, in memory
//! ```
//!
//! Invariant: the last good artifact stays when a later fetch fails, with its revision and age in the message.
//! Invariant: a fetch is due by its interval, a changed spec, a request, or the backoff after a failure, never by the
//! controller's own write.

mod act;
mod attempts;
mod decide;
mod error;
mod observe;
pub(crate) mod remote;
mod retention;
mod status;

use std::sync::Arc;

use futures::{StreamExt, stream};
use muster_api::flux::GitRepository;

use self::attempts::Attempts;
pub use self::error::Error;
use crate::{
    reconcile::{Context, Runner, flux_presence::Presence},
    runtime::{Action, store_keys},
};

/// Concurrent reconciles. Each is one waiting future; concurrent git operations are limited by the source to four per
/// host, so a host that hangs does not delay repositories on other hosts.
const WORKERS: u16 = 1_024;

/// The dependencies of a reconcile of a repository.
struct Repositories {
    context: Context,
    flux: Arc<Presence>,
    attempts: Attempts,
}

/// Reconciles GitRepositories until the context's shutdown.
pub async fn run(context: Context) {
    let runner = Runner::<GitRepository>::new("gitrepository", &context).workers(WORKERS);
    let (flux, all) = (Presence::new(), runner.store());
    let everyone = flux
        .changes(&context)
        .flat_map(move |()| stream::iter(store_keys(&all)));
    let runner = runner.on(everyone).after(Arc::clone(&flux).known());
    let repositories = Arc::new(Repositories {
        context,
        flux,
        attempts: Attempts::new(runner.store()),
    });
    let context = repositories.context.clone();
    tokio::select! {
        () = runner.run(repositories, reconcile) => {}
        never = retention::run(&context) => match never {},
    }
}

async fn reconcile(object: Arc<GitRepository>, repositories: Arc<Repositories>) -> Result<Action, Error> {
    let observed = observe::observe(&object, &repositories);
    let decision = decide::decide(&observed);
    let announced = status::announce(&object, &decision, &repositories.context).await?;
    let outcome = act::act(&announced, decision, &repositories.context).await?;
    status::conclude(&announced, outcome, &repositories).await
}
