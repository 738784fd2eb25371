//! Delivers messages: over https, each with a time limit, a few tries, and with a pause while a receiver fails.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use http::{StatusCode, header};
use jiff::Timestamp;
use muster_kit::body::{self, BodyError};
use muster_sync::proxy::Proxies;
use parking_lot::Mutex;
use reqwest::{Certificate, Client, redirect};
use tokio::time::Instant;

use super::{
    config::{Receiver, To, secret},
    decide::{Post, Telling},
    message::Notification,
    requests::{self, Answer, Request},
    rollout_state::RolloutState,
};

/// How long one try may take, from connecting to the last byte.
const TRY: Duration = Duration::from_secs(10);
/// Tries in a row, including the first.
const TRIES: usize = 4;
/// The first wait between tries; it doubles with each try.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two tries that a receiver may ask for; if it asks for more, it is retried in the next
/// round.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long a receiver is paused after all tries failed.
pub(crate) const ROUND: Duration = Duration::from_mins(5);
/// The maximum size of a response that is read, in bytes: Slack's repeats the message.
const MAX_ANSWER: usize = 64 * 1024;

/// Why a message was not delivered. Nothing in it comes from a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// A later try may succeed.
    Later(String),
    /// A later try would fail as well.
    Never(String),
}

/// A failed try, and how long the receiver asked to wait.
struct Failed {
    answer: Undelivered,
    wait: Option<Duration>,
}

/// Delivers messages to receivers.
pub(crate) struct Courier {
    proxies: Proxies,
    /// Clients by the file of authorities; `None`: the machine's.
    clients: Mutex<BTreeMap<Option<PathBuf>, Client>>,
    /// The receivers that accepted no try, by name, and until when they are paused.
    ailing: Mutex<BTreeMap<String, Instant>>,
}

