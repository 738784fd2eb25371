//! Requests to pods: prepare for shutdown, or cancel that. [`AskPods`] is the seam: [`Network`] sends requests over
//! HTTP.
//!
//! Invariant: a redirect is a response, and is not followed; a body longer than [`MAX_ANSWER`] is an error; each
//! request has one deadline.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, future::BoxFuture, stream};
use muster_kit::body::{self, BodyError};
use muster_zones::scale::pods::{AT_ONCE, Answer, Answered, Ask, Method};
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

use super::metrics::ZoneMetrics;

/// The maximum size of a pod's response, in bytes.
pub const MAX_ANSWER: usize = 64 * 1024;

/// The client interface for pods.
#[async_trait]
pub trait AskPods: Send + Sync {
    /// Sends one request; returns the response, or why there is none.
    async fn send_request(&self, request: &Ask) -> Answered;
}

/// Pods over the network.
pub struct Network {
    client: Client,
    deadline: Option<Duration>,
    metrics: ZoneMetrics,
}

impl Network {
    /// `deadline` limits each request; `hosts` is a file in the format of `/etc/hosts`, read at each request, which
    /// takes precedence over DNS. An error: the TLS client could not be set up.
    pub fn new(
        deadline: Option<Duration>,
        hosts: Option<PathBuf>,
        metrics: ZoneMetrics,
    ) -> Result<Self, reqwest::Error> {
        // An error means that the process has a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy();
        if let Some(hosts) = hosts {
            builder = builder.dns_resolver(Arc::new(Hosts(hosts)));
        }
        Ok(Self {
            client: builder.build()?,
            deadline,
            metrics,
        })
    }

    async fn send(&self, request: &Ask) -> Answered {
        let method = match request.method {
            Method::Post => reqwest::Method::POST,
            Method::Delete => reqwest::Method::DELETE,
        };
        let refused = |error: reqwest::Error| crate::runtime::call::error_chain(&error.without_url());
        let answer = self
            .client
            .request(method, &request.url)
            .send()
            .await
            .map_err(refused)?;
        let status = answer.status().as_u16();
        let body = match body::read(answer, MAX_ANSWER).await {
            Ok(body) => body,
            Err(BodyError::Broken(error)) => return Err(refused(error)),
            Err(error @ BodyError::TooLong { .. }) => return Err(error.to_string()),
        };
        Ok(Answer {
            status,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

#[async_trait]
impl AskPods for Network {
    async fn send_request(&self, request: &Ask) -> Answered {
        let began = tokio::time::Instant::now();
        let answered = match self.deadline {
            None => self.send(request).await,
            Some(deadline) => tokio::time::timeout(deadline, self.send(request))
                .await
                .unwrap_or_else(|_elapsed| {
                    Err(format!(
                        "no complete response within {} s",
                        deadline.as_secs_f64()
                    ))
                }),
        };
        let status = answered.as_ref().map_or(0, |answer| answer.status);
        self.metrics.asked_pod(request.method, status, began.elapsed());
        answered
    }
}

/// Sends requests to pods, at most [`AT_ONCE`] concurrently; the responses have the order of the requests.
pub(super) async fn ask_all(pods: &dyn AskPods, requests: &[Ask]) -> Vec<Answered> {
    let answers: Vec<BoxFuture<'_, Answered>> = requests
        .iter()
        .map(|request| pods.send_request(request))
        .collect();
    stream::iter(answers).buffered(AT_ONCE).collect().await
}

/// Resolves names from a file, then from the system.
struct Hosts(PathBuf);

impl Resolve for Hosts {
    fn resolve(&self, name: Name) -> Resolving {
        let path = self.0.clone();
        Box::pin(async move {
            let text = tokio::fs::read_to_string(&path).await?;
            let known = addresses(&text);
            let found: Vec<SocketAddr> = match known.get(name.as_str()) {
                Some(address) => vec![SocketAddr::new(*address, 0)],
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The names of a file in the format of `/etc/hosts`; invalid lines are skipped.
fn addresses(text: &str) -> BTreeMap<&str, std::net::IpAddr> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let named = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?; // skips other lines
        Some(words.map(move |name| (name, address)))
    });
    named.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_hosts() {
        let text = "127.0.0.1 a b # c\n\nnonsense d\n::1\te";
        let found = addresses(text);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["a", "b", "e"]);
    }
}
