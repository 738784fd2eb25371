//! Objects that exist before the first request.

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::Value;

use super::Call;
use super::accept::{Accept, Format, View};
use super::create::create_object;
use super::decode::Decoded;
use super::options::{Tracking, options};
use super::query::Query;
use super::route::Target;
use crate::admission::Warnings;
use crate::core::Core;
use crate::http::Caller;
use crate::meta;

impl Core {
    /// Creates an object like a request of `client`, without recording one.
    pub(crate) fn create_initial(self: &Arc<Self>, client: &str, object: Value) -> Result<(), String> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let catalog = self.registry.catalog();
        let resource = catalog
            .find_kind(api_version, kind)
            .ok_or_else(|| format!("no kind {kind:?} of version {api_version:?} is served"))?;
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            namespace: meta::namespace(&object).to_owned(),
            ..Target::default()
        };
        let query = Query::default();
        let caller = Caller {
            client: client.to_owned(),
            ..Caller::default()
        };
        let call = Call {
            core: self,
            resource: Arc::clone(resource),
            target: &target,
            query: &query,
            caller: &caller,
            body: bytes::Bytes::new(),
            content_type: String::new(),
            accept: Accept {
                view: View::Whole,
                format: Format::Json,
            },
            warnings: Warnings::default(),
        };
        let options = options(&call).map_err(|error| error.message().to_owned())?;
        let decoded = Decoded {
            value: object,
            duplicates: Vec::new(),
        };
        // Only webhooks take time, and none can be called yet.
        let created = create_object(&call, &options, decoded, Tracking::Update).now_or_never();
        let created = created.ok_or("it requires a webhook call")?;
        created.map(|_| ()).map_err(|error| error.message().to_owned())
    }
}
