//! The HTTP side of the webhooks, without networking: which requests are answered, and how.

use super::review::{Response, Review};

/// The content type of reviews and answers.
pub const JSON: &str = "application/json";
/// The content type of error responses.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// HTTP status code.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Response body.
    pub body: String,
}

/// Extracts the review from a request of any method; an error response if there is none. The content type must be
/// exactly that of JSON.
pub fn read(content_type: &str, body: &[u8]) -> Result<Review, HttpAnswer> {
    if content_type != JSON {
        return Err(bad_request("wrong content type"));
    }
    Review::parse(body).map_err(|error| bad_request(&format!("Request could not be decoded: {error}")))
}

/// The HTTP response for a webhook's answer.
pub fn write(review: &Review, response: &Response) -> HttpAnswer {
    HttpAnswer {
        status: 200,
        content_type: JSON,
        body: review.answer(response).to_string(),
    }
}

fn bad_request(text: &str) -> HttpAnswer {
    HttpAnswer {
        status: 400,
        content_type: TEXT,
        body: format!("{text}\n"),
    }
}
