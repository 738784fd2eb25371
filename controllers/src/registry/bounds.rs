//! Limits of the calls to one cluster: concurrency, one deadline for headers and body, and response size.
//!
//! A response whose headers arrive and whose body drips would outlast any deadline for the headers: a call ends with
//! its body, and only then frees its slot. A watch is different: it ends after its own timeout, and its events are
//! limited in size.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream, stream::BoxStream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, client::Body};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};
use tower::BoxError;

use crate::runtime::refused::BoundError;

const MIB: usize = 1024 * 1024;

/// Concurrent calls to one cluster: enough to overlap waiting, too few to burden a small API server. A fourth is
/// reserved for the probe, so that a busy cluster does not appear unreachable.
const CALLS_AT_ONCE: usize = 3;
/// How long a call may take, from getting its slot to the last byte of its response: slightly longer than callers' own
/// deadlines, whose messages say more.
const CALL_TOTAL: Duration = Duration::from_secs(32);
/// The largest response that is read, in bytes: a page of 500 large objects is about 10 MiB.
const ANSWER_MAX: usize = 32 * MIB;
/// The largest response to a probe: a Namespace has a few KiB.
const PROBE_MAX: usize = MIB;
/// Responses larger than this are read one at a time for each cluster, so that a hostile cluster can use the memory of
/// only one largest response.
const LARGE: usize = MIB;
/// The largest event of a watch: etcd accepts objects of 1.5 MiB, and an event contains the object once.
const EVENT_MAX: usize = 4 * MIB;

/// The limits of one kind of calls to one cluster, shared by clones.
#[derive(Clone)]
pub(super) struct Bounds {
    slots: Arc<Semaphore>,
    large: Arc<Semaphore>,
    answer_max: usize,
}

/// A response that is read within its limits.
pub(super) type Answer = StreamBody<BoxStream<'static, Result<Frame<Bytes>, BoxError>>>;

impl Bounds {
    /// For all calls but probes.
    pub(super) fn of_calls() -> Self {
        Self::new(CALLS_AT_ONCE, ANSWER_MAX)
    }

    /// For probes.
    pub(super) fn of_probes() -> Self {
        Self::new(1, PROBE_MAX)
    }

    fn new(slots: usize, answer_max: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(slots)),
            large: Arc::new(Semaphore::new(1)),
            answer_max,
        }
    }

    /// Sends a request once a slot is free.
    pub(super) async fn send(
        &self,
        client: &Client,
        request: Request<Body>,
    ) -> Result<Response<Answer>, BoxError> {
        let watches = is_watch(&request);
        let slot = Arc::clone(&self.slots).acquire_owned().await?;
        let ends = Instant::now() + CALL_TOTAL;
        let answer = timeout_at(ends, client.send(request))
            .await
            .map_err(|_elapsed| BoundError::Deadline(CALL_TOTAL))??;
        Ok(answer.map(|body| {
            let reading = Reading {
                body,
                read: 0,
                answer_max: self.answer_max,
                bound: if watches {
                    Bound::Watch { event: 0 }
                } else {
                    Bound::Call(Call {
                        ends,
                        large: Arc::clone(&self.large),
                        _slot: slot,
                        turn: None,
                    })
                },
            };
            StreamBody::new(stream::try_unfold(reading, Reading::next).boxed())
        }))
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|field| field == "watch=true" || field == "watch=1")
}

/// A body while it is read.
struct Reading {
    body: Body,
    /// Bytes read so far.
    read: usize,
    answer_max: usize,
    bound: Bound,
}

enum Bound {
    /// Bytes of the present event.
    Watch {
        event: usize,
    },
    Call(Call),
}

struct Call {
    ends: Instant,
    large: Arc<Semaphore>,
    /// Held until the body ends or is dropped.
    _slot: OwnedSemaphorePermit,
    /// The permit for a large response of this cluster.
    turn: Option<OwnedSemaphorePermit>,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(Frame<Bytes>, Self)>, BoxError> {
        let frame = match &self.bound {
            Bound::Watch { .. } => self.body.frame().await,
            Bound::Call(call) => timeout_at(call.ends, self.body.frame())
                .await
                .map_err(|_elapsed| BoundError::Deadline(CALL_TOTAL))?,
        };
        let Some(frame) = frame.transpose()? else {
            return Ok(None);
        };
        if let Some(data) = frame.data_ref() {
            self.read += data.len();
            if self.read > self.answer_max {
                return Err(BoundError::TooLong(self.answer_max).into());
            }
            self.bound.take(data, self.read).await?;
        }
        Ok(Some((frame, self)))
    }
}

impl Bound {
    async fn take(&mut self, data: &Bytes, read: usize) -> Result<(), BoxError> {
        match self {
            Self::Watch { event } => {
                *event = match data.iter().rposition(|byte| *byte == b'\n') {
                    Some(end) => data.len() - end - 1,
                    None => *event + data.len(),
                };
                if *event > EVENT_MAX {
                    return Err(BoundError::EventTooLong(EVENT_MAX).into());
                }
            }
            Self::Call(call) if read > LARGE && call.turn.is_none() => {
                let turn = timeout_at(call.ends, Arc::clone(&call.large).acquire_owned());
                call.turn = Some(
                    turn.await
                        .map_err(|_elapsed| BoundError::Deadline(CALL_TOTAL))??,
                );
            }
            Self::Call(_) => {}
        }
        Ok(())
    }
}
