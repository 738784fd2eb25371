//! The Lease in its API server: reads it, and writes it over the version that was read.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;

use super::{LeaseDuration, watched::holder};
use crate::runtime::{Api, CallError, Clock, call::call_within};

/// The Lease, and the identity it is written with.
#[derive(Clone)]
pub(super) struct Post {
    pub(super) leases: Api<Lease>,
    pub(super) name: String,
    pub(super) me: String,
    pub(super) duration: LeaseDuration,
    pub(super) clock: Clock,
}

impl Post {
    /// The current Lease.
    pub(super) async fn read(&self) -> Result<Option<Lease>, CallError> {
        let read = self.leases.get_opt(&self.name);
        call_within(
            self.duration.call_deadline(),
            format!("reading Lease {}", self.name),
            read,
        )
        .await
    }

    /// Writes it over the version that it was read at, or creates it.
    pub(super) async fn write(&self, lease: &Lease) -> Result<Lease, CallError> {
        let (what, deadline) = (
            format!("writing Lease {}", self.name),
            self.duration.call_deadline(),
        );
        let parameters = PostParams {
            // The two leases are named like the field managers of their processes.
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

/// Whether the holder of a Lease is `post`, in a term that started as `began` did: the name alone proves nothing.
pub(super) fn is_same_term(lease: &Lease, post: &Post, began: &Lease) -> bool {
    let acquired = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
    let holder = lease.spec.as_ref().and_then(holder);
    holder == Some(post.me.as_str()) && acquired(lease) == acquired(began)
}
