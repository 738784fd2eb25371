//! Reads HTTP response bodies up to a limit, and says why a request failed.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use thiserror::Error;

/// Why a body was not read to its end.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The body is longer than the limit; reading stops there.
    #[error("the response is longer than {} KiB", .limit / 1024)]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection failed.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
}

/// Reads the body of a response that is at most `limit` bytes long.
///
/// # Errors
/// If the body is longer than `limit`, by its `Content-Length` or while reading, or if the connection breaks.
pub async fn read(mut answer: Response, limit: usize) -> Result<Bytes, BodyError> {
    if answer
        .content_length()
        .is_some_and(|announced| announced > limit as u64)
    {
        return Err(BodyError::TooLong { limit });
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLong { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The innermost cause of a failed request, which is the most specific. The URL is left out: it may contain a password
/// or a token.
pub fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut last: &dyn std::error::Error = &error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, routing};
    use tokio::net::TcpListener;

    use super::*;

    async fn get(address: &str) -> Result<Response, reqwest::Error> {
        // The program installs it; another test may have done so already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::get(address).await
    }

    /// `/long` announces its length, `/chunks` does not.
    async fn server() -> String {
        let chunks = || async {
            let parts = ["1234", "5678"].map(Ok::<_, std::io::Error>);
            Body::from_stream(futures::stream::iter(parts))
        };
        let router = Router::new()
            .route("/long", routing::get(|| async { "12345678" }))
            .route("/chunks", routing::get(chunks));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let server = server().await;
        for path in ["long", "chunks"] {
            let answer = || async { get(&format!("{server}/{path}")).await.unwrap() };
            assert_eq!(&read(answer().await, 8).await.unwrap()[..], b"12345678", "{path}");
            let error = read(answer().await, 7).await.unwrap_err();
            assert!(
                matches!(error, BodyError::TooLong { limit: 7 }),
                "{path}: {error}"
            );
        }
    }

    #[tokio::test]
    async fn the_cause_of_a_failure_names_no_address() {
        let error = get("http://127.0.0.1:1/secret").await.unwrap_err();
        let cause = cause(error);
        assert!(cause.contains("refused"), "{cause}");
        assert!(!cause.contains("secret"), "{cause}");
    }
}
