//! The protocols of receivers: the requests, and the meaning of responses. Pure.

use std::fmt::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use http::StatusCode;
use jiff::Timestamp;
use muster_api::conditions::bounded;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::Sha256;

use super::{
    config::Project,
    decide::Post,
    message,
    phase::{Phase, State},
    rollout_state::RolloutState,
};

/// The longest description of a commit status that GitHub accepts, in characters; GitLab accepts 255.
const MAX_DESCRIPTION: usize = 140;
/// The longest text of a message, in bytes: Slack truncates at 4000 characters.
const MAX_TEXT: usize = 3_000;
/// Bytes of a response that are shown.
const MAX_SHOWN: usize = 200;
/// The prefix of a signing key in the form of Standard Webhooks.
const KEY_PREFIX: &str = "whsec_";

/// A POST. It has credentials: there is no `Debug`.
pub(crate) struct Request {
    /// The URL of the request.
    pub url: Url,
    /// The headers, without the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The JSON body.
    pub body: Vec<u8>,
}

/// The meaning of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Delivered; where it can be edited after this.
    Arrived(Option<Post>),
    /// The message to edit is gone.
    Gone,
    /// A later try may succeed.
    Later(String),
    /// It cannot be delivered as it is.
    Never(String),
}

/// JSON to a webhook, signed according to [Standard Webhooks](https://www.standardwebhooks.com/), so that any of its
/// libraries can verify it: HMAC-SHA256 over `id.timestamp.body`.
pub(crate) fn webhook(
    url: Url,
    key: Option<&str>,
    id: &str,
    now: Timestamp,
    body: Vec<u8>,
) -> Result<Request, String> {
    let timestamp = now.as_second().to_string();
    let mut headers = vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.clone()),
    ];
    if let Some(key) = key {
        let signature = sign(key, id, &timestamp, &body)?;
        headers.push(("webhook-signature", signature));
    }
    Ok(Request { url, headers, body })
}

