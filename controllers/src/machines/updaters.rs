//! Calls updaters: one POST, within its limits, to the configured URL.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use muster_kit::body::cause;
use muster_machines::{DISCOVERY, GROUP_VERSION, Handler, Hook, MAX_BODY, Received, handlers, url};
use parking_lot::Mutex;
use reqwest::{Client, redirect};
use serde_json::{Value, json};

use super::config::{Updater, authorities};

/// The response: the code and the body, or why there is none.
pub type Called = Result<(u16, Bytes), String>;

/// The response, parsed.
pub fn received(called: &Called) -> Received<'_> {
    let answer = called.as_ref().map(|(code, body)| (*code, &body[..]));
    answer.map_err(String::as_str)
}

/// The client interface for updaters.
#[async_trait]
pub trait Call: Send + Sync {
    /// Calls a hook of an updater. Returns within `limit`.
    async fn call(&self, updater: &Updater, hook: Hook, request: &Value, limit: Duration) -> Called;
}

/// Updaters over the network: TLS with each updater's authorities, no redirects, no proxy. Discovery of an updater is
/// called once, and again after it responds that a path is unknown.
#[derive(Debug, Default)]
pub struct Web {
    clients: Mutex<BTreeMap<String, Client>>,
    handlers: Mutex<BTreeMap<String, Vec<Handler>>>,
}

#[async_trait]
impl Call for Web {
    async fn call(&self, updater: &Updater, hook: Hook, request: &Value, limit: Duration) -> Called {
        let within = tokio::time::timeout(limit, self.posted(updater, hook, request)).await;
        // The call may have less than its own limit: the message is the same each time.
        within.unwrap_or_else(|_elapsed| Err("it did not respond in time".to_owned()))
    }
}

impl Web {
    async fn posted(&self, updater: &Updater, hook: Hook, request: &Value) -> Called {
        let client = self.client(updater)?;
        let served = self.served(updater, &client).await?;
        let Some(handler) = served.iter().find(|handler| handler.hook == hook.as_str()) else {
            return Err(format!("its discovery names no handler for {}", hook.as_str()));
        };
        let limit = Duration::from_secs(handler.timeout_seconds.into());
        let posted = post(updater, &client, (hook.as_str(), Some(&handler.name)), request);
        let answer = tokio::time::timeout(limit, posted).await;
        let (code, body) = answer
            .unwrap_or_else(|_elapsed| Err(format!("it took longer than its {} s", limit.as_secs())))?;
        if code == 404 {
            self.handlers.lock().remove(&updater.name);
        }
        Ok((code, body))
    }

    async fn served(&self, updater: &Updater, client: &Client) -> Result<Vec<Handler>, String> {
        if let Some(served) = self.handlers.lock().get(&updater.name) {
            return Ok(served.clone());
        }
        let request = json!({"apiVersion": GROUP_VERSION, "kind": "DiscoveryRequest"});
        let (code, body) = post(updater, client, (DISCOVERY, None), &request).await?;
        if code != 200 {
            return Err(format!("discovery: HTTP {code}"));
        }
        let answer: Value = serde_json::from_slice(&body).map_err(|error| format!("discovery: {error}"))?;
        if answer["status"] != "Success" {
            return Err(format!(
                "discovery: {}",
                answer["message"].as_str().unwrap_or("no success")
            ));
        }
        // Hooks that muster does not call are ignored.
        let of_ours = |handler: &Value| {
            let hook = &handler["requestHook"];
            hook["apiVersion"] == GROUP_VERSION
                && Hook::ALL.iter().any(|known| hook["hook"] == known.as_str())
        };
        let listed = answer["handlers"].as_array().cloned().unwrap_or_default();
        let ours: Vec<Value> = listed.into_iter().filter(of_ours).collect();
        let known = Hook::ALL.map(|hook| (GROUP_VERSION, hook.as_str()));
        let served = handlers(&json!({"handlers": ours}), &known).map_err(|error| error.to_string())?;
        self.handlers.lock().insert(updater.name.clone(), served.clone());
        Ok(served)
    }

    fn client(&self, updater: &Updater) -> Result<Client, String> {
        if let Some(client) = self.clients.lock().get(&updater.name) {
            return Ok(client.clone());
        }
        // An error means that the process has installed a provider already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .https_only(true)
            .no_proxy();
        if let Some(bundle) = &updater.client_config.ca_bundle {
            builder = builder.tls_certs_merge(authorities(bundle)?);
        }
        let client = builder.build().map_err(cause)?;
        self.clients.lock().insert(updater.name.clone(), client.clone());
        Ok(client)
    }
}

async fn post(
    updater: &Updater,
    client: &Client,
    (hook, handler): (&str, Option<&str>),
    request: &Value,
) -> Called {
    let address =
        url(&updater.client_config, GROUP_VERSION, hook, handler).map_err(|error| error.to_string())?;
    let sent = client.post(address.to_string()).body(request.to_string()).send();
    let answer = sent.await.map_err(cause)?;
    let code = answer.status().as_u16();
    Ok((code, body(answer).await?))
}

/// The request of a hook. The configured settings of an updater do not overwrite muster's fields.
pub fn hook_request(hook: Hook, updater: &Updater, objects: Value, more: &[(&str, &str)]) -> Value {
    let mut settings = updater.settings.clone();
    settings.extend(
        more.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    let mut request = objects;
    request["apiVersion"] = json!(GROUP_VERSION);
    request["kind"] = json!(format!("{}Request", hook.as_str()));
    request["settings"] = json!(settings);
    request
}

async fn body(mut answer: reqwest::Response) -> Result<Bytes, String> {
    let mut read = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(cause)? {
        read.extend_from_slice(&chunk);
        // One byte more than the limit shows that it is too long.
        if read.len() > MAX_BODY {
            break;
        }
    }
    Ok(read.freeze())
}
