//! Generated names: pure functions of full identities, each with a hash, so that no two identities share a name.

use serde_json::{Map, Value};

use crate::{
    digest,
    module::ModuleKind,
    sync::{GitSource, Source},
};

/// How many bytes of a readable name a generated name keeps: with a hyphen and the hash they form a DNS label.
pub const MAX_STEM: usize = 52;

/// The name of the `GitRepository` that holds a commit: `src-<10 base32 of sha256(url, commit, secretRef)>`.
pub fn source(url: &str, commit: &str, secret_ref: Option<&str>) -> String {
    source_through(url, commit, secret_ref, None)
}

/// The name of the Flux object for a source at a commit; for a source that Flux reads, it hashes the kind and the
/// complete spec.
pub fn source_of(source: &Source, commit: &str) -> String {
    match source {
        Source::Git(git) => git_source(git, commit),
        Source::Flux(flux) => flux_source(flux.kind(), &flux.flux_spec(Some(commit))),
    }
}

/// The name of a Flux object of the given kind with this `spec`, ignoring its interval.
pub fn flux_source(kind: &str, spec: &Map<String, Value>) -> String {
    let spec = digest::canonical(&Value::Object(spec.clone()));
    format!("src-{}", digest::short_hash(&[kind, &spec]))
}

/// The name of the object in the management cluster with which Flux reads and verifies the source of a module.
pub fn module_source(kind: ModuleKind, namespace: &str, module: &str) -> String {
    hashed(module, &["source", kind.as_str(), namespace, module])
}

fn git_source(git: &GitSource, commit: &str) -> String {
    let secret = git.secret_ref.as_ref().map(|secret| secret.name.as_str());
    let proxy = git.proxy_secret_ref.as_ref().map(|secret| secret.name.as_str());
    source_through(&git.url, commit, secret, proxy)
}

/// [`source`] with the name of a proxy Secret, which is part of the hash only if there is one: other names stay the
/// same.
pub fn source_through(
    url: &str,
    commit: &str,
    secret_ref: Option<&str>,
    proxy_secret_ref: Option<&str>,
) -> String {
    // No Secret has an empty name, so an empty part means no Secret.
    let parts = [url, commit, secret_ref.unwrap_or_default()];
    let parts: Vec<&str> = parts.into_iter().chain(proxy_secret_ref).collect();
    format!("src-{}", digest::short_hash(&parts))
}

/// The name of the copy of a Secret in a cluster; `origin` identifies the assemblage and its management cluster.
pub fn distributed(secret: &str, origin: &str) -> String {
    hashed(&format!("git-{secret}"), &["distributed", origin, secret])
}

/// The name of the `Kustomization` of one sync of an assemblage.
pub fn kustomization(namespace: &str, assemblage: &str, sync: &str) -> String {
    hashed(sync, &[namespace, assemblage, sync])
}

/// The name of the `ModuleRevision` of a module's revision.
pub fn module_revision_name(kind: ModuleKind, namespace: &str, module: &str, revision: &str) -> String {
    hashed(module, &[kind.as_str(), namespace, module, revision])
}

/// The name of the `NodeRevision` of a NodeModule's revision; it includes the uid, so a re-created NodeModule gets
/// different names.
pub fn node_revision_name(module: &str, uid: &str, revision: &str) -> String {
    hashed(module, &["NodeModule", module, uid, revision])
}

/// The name of the ConfigMap that records which cluster the kubeconfig Secret of a Cluster, given by uid, connects to.
pub fn cluster_identity(namespace: &str, cluster: &str, uid: &str) -> String {
    hashed(cluster, &["identity", namespace, uid])
}

/// The value of the label [`crate::labels::label::APPLIED_FROM`]: identifies the cluster from which an object was
/// applied, by the uid of that cluster's `kube-system`.
pub fn applied_from(kube_system: &str) -> String {
    digest::short_hash(&["applied-from", kube_system])
}

/// The name of the `ZoneRollout` of a rollout group: the value of [`crate::labels::label::ROLLOUT_GROUP`], made valid
/// for an object name, and its hash.
pub fn zone_rollout_name(group: &str) -> String {
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

/// The revision of a rollout group: a hash of the names and revisions of its sets, regardless of their order.
pub fn zones_revision<'a>(sets: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut sets: Vec<(&str, &str)> = sets.into_iter().collect();
    sets.sort_unstable();
    let parts: Vec<&str> = sets
        .into_iter()
        .flat_map(|(name, revision)| [name, revision])
        .collect();
    digest::short_hash(&parts)
}

/// The name of the Secret in which Cluster API puts a cluster's kubeconfig.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}{}", crate::labels::KUBECONFIG_SUFFIX)
}

/// A readable prefix and the hash of the full identity; parts of an identity contain no slash.
fn hashed(readable: &str, identity: &[&str]) -> String {
    let end = readable.floor_char_boundary(MAX_STEM);
    let stem = readable[..end].trim_end_matches(['-', '.']);
    format!("{stem}-{}", digest::short_hash(&[&identity.join("/")]))
}