fn sign(key: &str, id: &str, timestamp: &str, body: &[u8]) -> Result<String, String> {
    let key = match key.strip_prefix(KEY_PREFIX) {
        // The decoder's error would show a character of the key.
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|_| format!("after {KEY_PREFIX} the signing key must be base64, and this one is not"))?,
        None => key.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

/// `chat.postMessage`, or `chat.update` of a message.
pub(crate) fn channel(api: &Url, token: &str, channel: &str, edits: Option<&Post>, text: &str) -> Request {
    let (method, body) = match edits {
        Some(post) => (
            "chat.update",
            json!({"channel": post.channel, "ts": post.ts, "text": text}),
        ),
        None => (
            "chat.postMessage",
            json!({"channel": channel, "text": text, "unfurl_links": false, "unfurl_media": false}),
        ),
    };
    Request {
        url: below(api, &[method]),
        headers: vec![("authorization", format!("Bearer {token}"))],
        body: bytes(&body),
    }
}

/// A message by an incoming webhook.
pub(crate) fn incoming(url: Url, text: &str) -> Request {
    Request {
        url,
        headers: Vec::new(),
        body: bytes(&json!({"text": text})),
    }
}

/// The text of a message for Slack and compatible services: only muster's own markup and links are active.
pub(crate) fn slack_text(standing: &RolloutState, link: Option<&str>) -> String {
    let sign = match standing.phase {
        Phase::Rolling => "◐",
        Phase::Paused => "⏸",
        Phase::WaitingApproval => "○",
        Phase::Good => "●",
        Phase::Bad => "✗",
        Phase::Aborted | Phase::Superseded => "·",
    };
    let text = message::text(standing);
    let mut text = format!("{sign} {}", escaped(&bounded(&text, MAX_TEXT)));
    if let Some(link) = link {
        // Writing to a String does not fail.
        let _ = write!(text, " <{}|View>", link.replace(['<', '>', '|'], ""));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A commit status for GitHub: the last one of a context counts.
pub(crate) fn github(project: &Project, token: &str, standing: &RolloutState, link: Option<&str>) -> Request {
    let state = match standing.phase.state() {
        State::Pending => "pending",
        State::Success => "success",
        State::Failure => "failure",
        State::Ended => "error",
    };
    let mut body =
        json!({"state": state, "context": context(standing), "description": description(standing)});
    if let Some(link) = link {
        body["target_url"] = link.into();
    }
    let mut parts = vec!["repos"];
    parts.extend(project.path.split('/'));
    parts.extend(["statuses", &standing.rollout.commit]);
    Request {
        url: below(&project.api, &parts),
        headers: vec![
            ("authorization", format!("Bearer {token}")),
            ("accept", "application/vnd.github+json".to_owned()),
            ("x-github-api-version", "2022-11-28".to_owned()),
        ],
        body: bytes(&body),
    }
}

/// A commit status for GitLab.
pub(crate) fn gitlab(project: &Project, token: &str, standing: &RolloutState, link: Option<&str>) -> Request {
    let state = match standing.phase.state() {
        State::Pending => "running",
        State::Success => "success",
        State::Failure => "failed",
        State::Ended => "canceled",
    };
    let mut body = json!({"state": state, "name": context(standing), "description": description(standing)});
    if let Some(link) = link {
        body["target_url"] = link.into();
    }
    // The path of a project is one segment: its slashes are encoded, and must not be encoded again.
    let id = utf8_percent_encode(&project.path, NON_ALPHANUMERIC);
    let mut url = project.api.clone();
    let begin = url.path().trim_end_matches('/').to_owned();
    let commit = utf8_percent_encode(&standing.rollout.commit, NON_ALPHANUMERIC);
    url.set_path(&format!("{begin}/projects/{id}/statuses/{commit}"));
    Request {
        url,
        headers: vec![("private-token", token.to_owned())],
        body: bytes(&body),
    }
}

/// The context of a commit status: one for each module.
fn context(standing: &RolloutState) -> String {
    let rollout = &standing.rollout;
    let kind = rollout.kind.as_str().to_lowercase();
    format!("muster/{}/{kind}/{}", rollout.namespace, rollout.module)
}

fn description(standing: &RolloutState) -> String {
    let text = message::text(standing);
    if text.chars().count() <= MAX_DESCRIPTION {
        return text;
    }
    let mut text: String = text.chars().take(MAX_DESCRIPTION - 1).collect();
    text.push('…');
    text
}

fn bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

/// A URL below another, with each part as one segment.
fn below(url: &Url, parts: &[&str]) -> Url {
    let mut below = url.clone();
    // Only URLs that cannot be a base have no segments, and https can.
    if let Ok(mut segments) = below.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    below
}

/// The meaning of a response by its HTTP status.
pub(crate) fn plain(status: StatusCode, body: &[u8]) -> Answer {
    if status.is_success() {
        return Answer::Arrived(None);
    }
    let text = String::from_utf8_lossy(body);
    // GitLab: the status has that state already, for example after a message whose record was lost.
    if status == StatusCode::BAD_REQUEST && text.contains("Cannot transition status") {
        return Answer::Arrived(None);
    }
    let why = format!("it answered {}", status.as_u16());
    // An invalid request stays invalid; an unauthorized one may succeed when the token is fixed.
    match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Answer::Never(why)
        }
        _ => Answer::Later(why),
    }
}

/// The meaning of Slack's response: its status is always 200.
pub(crate) fn slack(status: StatusCode, body: &[u8]) -> Answer {
    if !status.is_success() {
        return plain(status, body);
    }
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        return Answer::Later("its response is not JSON".to_owned());
    };
    if answer["ok"] == true {
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        let post = text("channel").zip(text("ts"));
        return Answer::Arrived(post.map(|(channel, ts)| Post { channel, ts }));
    }
    match answer["error"].as_str().unwrap_or_default() {
        "message_not_found" | "cant_update_message" | "edit_window_closed" => Answer::Gone,
        error => Answer::Later(format!("it answered {}", bounded(error, MAX_SHOWN))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let body = br#"{"test": 2432232314}"#;
        let signature = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            body,
        );
        assert_eq!(
            signature.as_deref(),
            Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
        let error = sign("whsec_not base64: hunter2", "a", "1", body).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn what_answers_mean() {
        let post = Post {
            channel: "C1".to_owned(),
            ts: "1.2".to_owned(),
        };
        let ok = br#"{"ok":true,"channel":"C1","ts":"1.2"}"#;
        assert_eq!(slack(StatusCode::OK, ok), Answer::Arrived(Some(post)));
        let gone = br#"{"ok":false,"error":"message_not_found"}"#;
        assert_eq!(slack(StatusCode::OK, gone), Answer::Gone);
        let refused = br#"{"ok":false,"error":"invalid_auth"}"#;
        assert_eq!(
            slack(StatusCode::OK, refused),
            Answer::Later("it answered invalid_auth".to_owned())
        );
        assert_eq!(
            slack(StatusCode::OK, b"<html>"),
            Answer::Later("its response is not JSON".to_owned())
        );
        let same = br#"{"message":"Cannot transition status via :run from :running"}"#;
        assert_eq!(plain(StatusCode::BAD_REQUEST, same), Answer::Arrived(None));
        assert_eq!(
            plain(StatusCode::BAD_REQUEST, b"no"),
            Answer::Never("it answered 400".to_owned())
        );
        assert_eq!(
            plain(StatusCode::FORBIDDEN, b"no"),
            Answer::Later("it answered 403".to_owned())
        );
        assert_eq!(plain(StatusCode::CREATED, b""), Answer::Arrived(None));
    }

    #[test]
    fn what_others_wrote_is_no_markup() {
        assert_eq!(
            escaped("<!channel> & <https://evil.test|podinfo>"),
            "&lt;!channel&gt; &amp; &lt;https://evil.test|podinfo&gt;"
        );
    }
}
