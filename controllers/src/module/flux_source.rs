//! Sources that Flux reads: one Flux object in the management cluster, owned by the module, and the version pinned from
//! it.
//!
//! Flux fetches and verifies the source there. Its revision is read once, when the object is Ready at its present
//! generation, and pinned; rows carry that commit or digest. A tag that moves afterwards is reported, never rolled out.
//!
//! Invariant: an object of that name that this module does not own is reported, never changed.
//! Invariant: nothing is pinned that Flux verified with other keys: where `verify` changes, the object is re-created.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
    core::ObjectMeta,
};
use muster_api::{
    digest,
    flux::{GitRepository, OciRepository},
    kind::GROUP,
    labels::{MUSTER, label, manager},
    module::{ModuleObject, SourceStatus},
    names,
    reasons::Reason,
    sync::FluxSource,
};

use super::{
    Modules,
    facts::Target,
    kind::Rolled,
    target::{known, last_version, later},
};
use crate::{
    expand::{
        derive::{SOURCE_INTERVAL, handed_through},
        drift::repaired_of,
        flux_object::{FluxObject, SourceKind},
        observed::{Ready, SourceRow},
        print::{Print, content_print, source_print},
    },
    reconcile::{Context, Runner, SyncMode},
    runtime::{Api, CallError, Index, Key, call, call::error_chain},
};

/// The Flux source objects of one kind of module.
pub(crate) struct FluxSources {
    repositories: Arc<Index<GitRepository, Row>>,
    artifacts: Arc<Index<OciRepository, Row>>,
}

/// What is kept of a Flux source object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// Its fields that all source kinds share.
    source: SourceRow,
    /// Hash of its spec.
    content: Print,
    /// The module that owns it.
    owner: Option<Owner>,
    /// When its Ready condition last changed.
    since: Option<Timestamp>,
}

/// The module that owns an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    name: String,
    uid: String,
}

/// Why Flux cannot read a source, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    why: String,
    next: Option<String>,
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self { why, next: None }
    }
}

impl FluxSources {
    /// For modules of kind `K`.
    pub(crate) fn of<K: Rolled>() -> Self {
        Self {
            repositories: Arc::new(Index::new(|object| Some(row::<K, _>(object)), concerned)),
            artifacts: Arc::new(Index::new(|object| Some(row::<K, _>(object)), concerned)),
        }
    }

    /// Watches the Flux sources where Flux is enabled.
    pub(crate) fn follow<K: Rolled>(&self, runner: Runner<K>, context: &Context) -> Runner<K> {
        match context.options.sync {
            SyncMode::Flux => runner
                .late_rows(Arc::clone(&self.repositories))
                .late_rows(Arc::clone(&self.artifacts)),
            SyncMode::Builtin => runner,
        }
    }

    fn row(&self, source: &FluxSource, key: &Key) -> Option<Row> {
        match source {
            FluxSource::GitRepository(_) => self.repositories.get(key),
            FluxSource::OciRepository(_) => self.artifacts.get(key),
        }
    }
}

/// The row of an object that a module of kind `K` owns.
fn row<K: Rolled, S: SourceKind>(object: &S) -> Row {
    let is_module = |owner: &&OwnerReference| {
        owner.kind == K::KIND.as_str() && owner.api_version.split('/').next() == Some(GROUP)
    };
    let owner = object.owner_references().iter().find(is_module);
    let conditions = object.report().map(|report| report.conditions.as_slice());
    Row {
        source: SourceRow::of(object),
        content: content_print(object),
        owner: owner.map(|owner| Owner {
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }),
        since: conditions
            .and_then(Ready::among)
            .filter(|ready| ready.generation == object.meta().generation)
            .map(|ready| ready.since),
    }
}

fn concerned(key: &Key, row: &Row) -> Vec<Key> {
    let owner = row.owner.iter();
    owner
        .map(|owner| Key::new(key.namespace.clone(), owner.name.clone()))
        .collect()
}