impl Courier {
    /// How long a receiver is still paused.
    pub(crate) fn ails_for(&self, receiver: &Receiver) -> Option<Duration> {
        let until = *self.ailing.lock().get(&receiver.name)?;
        until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// A courier that uses these proxies.
    pub(crate) fn through(proxies: Proxies) -> Self {
        Self {
            proxies,
            clients: Mutex::default(),
            ailing: Mutex::default(),
        }
    }

    /// Delivers one message; returns where it can be edited.
    pub(crate) async fn bring(
        &self,
        receiver: &Receiver,
        standing: &RolloutState,
        telling: &Telling,
        now: Timestamp,
    ) -> Result<Option<Post>, Undelivered> {
        let brought = (|| self.attempt(receiver, standing, telling, now))
            .retry(
                ExponentialBuilder::default()
                    .with_min_delay(FIRST_WAIT)
                    .with_max_times(TRIES - 1),
            )
            .when(|failed: &Failed| {
                matches!(failed.answer, Undelivered::Later(_))
                    && failed.wait.is_none_or(|wait| wait <= LONGEST_WAIT)
            })
            .adjust(|failed, usual| usual.map(|usual| failed.wait.map_or(usual, |wait| wait.max(usual))))
            .await;
        match brought {
            Ok(post) => {
                self.ailing.lock().remove(&receiver.name);
                Ok(post)
            }
            Err(Failed { answer, wait }) => {
                if matches!(answer, Undelivered::Later(_)) {
                    let rest = wait.unwrap_or_default().clamp(ROUND, ROUND * 12);
                    self.ailing
                        .lock()
                        .insert(receiver.name.clone(), Instant::now() + rest);
                }
                Err(answer)
            }
        }
    }

    async fn attempt(
        &self,
        receiver: &Receiver,
        standing: &RolloutState,
        telling: &Telling,
        now: Timestamp,
    ) -> Result<Option<Post>, Failed> {
        let post = telling.edits.as_ref();
        match self.send_request(receiver, standing, telling, post, now).await? {
            // The message was deleted: a new one replaces it.
            None => self
                .send_request(receiver, standing, telling, None, now)
                .await?
                .ok_or_else(|| later("it does not find the message, not even a new one")),
            Some(post) => Ok(post),
        }
    }

    /// One request. `None`: the message to edit is gone.
    async fn send_request(
        &self,
        receiver: &Receiver,
        standing: &RolloutState,
        telling: &Telling,
        edits: Option<&Post>,
        now: Timestamp,
    ) -> Result<Option<Option<Post>>, Failed> {
        // Files are read for each message: an error in them may be fixed meanwhile.
        let request = request(receiver, standing, telling, edits, now).map_err(later)?;
        let client = self.client(receiver.authorities.as_deref()).map_err(later)?;
        let (status, wait, body) = match tokio::time::timeout(TRY, send(&client, request)).await {
            Ok(answer) => answer.map_err(later)?,
            Err(_elapsed) => return Err(later(format!("it did not respond within {} s", TRY.as_secs()))),
        };
        let answer = match receiver.to {
            To::Channel { .. } => requests::slack(status, &body),
            To::Webhook { .. } | To::Incoming { .. } | To::GitHub(_) | To::GitLab(_) => {
                requests::plain(status, &body)
            }
        };
        match answer {
            Answer::Arrived(post) => Ok(Some(post)),
            Answer::Gone => Ok(None),
            Answer::Later(why) => Err(Failed {
                answer: Undelivered::Later(why),
                wait,
            }),
            Answer::Never(why) => Err(Failed {
                answer: Undelivered::Never(why),
                wait: None,
            }),
        }
    }

    fn client(&self, authorities: Option<&Path>) -> Result<Client, String> {
        let mut clients = self.clients.lock();
        let key = authorities.map(Path::to_owned);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        // An error means that the process has installed a provider already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .proxy(self.proxies.rule());
        let builder = match authorities {
            None => builder,
            Some(file) => {
                let unread = |why: String| format!("{}: {why}", file.display());
                let pem = std::fs::read(file).map_err(|error| unread(error.to_string()))?;
                let authorities = Certificate::from_pem_bundle(&pem).unwrap_or_default();
                if authorities.is_empty() {
                    return Err(unread("it contains no PEM certificate".to_owned()));
                }
                builder.tls_certs_merge(authorities)
            }
        };
        let client = builder.build().map_err(|error| error.to_string())?;
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn later(why: impl Into<String>) -> Failed {
    Failed {
        answer: Undelivered::Later(why.into()),
        wait: None,
    }
}

fn request(
    receiver: &Receiver,
    standing: &RolloutState,
    telling: &Telling,
    edits: Option<&Post>,
    now: Timestamp,
) -> Result<Request, String> {
    let link = receiver.link_to(&standing.rollout);
    let link = link.as_deref();
    match &receiver.to {
        To::Webhook { address, secret: key } => {
            let key = key.as_deref().map(secret).transpose()?;
            let notification = Notification::of(standing, telling, receiver);
            let body = serde_json::to_vec(&notification).map_err(|error| error.to_string())?;
            // One id for each message, and the same when it is repeated.
            let id = format!("{}/{}", standing.rollout.id(), telling.sequence);
            requests::webhook(address.open()?, key.as_deref(), &id, now, body)
        }
        To::Channel { api, channel, token } => {
            let text = requests::slack_text(standing, link);
            Ok(requests::channel(api, &secret(token)?, channel, edits, &text))
        }
        To::Incoming { address } => Ok(requests::incoming(
            address.open()?,
            &requests::slack_text(standing, link),
        )),
        To::GitHub(project) => Ok(requests::github(
            project,
            &secret(&project.token)?,
            standing,
            link,
        )),
        To::GitLab(project) => Ok(requests::gitlab(
            project,
            &secret(&project.token)?,
            standing,
            link,
        )),
    }
}

/// Sends a request and reads the response; also how long the host asked to wait.
async fn send(client: &Client, request: Request) -> Result<(StatusCode, Option<Duration>, Bytes), String> {
    let Request { url, headers, body } = request;
    let mut call = client
        .post(url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body);
    for (name, value) in headers {
        call = call.header(name, value);
    }
    let answer = call.send().await.map_err(unreachable)?;
    let status = answer.status();
    let wait = answer
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|after| after.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let body = match body::read(answer, MAX_ANSWER).await {
        Ok(body) => body,
        Err(BodyError::Broken(error)) => return Err(unreachable(error)),
        Err(BodyError::TooLong { limit }) => {
            return Err(format!("its response is longer than {} KiB", limit / 1024));
        }
    };
    Ok((status, wait, body))
}

/// The error without the URL, which may be secret.
fn unreachable(error: reqwest::Error) -> String {
    format!("it cannot be reached: {}", body::cause(error))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncBufReadExt, BufReader},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn receivers_are_reached_through_the_proxy_of_the_process() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let proxies = Proxies::from_variables(|name| (name == "HTTPS_PROXY").then(|| proxy.clone())).unwrap();
        let client = Courier::through(proxies).client(None).unwrap();
        let post = client.post("https://chat.test/hook").send();
        let received = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).await.unwrap();
            line
        };
        let (posted, request_line) = tokio::join!(post, received);
        assert_eq!(request_line, "CONNECT chat.test:443 HTTP/1.1\r\n");
        assert!(posted.is_err(), "it closed the connection");
    }
}
