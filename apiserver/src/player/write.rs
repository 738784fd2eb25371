//! Executes one write.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::Request;
use kube::core::request::Error as RequestError;

use super::plan::{Verb, Write};
use super::world::{Object, SimulatedKind, VisitObject};

/// The field manager of all writes.
const MANAGER: &str = "workload-player";

/// The object after a write.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// The new version.
    Is(Object),
    /// The last version of a deleted object.
    Gone(Object),
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The request could not be made.
    #[error("the request could not be built")]
    Request(#[from] RequestError),
    /// The object could not be serialized.
    #[error("the object could not be serialized")]
    Serialize(#[from] serde_json::Error),
    /// The API server rejected it or did not respond.
    #[error("the API server rejected the request or did not respond")]
    Refused(#[from] kube::Error),
}

/// Executes a write.
pub(super) async fn send_write(client: &Client, write: &Write) -> Result<Reply, WriteError> {
    write
        .object
        .visit(Sender {
            client: client.clone(),
            verb: write.verb,
        })
        .await
}

struct Sender {
    client: Client,
    verb: Verb,
}

impl VisitObject for Sender {
    type Out = BoxFuture<'static, Result<Reply, WriteError>>;

    fn visit<K: SimulatedKind>(self, object: &K) -> Self::Out {
        let object = object.clone();
        async move {
            let request = request(self.verb, &object)?;
            if matches!(self.verb, Verb::Create | Verb::Replace | Verb::Status) {
                return Ok(Reply::Is(self.client.request::<K>(request).await?.erase()));
            }
            let rest = self.client.request_status::<K>(request).await?.left();
            // For some kinds the response has the object though it is gone; one that remains has a deletion timestamp.
            let staying = rest.filter(|rest| rest.meta().deletion_timestamp.is_some());
            Ok(staying.map_or_else(|| Reply::Gone(object.erase()), |rest| Reply::Is(rest.erase())))
        }
        .boxed()
    }
}

fn request<K: SimulatedKind>(verb: Verb, object: &K) -> Result<http::Request<Vec<u8>>, WriteError> {
    let meta = object.meta();
    let request = Request::new(K::url_path(&(), meta.namespace.as_deref()));
    let name = meta.name.as_deref().unwrap_or_default(); // absent only before creation
    let options = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let uid = Preconditions {
        uid: meta.uid.clone(),
        resource_version: None,
    };
    Ok(match verb {
        Verb::Create => request.create(&options, serde_json::to_vec(object)?)?,
        Verb::Replace => request.replace(name, &options, serde_json::to_vec(object)?)?,
        Verb::Status => request.replace_subresource("status", name, &options, serde_json::to_vec(object)?)?,
        Verb::Delete => request.delete(name, &DeleteParams::background().preconditions(uid))?,
        Verb::Stop => request.delete(name, &DeleteParams::default().grace_period(0).preconditions(uid))?,
    })
}
