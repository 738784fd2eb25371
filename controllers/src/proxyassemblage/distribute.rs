//! Distributes git credentials with the rows: a Secret of the management cluster whose `secretRef` has `distribute` is
//! copied to the cluster as `git-<name>-<hash>`, rewritten when it changes, and deleted after the last row that names
//! it.
//!
//! The existing copies are recorded in an annotation of the mirror, by uid and resourceVersion of their originals: no
//! Secret is read in a cluster, and an up-to-date copy is not written.
//!
//! Invariant: only [`KEYS`] are copied, and never those of a GitHub App, whose key opens more than one repository.
//! Invariant: nothing is copied to a cluster that would accept any other Secret from this account too: without the
//! policy the account could create itself a token there. Invariant: a copy exists before the first row that names it,
//! and is deleted after the last.

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
    Assemblage, ProxyAssemblage, Shared,
    assemblage::{FailureClass, SyncRow},
    labels::{SYSTEM_NAMESPACE, label, manager},
    names,
    reasons::ObjectReason,
    sync::GitSecretReference,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

pub use super::copies::PREFIX;
use super::{
    BringError, Mirroring,
    copies::{Copies, recorded},
    mirror::Mirror,
    observe::DOWNSTREAM_DEADLINE,
    values::Rows,
};
use crate::{
    expand::view::RowError,
    runtime::{Api, CallError, call, call::error_chain, call_within},
};

/// The keys that git uses.
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

