//! From an HTTP request to its response.
//!
//! ```text
//! request ─► intake (faults, body, record) ─► route ─► read │ watch │ create │ update │ patch │ delete ─► respond (view, format)
//! ```
//!
//! A write takes an object from the request to the store:
//!
//! ```text
//! decode ─► identity (name, namespace, kind) ─► shape (prune, default) ─► [mutating webhooks] ─► carry over what the client cannot
//! set ─► validate ─► track managers ─► [validating webhooks] ─► commit (or, for a dry run, not)
//! ```
//!
//! If a webhook may change the object, managers are tracked before: a webhook's changes belong to no manager.

mod accept;
mod admit;
mod apply_patch;
mod change;
mod connect;
mod create;
mod decode;
mod delete;
mod evict;
mod identity;
mod initial;
mod intake;
mod options;
mod patch;
mod query;
mod read;
mod respond;
mod route;
mod scale;
mod shape;
mod update;
mod watch;

use std::sync::Arc;

use crate::admission::Warnings;
use crate::core::Core;
use crate::http::Caller;
use crate::resources::Resource;
use crate::status::{ApiError, GroupResource};
use crate::store::{Object, ObjectKey};

/// A request to a resource, for the handlers.
pub(crate) struct Call<'a> {
    pub core: &'a Arc<Core>,
    pub resource: Arc<Resource>,
    pub target: &'a route::Target,
    pub query: &'a query::Query,
    pub caller: &'a Caller,
    pub body: bytes::Bytes,
    pub content_type: String,
    pub accept: accept::Accept,
    /// Warnings from webhooks.
    pub warnings: Warnings,
}

impl Call<'_> {
    /// The key of the object in the path.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.target.namespace, &self.target.name)
    }

    /// The resource, as written in messages.
    fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.group_resource(), &self.target.name)
    }

    fn live(&self) -> Result<Object, ApiError> {
        self.core
            .store
            .get(&self.resource.storage, &self.key())
            .ok_or_else(|| self.not_found())
    }
}
