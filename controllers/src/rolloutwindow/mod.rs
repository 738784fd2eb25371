//! RolloutWindows: one watch for the module controllers, and their status.
//!
//! ```text
//!   RolloutWindows ─┬─► WatchedWindows ─► the module controllers (module::windows)
//!                   └─► reconcile ─► status: valid or not, open or not, the next change
//!   Clusters (labels, annotations) ──┘
//! ```
//!
//! Invariant: a window that cannot be parsed counts as closing what it selects; it is never left out.
//! Invariant: the status of a window is for users: no decision about a module reads it.

mod object;
mod status;
mod windows;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use muster_api::labels::manager;

pub use self::{
    object::StoredWindow,
    windows::{WatchedWindows, Windows},
};
use crate::{
    reconcile::{Context, Runner},
    runtime::{
        Action, Api, Key, Retry, Retryable,
        status::{StatusError, patch_if_changed},
    },
};

impl Retryable for StatusError {
    fn retry(&self) -> Retry {
        match self {
            Self::Serialize { .. } => Retry::AwaitChange,
            Self::Call(error) => error.retry(),
        }
    }
}

/// Writes the status of the windows of the context's namespace until its shutdown.
pub async fn run(context: Context) {
    let runner = Runner::<StoredWindow>::new("rolloutwindow", &context);
    let store = runner.store();
    let registry = Arc::clone(&context.registry);
    let every = registry.subscribe().flat_map(move |_cluster| {
        let windows = store.state();
        stream::iter(windows.into_iter().map(|window| Key::of(&*window)))
    });
    runner
        .on(every)
        .after(async move { registry.synced().await })
        .run(Arc::new(context), reconcile)
        .await;
}

async fn reconcile(object: Arc<StoredWindow>, context: Arc<Context>) -> Result<Action, StatusError> {
    let now = context.clock.now();
    let (status, again) = status::window_status(&object, &context.registry.list(), now);
    let api: Api<StoredWindow> = Api::namespaced(context.client.clone(), &context.namespace);
    let old = object.status.as_ref();
    let new = serde_json::to_value(&status).map_err(|source| StatusError::Serialize {
        what: format!("RolloutWindow {}", Key::of(&*object)),
        source,
    })?;
    patch_if_changed(&api, &object, old, &new, manager::CONTROLLER).await?;
    let wait = Duration::try_from(again.duration_since(now)).unwrap_or_default();
    Ok(Action::requeue(wait.max(Duration::from_millis(1))))
}