/// How long a cached Secret is used for all clusters.
const FRESH: Duration = Duration::from_secs(20);
/// How often a proxy with copies checks for changes of the originals: within a minute, together with [`FRESH`].
pub(super) const INTERVAL: Duration = Duration::from_secs(35);
/// The recorded value of a copy that is about to be written for the first time, and of one that is about to be deleted.
const PENDING: &str = "?";
const GOING: &str = "";
/// Types of Secrets that users create for git. Others, such as those with the keys of a Cluster's authority, have keys
/// with the same names.
const TYPES: [&str; 3] = ["Opaque", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth"];
/// The policy's message for a Secret that a user created.
pub const NOT_OURS: &str = "a Secret with this name exists that muster did not create: rename or delete it";
/// When a copy that no row names any more is deleted.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// The cache of originals, shared by all proxies.
#[derive(Default)]
pub(super) struct Store {
    secrets: Mutex<BTreeMap<String, (Instant, Source)>>,
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

/// The part of a Secret that may be copied, or why it must not be.
fn original(name: &str, secret: Option<&Secret>) -> Result<Original, String> {
    let Some(secret) = secret.filter(|secret| secret.metadata.deletion_timestamp.is_none()) else {
        return Err(format!(
            "Secret {name} does not exist; create it, or correct secretRef"
        ));
    };
    let kind = secret.type_.as_deref().unwrap_or("Opaque");
    if !TYPES.contains(&kind) {
        return Err(format!(
            "Secret {name} is of type {kind}, and only these are distributed: {}",
            TYPES.join(", ")
        ));
    }
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

/// The previous copies that no row names: first marked, and deleted once the mirror has recorded the mark. `next` are
/// the desired rows, `live` the current ones.
fn leaving(
    recorded: &Copies,
    named: &Copies,
    wanted: &BTreeSet<String>,
    next: &[Shared<SyncRow>],
    live: &[Shared<SyncRow>],
) -> (Copies, BTreeSet<String>) {
    let is_named = |rows: &[Shared<SyncRow>], copy: &str| {
        let mut secrets = rows.iter().filter_map(|row| secret_of(row));
        secrets.any(|secret| secret.name == copy)
    };
    let (mut copies, mut gone) = (named.clone(), BTreeSet::new());
    for (copy, version) in recorded.iter().filter(|(copy, _)| !named.contains_key(*copy)) {
        // A copy that cannot be written now is retried, and stays recorded in between.
        if is_named(next, copy) || wanted.contains(copy) {
            copies.insert(copy.clone(), version.clone());
        } else if version == GOING && !is_named(live, copy) {
            gone.insert(copy.clone());
        } else {
            copies.insert(copy.clone(), GOING.to_owned());
        }
    }
    (copies, gone)
}

/// The result of distributing the Secrets that rows need.
#[derive(Default)]
pub(super) struct Distribution {
    /// The copies to record in the mirror.
    pub copies: Copies,
    /// The mirror as written ahead of its rows.
    pub live: Option<Assemblage>,
    /// When to reconcile the proxy again, if earlier than usual.
    pub next: Option<Duration>,
}

fn secret_of(row: &SyncRow) -> Option<&GitSecretReference> {
    row.source.as_ref()?.git_secret()
}

/// The Secret that a row distributes.
fn distributed(row: &SyncRow) -> Option<&str> {
    secret_of(row)
        .filter(|secret| secret.distribute)
        .map(|secret| secret.name.as_str())
}

/// Whether a row is refused because of its Secret: that may be fixed in either cluster, and no watch reports it.
pub(super) fn is_refusal(refusal: &RowError) -> bool {
    refusal.reason == ObjectReason::DistributionRefused.as_str()
}

/// Other rows may be updated; this one stays as it is in the cluster.
fn refusal(why: String) -> RowError {
    RowError {
        reason: ObjectReason::DistributionRefused.into(),
        message: why,
        class: FailureClass::Infra,
        terminal: false,
    }
}

/// The Secrets that rows distribute, by name: what is copied, or why nothing is.
type Originals = BTreeMap<String, Source>;

impl Mirroring {
    /// Copies the Secrets that rows distribute, and changes these rows to name the copies: a row whose Secret cannot be
    /// copied is refused. Deletes copies that no row of the mirror needs any more.
    pub(super) async fn distribute(
        &self,
        proxy: &ProxyAssemblage,
        client: &Client,
        origin: &str,
        rows: &mut Rows,
        live: Option<&Assemblage>,
    ) -> Result<Distribution, BringError> {
        let recorded = recorded(live);
        let names: BTreeSet<String> = rows
            .resolved
            .iter()
            .filter_map(|row| distributed(row))
            .map(str::to_owned)
            .collect();
        if recorded.is_empty() && names.is_empty() || is_elsewhere(proxy, origin, rows, live) {
            return Ok(Distribution::default());
        }
        let wanted = names
            .iter()
            .map(|name| names::distributed(name, origin))
            .collect();
        let mut originals = self.originals(client, origin, names, &recorded).await?;
        let written = self
            .write_ahead(proxy, client, origin, rows, &originals, live)
            .await?;
        let live = written.as_ref().or(live);
        write_all(client, origin, &mut originals, &recorded).await?;
        let brought = rows.name_copies(&originals, origin);
        let next = super::next(proxy, (origin, &brought), rows, live);
        let there = live.map_or(&[][..], |live| &live.spec.syncs);
        let rows = match &next {
            Mirror::Create(next) | Mirror::Replace(next) => &next.spec.syncs,
            Mirror::Equal | Mirror::Foreign(_) | Mirror::Terminating => there,
        };
        let (mut copies, gone) = leaving(&recorded, &brought, &wanted, rows, there);
        let stay = self.withdraw(client, gone).await?;
        copies.extend(stay.into_iter().map(|copy| (copy, GOING.to_owned())));
        let is_new =
            |(copy, version): (&String, &String)| version == GOING && recorded.get(copy) != Some(version);
        let next = if copies.iter().any(is_new) {
            Some(SOON)
        } else {
            (!copies.is_empty()).then_some(INTERVAL)
        };
        Ok(Distribution {
            copies,
            live: written,
            next,
        })
    }

    /// What must be copied. Before a write, the cluster must be shown to reject all other Secrets.
    async fn originals(
        &self,
        client: &Client,
        origin: &str,
        names: BTreeSet<String>,
        recorded: &Copies,
    ) -> Result<Originals, BringError> {
        let mut originals = Originals::new();
        for name in names {
            let original = self.original(&name).await;
            originals.insert(name, original);
        }
        let differs = |(name, original): (&String, &Source)| {
            let there = recorded.get(&names::distributed(name, origin));
            original
                .as_ref()
                .is_ok_and(|original| there != Some(&original.version))
        };
        if originals.iter().any(differs)
            && let Err(why) = prove(client).await.map_err(BringError::Act)?
        {
            let refused = originals.iter().filter(|entry| differs(*entry));
            let refused: Vec<String> = refused.map(|(name, _)| name.clone()).collect();
            originals.extend(refused.into_iter().map(|name| (name, Err(why.clone()))));
        }
        Ok(originals)
    }

    /// Records new copies in the mirror before they are written, and before a row needs them: every existing copy is
    /// recorded, even after a crash.
    async fn write_ahead(
        &self,
        proxy: &ProxyAssemblage,
        client: &Client,
        origin: &str,
        rows: &Rows,
        originals: &Originals,
        live: Option<&Assemblage>,
    ) -> Result<Option<Assemblage>, BringError> {
        let mut ahead = recorded(live);
        let new: BTreeSet<&str> = originals
            .iter()
            .filter(|(name, original)| {
                original.is_ok() && !ahead.contains_key(&names::distributed(name, origin))
            })
            .map(|(name, _)| name.as_str())
            .collect();
        if new.is_empty() {
            return Ok(None);
        }
        ahead.extend(
            new.iter()
                .map(|name| (names::distributed(name, origin), PENDING.to_owned())),
        );
        Ok(self
            .bring(proxy, client, (origin, &ahead), &rows.held(), live)
            .await?
            .live)
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
            Err(error) => Err(error_chain(&error)),
        };
        let mut secrets = self.distributed.secrets.lock();
        secrets.retain(|_, (at, _)| now.duration_since(*at) < FRESH);
        secrets.insert(name.to_owned(), (now, source.clone()));
        source
    }

    /// Deletes copies that no row names; returns those that remain because the cluster refuses.
    async fn withdraw(
        &self,
        client: &Client,
        copies: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, BringError> {
        if copies.is_empty() || prove(client).await.map_err(BringError::Act)?.is_err() {
            return Ok(copies);
        }
        let api: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let mut stay = BTreeSet::new();
        for copy in copies {
            let what = format!("deleting Secret {SYSTEM_NAMESPACE}/{copy}");
            match call_within(
                DOWNSTREAM_DEADLINE,
                what,
                api.delete(&copy, &DeleteParams::default()),
            )
            .await
            {
                Ok(_deleted) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => match error.refusal() {
                    Some(words) if words.contains(NOT_OURS) => {}
                    Some(words) => {
                        warn!(secret = copy, refusal = words, "a copy cannot be deleted");
                        stay.insert(copy);
                    }
                    None => return Err(BringError::Act(error)),
                },
            }
        }
        Ok(stay)
    }
}

/// Another origin owns the mirror, or it is being deleted: nothing is copied.
fn is_elsewhere(proxy: &ProxyAssemblage, origin: &str, rows: &Rows, live: Option<&Assemblage>) -> bool {
    let next = super::next(proxy, (origin, &recorded(live)), rows, live);
    matches!(next, Mirror::Foreign(_) | Mirror::Terminating)
}

/// Writes the copies that differ from their originals.
async fn write_all(
    client: &Client,
    origin: &str,
    originals: &mut Originals,
    recorded: &Copies,
) -> Result<(), BringError> {
    for (name, source) in originals {
        let copy = names::distributed(name, origin);
        let Ok(original) = source else { continue };
        if recorded.get(&copy) == Some(&original.version) {
            continue;
        }
        match write(client, &copy, original).await {
            Ok(()) => {}
            Err(error) if error.refusal().is_some() => *source = Err(error_chain(&error)),
            Err(error) => return Err(BringError::Act(error)),
        }
    }
    Ok(())
}

/// Whether the cluster refuses to give this account a token, which is the purpose of its policy; checked by a dry run.
async fn prove(client: &Client) -> Result<Result<(), String>, CallError> {
    let by = PostParams {
        dry_run: true,
        field_manager: Some(manager::CONTROLLER.to_owned()),
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    match call_within(DOWNSTREAM_DEADLINE, "requesting a token as a dry run", api.create(&by, &probe())).await {
        Err(error) if error.refusal().is_some() => Ok(Ok(())),
        Err(error) => Err(error),
        Ok(_) => Ok(Err(
            "the cluster would accept any Secret from muster's account there, including one that gives it a token; apply there (if the account was created by muster enroll without --bootstrap): muster install --export --downstream --distribute"
                .to_owned(),
        )),
    }
}

impl Rows {
    /// The proxy with all rows held back: live rows stay, so that no row can prevent the record from being written.
    fn held(&self) -> Self {
        let mut refused = self.refused.clone();
        let held = self.resolved.iter().map(|row| row.name.clone());
        refused.extend(held.map(|name| (name, refusal("Secrets are being copied".to_owned()))));
        Self {
            resolved: Vec::new(),
            refused,
        }
    }

    /// Changes rows to name the copies; returns the copies by name.
    fn name_copies(&mut self, originals: &Originals, origin: &str) -> Copies {
        let mut copies = Copies::new();
        for mut row in std::mem::take(&mut self.resolved) {
            let name = distributed(&row).map(str::to_owned);
            match name.as_ref().and_then(|name| originals.get(name)) {
                Some(Err(why)) => {
                    self.refused.insert(row.name.clone(), refusal(why.clone()));
                    continue;
                }
                Some(Ok(original)) => {
                    let name = names::distributed(name.as_deref().unwrap_or_default(), origin);
                    copies.insert(name, original.version.clone());
                }
                None => {}
            }
            name_copy(&mut row, origin);
            self.resolved.push(row);
        }
        copies
    }
}

fn name_copy(row: &mut Shared<SyncRow>, origin: &str) {
    let Some(name) = distributed(row).map(|name| names::distributed(name, origin)) else {
        return;
    };
    if let Some(source) = row.source.as_mut() {
        source.name_copy(name);
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

/// A Secret that a policy must reject: the cluster would fill it with a token.
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