/// Reconciles the module's Flux object with its spec; the object of a source that the module no longer has is deleted.
/// A problem blocks only this module's source.
pub(crate) async fn apply_source_object<K: Rolled>(module: &K, modules: &Modules<K>) -> Result<(), Trouble> {
    if modules.context.options.sync != SyncMode::Flux {
        return Ok(());
    }
    let (context, sources) = (&modules.context, &modules.flux_sources);
    let source = module.spec().sync.source.flux();
    match source.map(|source| derived(module, source)) {
        Some(FluxObject::Git(wanted)) => {
            put(module, &sources.repositories, &*wanted, context).await?;
            remove(module, &sources.artifacts, context).await
        }
        Some(FluxObject::Oci(wanted)) => {
            put(module, &sources.artifacts, &*wanted, context).await?;
            remove(module, &sources.repositories, context).await
        }
        None => {
            remove(module, &sources.repositories, context).await?;
            remove(module, &sources.artifacts, context).await
        }
    }
}

/// The Flux object for a module's source.
fn derived<K: ModuleObject>(module: &K, source: &FluxSource) -> FluxObject {
    let version = source.version();
    let package = &module.spec().sync.package;
    let interval = match version.tag {
        Some(_) => package.interval.to_string(),
        None => SOURCE_INTERVAL.to_owned(),
    };
    let Key { namespace, name } = key(module);
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(namespace),
        labels: Some(BTreeMap::from([(
            label::APP_MANAGED_BY.to_owned(),
            MUSTER.to_owned(),
        )])),
        // Only an object without name or uid has no owner reference; an API server never returns one.
        owner_references: module.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    handed_through(metadata, source, None, &interval)
}

fn key<K: ModuleObject>(module: &K) -> Key {
    let Key { namespace, name } = Key::of(module);
    let name = names::module_source(K::KIND, &namespace, &name);
    Key::new(namespace, name)
}

async fn put<K: ModuleObject, S: SourceKind>(
    module: &K,
    index: &Index<S, Row>,
    wanted: &S,
    context: &Context,
) -> Result<(), Trouble> {
    let key = key(module);
    let row = index.get(&key);
    if row
        .as_ref()
        .is_some_and(|row| row.source.print == source_print(wanted) && row.is_of(module))
    {
        return Ok(());
    }
    let api: Api<S> = Api::namespaced(context.client.clone(), &key.namespace);
    let by = PostParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        ..PostParams::default()
    };
    let failed = |error: CallError| Trouble::from(error_chain(&error));
    let reading = format!("reading {} {key}", S::KIND);
    // Write only what differs from the live object: the watch may not have started, or may lag behind.
    let Some(live) = call(reading, api.get_opt(&key.name)).await.map_err(failed)? else {
        let creating = format!("creating {} {key}", S::KIND);
        index.written(&call(creating, api.create(&by, wanted)).await.map_err(failed)?);
        return Ok(());
    };
    if !live
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == module.meta().uid.as_ref())
    {
        return Err(Trouble::from(format!(
            "{} {key} exists and is not this module's: rename or delete it",
            S::KIND
        )));
    }
    let verify = |object: &S| object.spec(None).get("verify").cloned();
    if live.meta().deletion_timestamp.is_some() {
        return Err(Trouble::from(format!(
            "{} {key} is being deleted; it is re-created once it is gone",
            S::KIND
        )));
    }
    if verify(&live) != verify(wanted) {
        // Flux would treat what it fetched before as verified: it compares only the mode.
        index.written(&live);
        remove(module, index, context).await?;
        return Err(Trouble::from(format!(
            "{} {key} is re-created, to be verified with other keys",
            S::KIND
        )));
    }
    match repaired_of(&live, wanted, manager::CONTROLLER) {
        Some(next) => {
            let changing = format!("changing {} {key}", S::KIND);
            index.written(
                &call(changing, api.replace(&key.name, &by, &next))
                    .await
                    .map_err(failed)?,
            );
        }
        None => index.written(&live),
    }
    Ok(())
}

