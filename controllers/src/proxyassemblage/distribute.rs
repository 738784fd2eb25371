//! Credentials of git that come with the rows: a Secret of the management cluster whose `secretRef` says `distribute` is copied to the cluster
//! as `git-<name>-<hash>`, rewritten when it changes, and deleted after the last row that names it.
//!
//! Which copies are there stands in an annotation of the mirror, by uid and version of the Secret that they were made of: no Secret is read in
//! a cluster, and nothing is written that is there already.
//!
//! Invariant: only [`KEYS`] go, and never those of a GitHub App, whose key opens more than one repository.
//! Invariant: nothing goes to a cluster that would take any other Secret of this account too: without its policy the account could make
//! itself a token there.
//! Invariant: a copy is there before the first row that names it, and goes after the last.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, ValidationDirective},
};
use muster_api::{
    Assemblage, Shared,
    assemblage::{FailureClass, SyncRow},
    labels::{SYSTEM_NAMESPACE, annotation, label, manager},
    names,
    reasons::ObjectReason,
    sync::GitSecretReference,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{Mirroring, observe::DOWNSTREAM_DEADLINE, values::Rows};
use crate::{
    expand::decide::Refusal,
    runtime::{Api, CallError, Key, call, call::explain, call_within},
};

/// What names of copies begin with.
pub const PREFIX: &str = "git-";
/// What git needs.
pub const KEYS: [&str; 8] = [
    "username",
    "password",
    "bearerToken",
    "ca.crt",
    "tls.crt",
    "tls.key",
    "identity",
    "known_hosts",
];

/// How long a Secret that was read serves all clusters.
const FRESH: Duration = Duration::from_secs(20);
/// How often a proxy with copies asks for changes of them: within a minute, with [`FRESH`] before it.
pub(super) const INTERVAL: Duration = Duration::from_secs(35);
/// How long a cluster's policy is taken for what it was.
const PROVED: Duration = Duration::from_hours(1);
/// The value of a copy that is about to be deleted.
const GOING: &str = "";
/// How soon a copy that no row names any more is deleted.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// Copies by their names, with uid and version of the Secret that each was made of.
pub(super) type Copies = BTreeMap<String, String>;

/// What all proxies share.
#[derive(Default)]
pub(super) struct Store {
    secrets: Mutex<BTreeMap<String, (Instant, Source)>>,
    /// Clusters that refused what their policy has to refuse.
    proved: Mutex<BTreeMap<Key, Instant>>,
}

type Source = Result<Arc<Original>, String>;

/// A Secret that may be copied.
#[derive(PartialEq, Eq)]
struct Original {
    version: String,
    data: BTreeMap<String, ByteString>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// A proxy is gone.
    pub(super) fn retain(&self, lives: impl Fn(&Key) -> bool) {
        self.proved.lock().retain(|key, _| lives(key));
    }
}

/// What of a Secret may be copied, or why it may not.
fn original(name: &str, secret: Option<&Secret>) -> Result<Original, String> {
    let Some(secret) = secret.filter(|secret| secret.metadata.deletion_timestamp.is_none()) else {
        return Err(format!(
            "Secret {name} is not there; create it, or correct secretRef"
        ));
    };
    let all = secret.data.clone().unwrap_or_default();
    if all.keys().any(|key| key.starts_with("githubApp")) {
        return Err(format!(
            "Secret {name} has the key of a GitHub App, which is never distributed; create it in the cluster, and remove distribute"
        ));
    }
    let data: BTreeMap<String, ByteString> = all
        .into_iter()
        .filter(|(key, _)| KEYS.contains(&key.as_str()))
        .collect();
    if data.is_empty() {
        return Err(format!(
            "Secret {name} has no key that git needs ({})",
            KEYS.join(", ")
        ));
    }
    let version = secret.resource_version().unwrap_or_default();
    let version = format!("{}/{version}", secret.uid().unwrap_or_default());
    Ok(Original { version, data })
}

/// The copies that are in the cluster, as its mirror says.
pub(super) fn recorded(live: Option<&Assemblage>) -> Copies {
    let text = live.and_then(|live| live.annotations().get(annotation::DISTRIBUTED));
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// As the mirror says it.
pub(super) fn record(copies: &Copies) -> Option<(String, String)> {
    (!copies.is_empty()).then(|| (annotation::DISTRIBUTED.to_owned(), json!(copies).to_string()))
}

/// The copies of before that no row of the mirror names: marked now, and deleted once that stands there.
pub(super) fn leaving(
    recorded: &Copies,
    named: &Copies,
    rows: &[Shared<SyncRow>],
) -> (Copies, BTreeSet<String>) {
    let names: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| secret_of(row))
        .map(|secret| secret.name.as_str())
        .collect();
    let (mut next, mut gone) = (named.clone(), BTreeSet::new());
    for (copy, version) in recorded.iter().filter(|(copy, _)| !named.contains_key(*copy)) {
        if names.contains(copy.as_str()) {
            next.insert(copy.clone(), version.clone());
        } else if version == GOING {
            gone.insert(copy.clone());
        } else {
            next.insert(copy.clone(), GOING.to_owned());
        }
    }
    (next, gone)
}

/// Whether a copy is to be deleted at the next turn.
pub(super) fn is_leaving(copies: &Copies) -> bool {
    copies.values().any(|version| version == GOING)
}

fn secret_of(row: &SyncRow) -> Option<&GitSecretReference> {
    row.source.as_ref()?.git.secret_ref.as_ref()
}

/// The Secret that a row has distributed.
fn distributed(row: &SyncRow) -> Option<&str> {
    secret_of(row)
        .filter(|secret| secret.distribute)
        .map(|secret| secret.name.as_str())
}

/// Whether a row has a Secret distributed.
pub(super) fn is_needed_by(row: &SyncRow) -> bool {
    distributed(row).is_some()
}

/// Whether a row is refused because of its Secret: that may be put right here or there, and nothing says when.
pub(super) fn is_refusal(refusal: &Refusal) -> bool {
    refusal.reason == ObjectReason::DistributionRefused.as_str()
}

/// Another row may be brought; this one stays as it is in the cluster.
fn refused(why: String) -> Refusal {
    Refusal {
        reason: ObjectReason::DistributionRefused.into(),
        message: why,
        class: FailureClass::Infra,
        terminal: false,
    }
}

impl Mirroring {
    /// Brings the Secrets that rows have distributed, and lets these rows name the copies. A row whose Secret cannot be brought is refused.
    pub(super) async fn distribute(
        &self,
        key: &Key,
        client: &Client,
        origin: &str,
        rows: &mut Rows,
        recorded: &Copies,
    ) -> Result<Copies, CallError> {
        let wanted: BTreeSet<String> = rows
            .resolved
            .iter()
            .filter_map(|row| distributed(row))
            .map(str::to_owned)
            .collect();
        let (mut copies, mut refusals) = (Copies::new(), BTreeMap::new());
        for name in wanted {
            let copy = names::distributed(&name, origin);
            match self.bring_secret(key, client, &name, &copy, recorded).await? {
                Ok(version) => {
                    copies.insert(copy, version);
                }
                Err(why) => {
                    refusals.insert(name, why);
                }
            }
        }
        let mut resolved = Vec::new();
        for mut row in std::mem::take(&mut rows.resolved) {
            let name = distributed(&row).map(str::to_owned);
            match name.as_ref().and_then(|name| refusals.get(name)) {
                Some(why) => {
                    rows.refused.insert(row.name.clone(), refused(why.clone()));
                    continue;
                }
                None => name_copy(&mut row, origin),
            }
            resolved.push(row);
        }
        rows.resolved = resolved;
        Ok(copies)
    }

    /// The version that is in the cluster now, or why there is none.
    async fn bring_secret(
        &self,
        key: &Key,
        client: &Client,
        name: &str,
        copy: &str,
        recorded: &Copies,
    ) -> Result<Result<String, String>, CallError> {
        let original = match self.original(name).await {
            Ok(original) => original,
            Err(why) => return Ok(Err(why)),
        };
        if recorded.get(copy) == Some(&original.version) {
            return Ok(Ok(original.version.clone()));
        }
        if let Err(why) = self.prove(key, client).await? {
            return Ok(Err(why));
        }
        match write(client, copy, &original).await {
            Ok(()) => Ok(Ok(original.version.clone())),
            Err(error) if error.refusal().is_some() => {
                self.distributed.proved.lock().remove(key);
                Ok(Err(explain(&error)))
            }
            Err(error) => Err(error),
        }
    }

    /// A Secret of this cluster, read at most every 20 seconds for all clusters.
    async fn original(&self, name: &str) -> Source {
        let now = Instant::now();
        if let Some((at, source)) = self.distributed.secrets.lock().get(name)
            && now.duration_since(*at) < FRESH
        {
            return source.clone();
        }
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        let what = format!("reading Secret {}/{name}", self.context.namespace);
        let source = match call(what, api.get_opt(name)).await {
            Ok(secret) => original(name, secret.as_ref()).map(Arc::new),
            Err(error) => Err(explain(&error)),
        };
        let mut secrets = self.distributed.secrets.lock();
        secrets.retain(|_, (at, _)| now.duration_since(*at) < FRESH);
        secrets.insert(name.to_owned(), (now, source.clone()));
        source
    }

    /// Whether the cluster refuses this account a token, which is what its policy is for; asked by a dry run.
    async fn prove(&self, key: &Key, client: &Client) -> Result<Result<(), String>, CallError> {
        let now = Instant::now();
        let known = self.distributed.proved.lock().get(key).copied();
        if known.is_some_and(|at| now.duration_since(at) < PROVED) {
            return Ok(Ok(()));
        }
        let by = PostParams {
            dry_run: true,
            field_manager: Some(manager::CONTROLLER.to_owned()),
        };
        let api: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let answer = call_within(
            DOWNSTREAM_DEADLINE,
            "asking for a token by a dry run",
            api.create(&by, &probe()),
        )
        .await;
        match answer {
            Err(error) if error.refusal().is_some() => {
                self.distributed.proved.lock().insert(key.clone(), now);
                Ok(Ok(()))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(Err(
                "the cluster would take any Secret of the account that muster has there, also one that gives it a token; apply: muster install --export --downstream --distribute"
                    .to_owned(),
            )),
        }
    }

    /// Deletes copies that no row names.
    pub(super) async fn withdraw_secrets(
        &self,
        client: &Client,
        copies: &BTreeSet<String>,
    ) -> Result<(), CallError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        for copy in copies {
            let what = format!("deleting Secret {SYSTEM_NAMESPACE}/{copy}");
            match call_within(
                DOWNSTREAM_DEADLINE,
                what,
                api.delete(copy, &DeleteParams::default()),
            )
            .await
            {
                Ok(_) => {}
                // It is gone, or a person has made one of this name.
                Err(error) if error.is_not_found() || error.refusal().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn name_copy(row: &mut Shared<SyncRow>, origin: &str) {
    let Some(name) = distributed(row).map(|name| names::distributed(name, origin)) else {
        return;
    };
    if let Some(source) = row.source.as_mut() {
        source.git.secret_ref = Some(GitSecretReference {
            name,
            distribute: false,
        });
    }
}

async fn write(client: &Client, copy: &str, original: &Original) -> Result<(), CallError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let by = PatchParams {
        force: true,
        field_manager: Some(manager::CONTROLLER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": copy, "namespace": SYSTEM_NAMESPACE, "labels": {label::DISTRIBUTED: "true"}},
        "data": original.data,
    });
    let what = format!("writing Secret {SYSTEM_NAMESPACE}/{copy}");
    call_within(
        DOWNSTREAM_DEADLINE,
        what,
        api.patch_metadata(copy, &by, &Patch::Apply(secret)),
    )
    .await?;
    Ok(())
}

/// What a policy has to refuse: a Secret that the cluster fills with a token.
fn probe() -> Secret {
    let mut secret = Secret {
        type_: Some("kubernetes.io/service-account-token".to_owned()),
        ..Secret::default()
    };
    secret.metadata.name = Some("muster-distribute-probe".to_owned());
    let account = (
        "kubernetes.io/service-account.name".to_owned(),
        "muster-management".to_owned(),
    );
    secret.metadata.annotations = Some(BTreeMap::from([account]));
    secret
}
