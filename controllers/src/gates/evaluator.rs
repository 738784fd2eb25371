//! One evaluation of a gate, from its turn to its reading.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use muster_api::{
    rollout::{ConditionGate, Gate, HttpGate},
    schema::MAX_MESSAGE,
    validate::{InsecureSources, git},
};
use muster_rollout::GateResult;
use reqwest::Url;

use super::{
    Ask, Credentials, Fetch, GateError, Question, Reading, Web, condition,
    judge::{self, Judged},
    turns::Turns,
};
use crate::runtime::Api;
use crate::{
    bindings::Objects,
    hosts::Hosts,
    runtime::{Clock, Key, call, call::error_chain},
};

/// The maximum length of a reading's text: half of what a message may have.
const MAX_SAID: usize = MAX_MESSAGE / 2;

/// Which hosts gates may query, and how. The default allows none.
#[derive(Clone)]
pub struct Access {
    /// The allowed hosts (`--gate-hosts`).
    pub hosts: Hosts,
    /// Whether plain http is allowed (`--allow-insecure-sources`).
    pub insecure: InsecureSources,
    /// The HTTP client.
    pub fetch: Arc<dyn Fetch>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            hosts: Hosts::default(),
            insecure: InsecureSources::default(),
            fetch: Arc::new(Web::default()),
        }
    }
}

/// The dependencies of an evaluator.
pub struct Setup {
    /// The API for reading Secrets.
    pub client: Client,
    /// The namespace of modules.
    pub namespace: String,
    /// The objects whose conditions gates read.
    pub objects: Arc<Objects>,
    /// The hosts that gates may query.
    pub access: Access,
    /// The only source of `now`.
    pub clock: Clock,
}

/// Evaluates gates, a few at a time. It only reads.
pub struct Evaluator {
    setup: Setup,
    turns: Turns,
}

impl Evaluator {
    /// An evaluator for all modules of a namespace.
    pub fn new(setup: Setup) -> Arc<Self> {
        Arc::new(Self {
            setup,
            turns: Turns::default(),
        })
    }

    /// Whether plain http is allowed.
    pub(super) fn insecure(&self) -> InsecureSources {
        self.setup.access.insecure
    }

    /// The current time.
    pub(super) fn now(&self) -> Timestamp {
        self.setup.clock.now()
    }

    /// Reads a gate of a module when it is its turn; after that the gate's `timeout` applies.
    pub(super) async fn evaluate(&self, module: &Key, question: &Question) -> Reading {
        let Gate { http, timeout, .. } = &question.gate;
        let url = http.as_ref().map(|http| self.admitted(http));
        let host = url.as_ref().and_then(|url| url.as_ref().ok()?.host_str());
        let _turn = self.turns.turn(module, host).await;
        let at = self.now();
        let limit = timeout.to_std();
        let judged = match tokio::time::timeout(limit, self.judged(&question.gate)).await {
            Ok(judged) => judged,
            Err(_elapsed) => Err(GateError::Deadline(limit)),
        };
        let (outcome, message) = match judged {
            Ok(Judged { holds: true, message }) => (GateResult::Pass, message),
            Ok(Judged {
                holds: false,
                message,
            }) => (GateResult::Fail, message),
            Err(error) => (GateResult::NoData, error_chain(&error)),
        };
        let message = muster_api::conditions::bounded(&message, MAX_SAID).into_owned();
        Reading { at, outcome, message }
    }

    async fn judged(&self, gate: &Gate) -> Result<Judged, GateError> {
        match (&gate.http, &gate.condition) {
            (Some(http), None) => self.http(http).await,
            (None, Some(condition)) => self.condition(condition).await,
            (None, None) | (Some(_), Some(_)) => Err(GateError::Form),
        }
    }

    async fn http(&self, gate: &HttpGate) -> Result<Judged, GateError> {
        let url = self.admitted(gate)?;
        let credentials = match &gate.secret_ref {
            Some(secret) => self.credentials(&secret.name).await?,
            None => Credentials::default(),
        };
        if credentials.login.is_some() && is_readable_by_others(&url) {
            return Err(GateError::Readable);
        }
        let endpoint = Ask { url, credentials };
        let answer = self.setup.access.fetch.get(&endpoint).await?;
        let hide = |text: &str| endpoint.credentials.hide_in(text);
        match judge::judge_answer(&answer, gate) {
            Ok(Judged { holds, message }) => Ok(Judged {
                holds,
                message: hide(&message),
            }),
            Err(GateError::NoNumber { path, text, op }) => Err(GateError::NoNumber {
                path,
                text: hide(&text),
                op,
            }),
            Err(error) => Err(error),
        }
    }

    /// The URL of a gate, if the flags of this process allow it.
    fn admitted(&self, gate: &HttpGate) -> Result<Url, GateError> {
        git::gate_url(&gate.url, self.insecure())?;
        Ok(self.setup.access.hosts.admit(&gate.url)?)
    }

    /// Read again for each evaluation, and dropped after it.
    async fn credentials(&self, name: &str) -> Result<Credentials, GateError> {
        let Setup {
            client, namespace, ..
        } = &self.setup;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let what = format!("reading Secret {namespace}/{name}");
        let secret = call(what, secrets.get_opt(name)).await?;
        let secret = secret.ok_or_else(|| GateError::NoSecret(name.to_owned()))?;
        let data = secret.data.unwrap_or_default();
        let data: BTreeMap<_, _> = data.into_iter().map(|(key, value)| (key, value.0)).collect();
        Credentials::from_secret(&data).map_err(|why| GateError::Credentials {
            name: name.to_owned(),
            why,
        })
    }

    async fn condition(&self, gate: &ConditionGate) -> Result<Judged, GateError> {
        let object = condition::gated_object(gate);
        let objects = &self.setup.objects;
        if !objects.kinds().allow(&gate.api_version, &gate.kind) {
            return Err(GateError::KindRefused {
                kind: gate.kind.clone(),
                api_version: gate.api_version.clone(),
                allowed: objects.kinds().names(),
            });
        }
        let found = objects.read_live(&object).await?;
        condition::judge_condition(found.as_ref(), gate)
    }
}

/// Whether the request could be read in transit: plain http to another machine.
fn is_readable_by_others(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    url.scheme() != "https" && !loopback
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator")
            .field("hosts", &self.setup.access.hosts)
            .finish_non_exhaustive()
    }
}