async fn remove<K: ModuleObject, S: SourceKind>(
    module: &K,
    index: &Index<S, Row>,
    context: &Context,
) -> Result<(), Trouble> {
    let key = key(module);
    let Some(row) = index
        .get(&key)
        .filter(|row| row.is_of(module) && !row.source.deleting)
    else {
        return Ok(());
    };
    let api: Api<S> = Api::namespaced(context.client.clone(), &key.namespace);
    let exactly = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(row.source.uid),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match call(
        format!("deleting {} {key}", S::KIND),
        api.delete(&key.name, &exactly),
    )
    .await
    {
        Err(error) if !error.is_not_found() => Err(Trouble::from(error_chain(&error))),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Row {
    fn is_of<K: ModuleObject>(&self, module: &K) -> bool {
        let owner = self.owner.as_ref().map(|owner| &owner.uid);
        owner.is_some() && owner == module.meta().uid.as_ref()
    }
}

/// The target of a module whose source Flux reads: the version pinned before, or Flux's present one. Without Flux
/// nothing is rolled out, even if a version was pinned before.
pub(crate) fn flux_target<K: Rolled>(
    module: &K,
    source: &FluxSource,
    kept: Result<(), Trouble>,
    modules: &Modules<K>,
) -> Target {
    let now = modules.context.clock.now();
    let unknown = |reason, Trouble { why, next }: Trouble| {
        let next = next.map_or_else(String::new, |next| format!("; next: {next}"));
        Target::Unknown {
            reason,
            message: format!("{why}; {}{next}", last_version(module)),
            retry_at: later(now, module.spec().sync.package.retry_interval.to_std()),
        }
    };
    if modules.context.options.sync == SyncMode::Builtin {
        let [why, next] = UNSUPPORTED.map(str::to_owned);
        let next = Some(next);
        return unknown(Reason::SyncUnsupported, Trouble { why, next });
    }
    let row = modules.flux_sources.row(source, &key(module));
    let found = kept.and_then(|()| read(module, source, row.as_ref()));
    let before = module.status().and_then(|status| status.source.as_ref());
    match (pinned(source, before), found) {
        (Some(pinned), found) => {
            let moved_to = found.ok().filter(|commit| *commit != pinned.commit);
            known(module, pinned, moved_to)
        }
        (None, Ok(commit)) => {
            let pinned = SourceStatus {
                url: Some(source.url().to_owned()),
                tag: source.version().tag,
                commit,
                fetched_at: Some(Time(now)),
                verified: None,
                request: Some(request(source)),
            };
            known(module, pinned, None)
        }
        (None, Err(trouble)) => unknown(Reason::SourceNotReady, trouble),
    }
}

/// Reason and hint when Flux support is off.
const UNSUPPORTED: [&str; 2] = [
    "spec.sync.source.flux is read by Flux, and this controller runs without it",
    "install Flux in the management cluster, and start muster controller with --sync flux, or use spec.sync.source.git",
];

/// The commit or digest that Flux fetched for exactly this spec.
fn read<K: ModuleObject>(module: &K, source: &FluxSource, row: Option<&Row>) -> Result<String, Trouble> {
    let (key, kind) = (key(module), source.kind());
    let not_ready = |why: &str, since: Option<Timestamp>| {
        let since = since.map_or_else(String::new, |since| format!(" (since {since})"));
        let describe = format!(
            "kubectl -n {} describe {} {}",
            key.namespace,
            kind.to_lowercase(),
            key.name
        );
        Trouble {
            why: format!("{kind} {key}: {why}{since}"),
            next: Some(describe),
        }
    };
    let wanted = match derived(module, source) {
        FluxObject::Git(object) => content_print(&*object),
        FluxObject::Oci(object) => content_print(&*object),
    };
    // A watch that lags behind shows the former spec.
    let row = row.filter(|row| row.content == wanted && row.is_of(module));
    let Some(Row {
        source: observed,
        since,
        ..
    }) = row
    else {
        return Err(not_ready("it is being fetched", None));
    };
    if observed.suspended {
        return Err(not_ready("it is suspended", None));
    }
    match (&observed.trouble, &observed.commit) {
        (Some(trouble), _) => Err(not_ready(trouble, *since)),
        (None, Some(commit)) if is_exact(source, commit) => Ok(commit.clone()),
        (None, Some(revision)) => Err(not_ready(
            &format!("{revision:?} is not an exact revision"),
            *since,
        )),
        (None, None) => Err(not_ready("it is being fetched", None)),
    }
}

/// Whether a revision can be pinned: a full commit, or the digits of a SHA-256 digest.
fn is_exact(source: &FluxSource, revision: &str) -> bool {
    let hex = revision
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let length = match source {
        FluxSource::GitRepository(_) => matches!(revision.len(), 40 | 64),
        FluxSource::OciRepository(_) => revision.len() == 64,
    };
    hex && length
}

/// The source in the status, if it is of the present spec.
pub(crate) fn pinned(source: &FluxSource, status: Option<&SourceStatus>) -> Option<SourceStatus> {
    let requested = request(source);
    status
        .filter(|status| status.request.as_ref() == Some(&requested))
        .cloned()
}

fn request(source: &FluxSource) -> String {
    digest::sha256_hex(&[&digest::canonical(&source.request())])
}
