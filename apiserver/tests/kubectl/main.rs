//! Unmodified kubectl, command by command. Runs on the embedded server, or, unchanged, on a real one if
//! `MUSTER_CONTRACT_KUBECONFIG` has its kubeconfig. Skipped, with a message, if kubectl is not installed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod api_resources;
mod apply;
mod create;
mod delete;
mod diff;
mod drain;
mod edit;
mod explain;
mod get;
mod harness;
mod label;
mod patch;
mod wait;

/// A case: `case!(name, |kubectl| { … })`.
macro_rules! case {
    ($(#[doc = $doc:expr])* $name:ident, $kubectl:ident, $body:block) => {
        $(#[doc = $doc])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let Some($kubectl) = $crate::harness::Kubectl::new().await else { return };
            $body
        }
    };
}
pub(crate) use case;
