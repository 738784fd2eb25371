//! Routing: the meaning of a path and a method.

use super::query::Query;
use crate::http::Verb;

/// A path below a group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// Namespace, empty if the path has none.
    pub namespace: String,
    /// Object name, empty for collections.
    pub name: String,
    /// Subresource, empty for the object itself.
    pub subresource: String,
}

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `/healthz`, `/livez`, `/readyz` and the paths below them.
    Health,
    /// `/version`.
    Version,
    /// `/`: the list of paths.
    Index,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/G`.
    Group(String),
    /// `/api/v1` or `/apis/G/V`.
    Resources(String, String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApiIndex,
    /// `/openapi/v3/api/v1` or `/openapi/v3/apis/G/V`.
    OpenApi(String, String),
    /// A resource.
    Resource(Target),
    /// An unknown path.
    Nowhere,
}

/// Parses a path. It is percent-decoded as a whole and then split, like Go's `URL.Path`: an encoded slash is a slash.
pub(super) fn route(path: &str) -> Route {
    let path = super::query::decoded(path, false);
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        [""] => Route::Index,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => Route::Resources(String::new(), (*version).to_owned()),
        ["apis", group, version] => Route::Resources((*group).to_owned(), (*version).to_owned()),
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiIndex,
        ["openapi", "v3", "api", version] => Route::OpenApi(String::new(), (*version).to_owned()),
        ["openapi", "v3", "apis", group, version] => {
            Route::OpenApi((*group).to_owned(), (*version).to_owned())
        }
        ["api", version, rest @ ..] => target("", version, rest),
        ["apis", group, version, rest @ ..] => target(group, version, rest),
        _ => Route::Nowhere,
    }
}

fn target(group: &str, version: &str, rest: &[&str]) -> Route {
    let at = |namespace: &str, plural: &str, name: &str, subresource: &str| {
        Route::Resource(Target {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    };
    match *rest {
        ["namespaces", name, sub @ ("status" | "finalize")] => at("", "namespaces", name, sub),
        ["namespaces", namespace, plural] => at(namespace, plural, "", ""),
        ["namespaces", namespace, plural, name] => at(namespace, plural, name, ""),
        ["namespaces", namespace, plural, name, sub] => at(namespace, plural, name, sub),
        [plural] => at("", plural, "", ""),
        [plural, name] => at("", plural, name, ""),
        [plural, name, sub] => at("", plural, name, sub),
        _ => Route::Nowhere,
    }
}

/// The verb of a method on a target; `None` if there is none.
pub(super) fn verb(method: &http::Method, target: &Target, query: &Query) -> Option<Verb> {
    let one = !target.name.is_empty();
    Some(match (method.as_str(), one) {
        ("GET" | "HEAD", _) if query.is_watch() => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::Get,
        ("GET" | "HEAD", false) => Verb::List,
        ("POST", false) => Verb::Create,
        ("POST", true) if !target.subresource.is_empty() => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expect: &str) {
        let shown = match route(path) {
            Route::Resource(t) => {
                format!(
                    "{}|{}|{}|{}|{}|{}",
                    t.group, t.version, t.plural, t.namespace, t.name, t.subresource
                )
            }
            other => format!("{other:?}"),
        };
        assert_eq!(shown, expect, "{path}");
    }

    #[test]
    fn paths() {
        check("/api/v1/namespaces", "|v1|namespaces|||");
        check("/api/v1/namespaces/a", "|v1|namespaces||a|");
        check("/api/v1/namespaces/a/status", "|v1|namespaces||a|status");
        check("/api/v1/namespaces/a/pods", "|v1|pods|a||");
        check("/api/v1/namespaces/a/pods/b/log", "|v1|pods|a|b|log");
        check("/apis/apps/v1/deployments", "apps|v1|deployments|||");
        check(
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "apps|v1|deployments|a|b|scale",
        );
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "rbac.authorization.k8s.io|v1|clusterroles||system:node|",
        );
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/my%20role",
            "rbac.authorization.k8s.io|v1|clusterroles||my role|",
        );
        check("/api/v1/namespaces/a%2Fpods", "|v1|pods|a||");
        check(
            "/api/v1/namespaces/a/configmaps/x%3Fv=2%23b",
            "|v1|configmaps|a|x?v=2#b|",
        );
        check("/apis/apps/v1/", "Resources(\"apps\", \"v1\")");
        check("/readyz/ping", "Health");
        check("/nonsense", "Nowhere");
        check("/api/v1/namespaces/a/pods/b/c/d", "Nowhere");
    }
}
