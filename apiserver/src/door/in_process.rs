//! In-process access: a tower service without a socket, which works on paused time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};

use crate::core::Core;
use crate::http::{Body, BodyError};

/// In-process access of one client. Clones belong to the same client.
#[derive(Clone)]
pub struct InProcess {
    core: Arc<Core>,
    client: Arc<str>,
}

impl InProcess {
    pub(crate) fn new(core: Arc<Core>, client: &str) -> Self {
        Self {
            core,
            client: client.into(),
        }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BodyError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (core, client) = (self.core.clone(), self.client.clone());
        Box::pin(async move { core.handle(&client, request).await })
    }
}
