//! A client for commands that users run, whose requests have one deadline for headers and body, so that neither a
//! silent server nor a dripping one blocks a command forever.
//!
//! A watch has no deadline: it runs as long as it is followed.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, future::BoxFuture, stream, stream::BoxStream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, Config, client::Body, client::ClientBuilder};
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Layer, Service};

use super::sendable::{self, ConfigError};

/// The default timeout of a request: a list of some thousand objects takes a few seconds.
pub const DEFAULT: Duration = Duration::from_secs(30);

/// How long a watch may be silent: slightly longer than watches last, as in kube.
const SILENCE: Duration = Duration::from_secs(295);

/// No complete response arrived in time.
#[derive(Debug, Error)]
#[error("no complete answer from the API server within {} s (--request-timeout sets another limit)", .0.as_secs())]
pub struct TooSlow(pub Duration);

/// A client whose requests end after `total` and are sent once: the user retries.
pub fn client_with_deadline(mut config: Config, total: Duration) -> Result<Client, ConfigError> {
    config.default_retry = false;
    // Requests have their own deadline for headers and body; this timeout is for watches, which a server ends within
    // five minutes.
    config.read_timeout = Some(SILENCE);
    sendable::sendable_client(config, |config| {
        let builder = ClientBuilder::try_from(config)?;
        Ok(builder.with_layer(&Deadline(total)).build())
    })
}

#[derive(Clone, Copy)]
struct Deadline(Duration);

impl<S> Layer<S> for Deadline {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Bounded { inner, total: self.0 }
    }
}

#[derive(Clone)]
struct Bounded<S> {
    inner: S,
    total: Duration,
}

type Answer = StreamBody<BoxStream<'static, Result<Frame<Bytes>, BoxError>>>;

impl<S, B> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (total, watches) = (self.total, is_watch(&request));
        let ends = Instant::now() + total;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = timeout_at(ends, answer)
                .await
                .map_err(|_elapsed| TooSlow(total))??;
            Ok(answer.map(|body| {
                let frames = body.into_data_stream().map_ok(Frame::data).map_err(Into::into);
                let frames = frames.boxed();
                StreamBody::new(if watches {
                    frames
                } else {
                    until(ends, total, frames)
                })
            }))
        })
    }
}

/// The frames that arrive in time, followed by an error if the deadline passes.
fn until(
    ends: Instant,
    total: Duration,
    frames: BoxStream<'static, Result<Frame<Bytes>, BoxError>>,
) -> BoxStream<'static, Result<Frame<Bytes>, BoxError>> {
    stream::try_unfold(frames, move |mut frames| async move {
        let next = timeout_at(ends, frames.try_next());
        let frame = next.await.map_err(|_elapsed| TooSlow(total))??;
        Ok(frame.map(|frame| (frame, frames)))
    })
    .boxed()
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|field| field == "watch=true" || field == "watch=1")
}
