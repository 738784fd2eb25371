//! Generated names: pure functions of full identities, each with a hash, so that two identities never share one.

use serde_json::{Map, Value};

use crate::{
    digest,
    module::ModuleKind,
    sync::{GitSource, Source},
};

/// How much of a person's name a generated name keeps, in bytes: with a hyphen and the hash that makes a DNS label.
pub const MAX_STEM: usize = 52;

/// The name of the `GitRepository` that holds a commit: `src-<10 base32 of sha256(url, commit, secretRef)>`.
pub fn source(url: &str, commit: &str, secret_ref: Option<&str>) -> String {
    source_through(url, commit, secret_ref, None)
}

/// The name of Flux's object for a source at a commit: of one that Flux reads it hashes the kind and all that the object says.
pub fn source_of(source: &Source, commit: &str) -> String {
    match source {
        Source::Git(git) => git_source(git, commit),
        Source::Flux(flux) => flux_source(flux.kind(), &flux.flux_spec(Some(commit))),
    }
}

/// The name of Flux's object of a kind with this `spec`, but for its interval.
pub fn flux_source(kind: &str, spec: &Map<String, Value>) -> String {
    let spec = digest::canonical(&Value::Object(spec.clone()));
    format!("src-{}", digest::short(&[kind, &spec]))
}

/// The name of the object in the management cluster by which Flux reads and verifies the source of a module.
pub fn module_source(kind: ModuleKind, namespace: &str, module: &str) -> String {
    hashed(module, &["source", kind.as_str(), namespace, module])
}

fn git_source(git: &GitSource, commit: &str) -> String {
    let secret = git.secret_ref.as_ref().map(|secret| secret.name.as_str());
    let proxy = git.proxy_secret_ref.as_ref().map(|secret| secret.name.as_str());
    source_through(&git.url, commit, secret, proxy)
}

/// [`source`] with the name of a proxy's Secret, which is a part of the hash only where there is one: other names stay what they were.
pub fn source_through(
    url: &str,
    commit: &str,
    secret_ref: Option<&str>,
    proxy_secret_ref: Option<&str>,
) -> String {
    // No Secret has an empty name: without one the part is empty.
    let parts = [url, commit, secret_ref.unwrap_or_default()];
    let parts: Vec<&str> = parts.into_iter().chain(proxy_secret_ref).collect();
    format!("src-{}", digest::short(&parts))
}

/// The name of the copy of a Secret in a cluster; `origin` says which assemblage of which management cluster it is for.
pub fn distributed(secret: &str, origin: &str) -> String {
    hashed(&format!("git-{secret}"), &["distributed", origin, secret])
}

/// The name of the `Kustomization` of one sync of an assemblage.
pub fn kustomization(namespace: &str, assemblage: &str, sync: &str) -> String {
    hashed(sync, &[namespace, assemblage, sync])
}

/// The name of the `ModuleRevision` of a module's revision.
pub fn module_revision(kind: ModuleKind, namespace: &str, module: &str, revision: &str) -> String {
    hashed(module, &[kind.as_str(), namespace, module, revision])
}

/// The name of the `NodeRevision` of a NodeModule's revision; one that was made again has others.
pub fn node_revision(module: &str, uid: &str, revision: &str) -> String {
    hashed(module, &["NodeModule", module, uid, revision])
}

/// The name of the ConfigMap that records which cluster the Secret of a Cluster, by its uid, leads to.
pub fn cluster_identity(namespace: &str, cluster: &str, uid: &str) -> String {
    hashed(cluster, &["identity", namespace, uid])
}

/// The value of the label [`crate::labels::label::APPLIED_FROM`]: which cluster an object was applied from, by the uid of that cluster's
/// `kube-system`.
pub fn applied_from(kube_system: &str) -> String {
    digest::short(&["applied-from", kube_system])
}

/// The name of the `ZoneRollout` of a rollout group: the value of [`crate::labels::label::ROLLOUT_GROUP`] as far as an object's name can have it,
/// and its hash.
pub fn zone_rollout(group: &str) -> String {
    let readable: String = group
        .chars()
        .map(|char| match char.to_ascii_lowercase() {
            char if char.is_ascii_alphanumeric() => char,
            _ => '-',
        })
        .collect();
    let readable = readable.trim_matches('-');
    hashed(
        if readable.is_empty() { "group" } else { readable },
        &["zone-rollout", group],
    )
}

/// The revision of a rollout group: the names and revisions of its sets as one, whatever their order.
pub fn zones_revision<'a>(sets: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut sets: Vec<(&str, &str)> = sets.into_iter().collect();
    sets.sort_unstable();
    let parts: Vec<&str> = sets
        .into_iter()
        .flat_map(|(name, revision)| [name, revision])
        .collect();
    digest::short(&parts)
}

/// The name of the Secret in which Cluster API puts a cluster's kubeconfig.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}{}", crate::labels::KUBECONFIG_SUFFIX)
}

/// What a person can recognize, and the hash of the whole identity; no part of an identity has a slash.
fn hashed(readable: &str, identity: &[&str]) -> String {
    let end = readable.floor_char_boundary(MAX_STEM);
    let stem = readable[..end].trim_end_matches(['-', '.']);
    format!("{stem}-{}", digest::short(&[&identity.join("/")]))
}
