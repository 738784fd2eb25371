//! Whether Flux, where it applies, reads only pinned sources: a `kustomization.yaml` may name other repositories unless
//! kustomize-controller runs with a flag that forbids it.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, ResourceExt, api::ListParams};
use muster_api::labels::label;
use muster_controllers::runtime::{Api, CallError, call_within};
use muster_fleet::apply::DEADLINE;
use muster_operate::install::deployment_arguments;

use super::{code::Code, finding::Finding};

/// Name prefix of Flux's kustomize-controller; shards have longer names.
const CONTROLLER: &str = "kustomize-controller";
/// The flag that forbids remote bases.
const FLAG: &str = "--no-remote-bases";

/// The Deployments of kustomize-controller; empty without Flux, or without the right to list Deployments.
pub(crate) async fn read(client: &Client) -> Result<Vec<Deployment>, CallError> {
    let of_flux = ListParams::default().labels(&format!("{}=flux", label::APP_PART_OF));
    let everywhere: Api<Deployment> = Api::all(client.clone());
    match call_within(DEADLINE, "listing Deployments of Flux", everywhere.list(&of_flux)).await {
        Ok(list) => {
            let mut all = list.items;
            all.retain(|object| object.name_any().starts_with(CONTROLLER));
            Ok(all)
        }
        Err(error) if error.code() == Some(403) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The finding, with the code for the management cluster or for another one.
pub(crate) fn judge_deployment(code: Code, deployment: &Deployment) -> Finding {
    let object = format!(
        "{}/{}",
        deployment.namespace().unwrap_or_default(),
        deployment.name_any()
    );
    let on = format!("{FLAG}=true");
    let arguments = deployment_arguments(deployment);
    if arguments.contains(&FLAG) || arguments.contains(&on.as_str()) {
        return Finding::ok(code, "Flux reads no remote bases");
    }
    Finding::warning(code, format!("Deployment {object} runs without {FLAG}"))
        .reason("a kustomization.yaml can name other repositories, whose state no module pins")
        .remedy(format!(
            "add {FLAG}=true to its arguments (flux bootstrap: a patch in flux-system/kustomization.yaml)"
        ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn level(arguments: &[&str]) -> String {
        let deployment = json!({
            "metadata": {"name": "kustomize-controller", "namespace": "flux-system"},
            "spec": {
                "selector": {},
                "template": {"spec": {"containers": [{"name": "manager", "args": arguments}]}},
            },
        });
        let finding = judge_deployment(Code::RemoteBases, &serde_json::from_value(deployment).unwrap());
        format!("{finding:?}")
    }

    #[test]
    fn flux_that_reads_remote_bases_is_a_warning() {
        for on in ["--no-remote-bases", "--no-remote-bases=true"] {
            assert!(level(&["--events-addr=x", on]).contains("Ok"), "{on}");
        }
        for off in ["--no-remote-bases=false", "--log-level=info"] {
            let text = level(&[off]);
            assert!(
                text.contains("Warning") && text.contains("flux-system/kustomize-controller"),
                "{text}"
            );
        }
    }
}
