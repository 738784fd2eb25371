//! Plain kubectl, command by command. Run unchanged on the embedded server, and on a real one if `MUSTER_CONTRACT_KUBECONFIG` names its
//! kubeconfig. Skipped, and said so, where there is no kubectl.

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
