//! What bounds the calls to one cluster: how many at once, one deadline for head and body, and how much of an answer is read.
//!
//! A head that comes and a body that drips would outlast any deadline for the head: a call is over when its body is. Its slot is free
//! then, too. A watch is no such call: it ends by its own length, and is bounded by what it may say.

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

/// Calls to one cluster at once: enough to overlap waiting, too few to weigh on a small API server. One of the four is the probe's, so
/// that a cluster that is busy is not taken for a silent one.
const CALLS_AT_ONCE: usize = 3;
/// How long a call may take, from its turn to the last byte of its answer: a little longer than callers give it, whose words say more.
const CALL_TOTAL: Duration = Duration::from_secs(32);
/// The longest answer that is read, in bytes: a page of 500 large objects is about 10 MiB.
const ANSWER_MAX: usize = 32 * MIB;
/// The longest answer to a probe: a Namespace has some KiB.
const PROBE_MAX: usize = MIB;
/// Of answers that are longer than this one at a time is read of a cluster: what a hostile one may make us keep is one of the longest.
const LARGE: usize = MIB;
/// The longest event of a watch: etcd takes objects of 1.5 MiB, and an event has the object once.
const EVENT_MAX: usize = 4 * MIB;

/// The bounds of one kind of calls to one cluster. Clones share them.
#[derive(Clone)]
pub(super) struct Bounds {
    slots: Arc<Semaphore>,
    large: Arc<Semaphore>,
    answer_max: usize,
}

/// An answer that is read within its bounds.
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

    /// Sends a request when it is its turn.
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

/// A body as it is being read.
struct Reading {
    body: Body,
    /// Bytes so far.
    read: usize,
    answer_max: usize,
    bound: Bound,
}

enum Bound {
    /// Bytes of the event that is being read.
    Watch {
        event: usize,
    },
    Call(Call),
}

struct Call {
    ends: Instant,
    large: Arc<Semaphore>,
    /// Held until the body ends, or nobody reads it any more.
    _slot: OwnedSemaphorePermit,
    /// The turn among the large answers of this cluster.
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
