//! Explains errors, and suggests the next command if an API server refused a request.

use std::error::Error;

use kube::{Config, config::Kubeconfig};
use muster_controllers::runtime::call::error_chain;

use crate::connect::{self, Target};

/// The server, context and namespace of requests.
#[derive(Debug, Default)]
struct RequestTarget {
    server: String,
    /// Context of the kubeconfig; `None` in-cluster.
    context: Option<String>,
    namespace: String,
}

/// The error and its causes, each once, and what to do next.
pub async fn describe_error(error: &anyhow::Error, target: &Target) -> String {
    let words = error_chain(error.as_ref());
    let Some(answer) = error.chain().find_map(<dyn Error>::downcast_ref) else {
        return words;
    };
    // The requests used this configuration, so it can be read.
    let Ok(config) = connect::config(target).await else {
        return words;
    };
    format!("{words}{}", next(answer, &RequestTarget::of(&config, target)))
}

impl RequestTarget {
    fn of(config: &Config, target: &Target) -> Self {
        let read = || match &target.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        // In-cluster there is no context.
        let current = || read().ok()?.current_context;
        Self {
            server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            context: target.context.clone().or_else(current),
            namespace: target
                .namespace
                .clone()
                .unwrap_or_else(|| config.default_namespace.clone()),
        }
    }

    fn server(&self) -> String {
        match &self.context {
            Some(context) => format!("{} (context {context})", self.server),
            None => self.server.clone(),
        }
    }
}

/// The end of an error message: the server, and the command that fits. A missing object is reported by its own error.
fn next(error: &kube::Error, place: &RequestTarget) -> String {
    let another = "next: kubectl config get-contexts, and name another with --context or --kubeconfig";
    let server = place.server();
    match error {
        kube::Error::Api(status) => match status.code {
            401 => format!("; {server} does not accept the credential; {another}"),
            403 => format!("; next: kubectl auth can-i --list -n {}", place.namespace),
            404 if status
                .details
                .as_ref()
                .is_none_or(|details| details.name.is_empty()) =>
            {
                format!(
                    "; {server} does not have the definitions of muster; \
                 next: muster crds --management | kubectl apply --server-side -f -, or name another with --context or --kubeconfig"
                )
            }
            _ => String::new(),
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            format!("; the API server is {server}; {another}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let cause = anyhow::anyhow!("no such file").context("reading a: no such file");
        assert_eq!(
            error_chain(cause.context("no kubeconfig").as_ref()),
            "no kubeconfig: reading a: no such file"
        );
    }

    #[test]
    fn each_kind_of_error_has_its_next_command() {
        let place = RequestTarget {
            server: "https://eu:6443".to_owned(),
            context: Some("eu".to_owned()),
            namespace: "fleet".to_owned(),
        };
        let check = |error: kube::Error, expect: &str| {
            let words = next(&error, &place);
            assert!(
                words.contains(expect) && words.is_empty() == expect.is_empty(),
                "{error}: {words}"
            );
            assert_eq!(
                words.contains("muster crds"),
                expect.contains("muster crds"),
                "{words}"
            );
        };
        let api = |code: u16, name: &str| {
            let details = serde_json::json!({"name": name});
            let status = Status::failure("no", "No")
                .with_code(code)
                .with_details(serde_json::from_value(details).unwrap());
            kube::Error::Api(Box::new(status))
        };
        check(api(404, ""), "next: muster crds --management");
        check(api(404, "web"), "");
        check(
            api(401, ""),
            "; https://eu:6443 (context eu) does not accept the credential; next: kubectl config get-contexts",
        );
        check(api(403, ""), "; next: kubectl auth can-i --list -n fleet");
        check(api(500, ""), "");
        for silent in ["Connection refused", "timed out", "invalid peer certificate"] {
            check(
                kube::Error::Service(silent.into()),
                "; the API server is https://eu:6443 (context eu); next: kubectl config get-contexts",
            );
        }
    }
}
