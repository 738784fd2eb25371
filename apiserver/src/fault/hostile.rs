//! Bodies of malicious servers.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};

use crate::http::{Body, BodyError};

/// Chunk size of a flood.
const PIECE: usize = 64 * 1024;

/// A body of this many bytes that begins as JSON and never ends as such.
pub(crate) fn flood(bytes: u64) -> Body {
    let piece = Bytes::from(vec![b'['; PIECE]);
    let pieces = stream::unfold(bytes, move |left| {
        // The last chunk may be smaller.
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        let next = (size > 0).then(|| (Ok(piece.slice(..size)), left - size as u64));
        std::future::ready(next)
    });
    body(pieces)
}

/// The same body, one byte at a time.
pub(crate) fn drip(whole: Body, pause: Duration) -> Body {
    let drops = whole.into_data_stream().flat_map(move |chunk| {
        let drops: Vec<Result<Bytes, BodyError>> = match chunk {
            Ok(chunk) => (0..chunk.len()).map(|at| Ok(chunk.slice(at..=at))).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(drops)
    });
    body(drops.then(move |drop| async move {
        tokio::time::sleep(pause).await;
        drop
    }))
}

fn body(chunks: impl futures::Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Body {
    StreamBody::new(chunks.map(|chunk| chunk.map(http_body::Frame::data))).boxed_unsync()
}
