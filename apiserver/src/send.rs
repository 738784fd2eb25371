//! Requests as a user writes them: a method, a path and a body.

use kube::Client;
use serde_json::Value;

/// Sends one request and returns its response, or an error if the API server rejects it. The body of `PATCH` is a merge
/// patch.
pub async fn send(client: &Client, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
    let content = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content)
        .body(body)
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}
