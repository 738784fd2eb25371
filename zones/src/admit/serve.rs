//! The HTTP side of webhooks, without the network: which requests are answered, and with what.

use super::review::{Response, Review};

/// The content type of reviews and answers.
pub const JSON: &str = "application/json";
/// The content type of refusals.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

/// The review in a request of any method; a refusal if there is none. The content type is JSON's, exactly.
pub fn read(content_type: &str, body: &[u8]) -> Result<Review, HttpAnswer> {
    if content_type != JSON {
        return Err(bad_request("wrong content type"));
    }
    Review::parse(body).map_err(|error| bad_request(&format!("Request could not be decoded: {error}")))
}

/// The answer of a webhook.
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
