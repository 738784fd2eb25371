//! The Lease in its API server: reading it, and writing it over what was read.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;

use super::{LeaseDuration, watched::holder};
use crate::runtime::{Api, CallError, Clock, call::call_within};

/// The Lease, and as whom it is written.
#[derive(Clone)]
pub(super) struct Post {
    pub(super) leases: Api<Lease>,
    pub(super) name: String,
    pub(super) me: String,
    pub(super) duration: LeaseDuration,
    pub(super) clock: Clock,
}

impl Post {
    /// The Lease as it is.
    pub(super) async fn read(&self) -> Result<Option<Lease>, CallError> {
        let read = self.leases.get_opt(&self.name);
        call_within(
            self.duration.call_deadline(),
            format!("reading Lease {}", self.name),
            read,
        )
        .await
    }

    /// Writes it over the version that it was read at, or makes it.
    pub(super) async fn write(&self, lease: &Lease) -> Result<Lease, CallError> {
        let (what, deadline) = (
            format!("writing Lease {}", self.name),
            self.duration.call_deadline(),
        );
        let parameters = PostParams {
            // The two leases are named as the field managers of their processes are.
            field_manager: Some(self.name.clone()),
            ..PostParams::default()
        };
        if lease.metadata.resource_version.is_some() {
            call_within(
                deadline,
                what,
                self.leases.replace(&self.name, &parameters, lease),
            )
            .await
        } else {
            call_within(deadline, what, self.leases.create(&parameters, lease)).await
        }
    }
}

/// Whether a Lease is held by whom `post` is, in a term that began as `began` did: the name alone proves nothing.
pub(super) fn is_same_term(lease: &Lease, post: &Post, began: &Lease) -> bool {
    let acquired = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
    let holder = lease.spec.as_ref().and_then(holder);
    holder == Some(post.me.as_str()) && acquired(lease) == acquired(began)
}
