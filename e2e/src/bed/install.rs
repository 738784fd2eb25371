//! What is installed before a process of muster starts: CRDs, and on real control planes also permissions, with the
//! commands and files that users have. There, muster runs with these permissions and no others.

use std::time::Duration;

use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{Secret, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use muster_api::{crds, labels::SYSTEM_NAMESPACE};
use muster_apiserver::ApiServer;
use serde_json::json;
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

use super::{
    AGENT, CONTROLLER, FLEET, Ground, Objects, ZONES, kinds, programs::muster, real, server::Server,
};
use crate::app::APPS;

/// How long a CRD may take to be served, and an account to get its token.
const READY: Duration = Duration::from_secs(30);
/// Lifetime of a token, longer than any scenario. In seconds.
const SHIFT: i64 = 7200;
/// The account of the management cluster in an enrolled cluster, and the Secret with its token.
const MANAGEMENT_ACCOUNT: &str = "muster-management";
/// What `examples/enrol/enrol.sh` applies in a cluster.
const ACCOUNT: &str = include_str!("../../../examples/enrol/enrol-account.yaml");
/// The additional manifests for BootstrapModules.
const BOOTSTRAP: &str = include_str!("../../../examples/enrol/enrol-bootstrap.yaml");

/// Installs what `muster controller` needs, in the management cluster.
pub async fn management(server: &Server, ground: Ground) {
    let definitions = crds::management()
        .into_iter()
        .chain(ours(ground))
        .chain([crds::cluster_api()])
        .collect();
    match server {
        Server::Embedded(api) => create(api, FLEET, definitions),
        Server::Real(server) => {
            let flags = ["--management", "--notify", "--crds", "--cluster-api", "-n", FLEET];
            server.apply(&export(&flags, Some(ground)).await).await;
            established(server.client(), &definitions).await;
            let token = token(server.client(), SYSTEM_NAMESPACE, "muster-controller").await;
            server.admit(CONTROLLER, &token);
        }
    }
}

/// Installs what `muster agent` needs, in a cluster.
pub async fn downstream(server: &Server, ground: Ground) {
    let definitions = crds::downstream().into_iter().chain(ours(ground)).collect();
    match server {
        Server::Embedded(api) => create(api, SYSTEM_NAMESPACE, definitions),
        Server::Real(server) => {
            server
                .apply(&export(&["--downstream", "--crds"], Some(ground)).await)
                .await;
            established(server.client(), &definitions).await;
            let token = token(server.client(), SYSTEM_NAMESPACE, "muster-agent").await;
            server.admit(AGENT, &token);
        }
    }
}

/// Installs what `muster zones` needs for the namespace of applications, in a cluster; nothing calls its webhooks here.
pub async fn zones(server: &Server) {
    let definitions: Vec<_> = crds::zones()
        .into_iter()
        .chain(crds::rollout_operator())
        .collect();
    match server {
        Server::Embedded(api) => api.add(definitions).unwrap(),
        Server::Real(server) => {
            let manifests = export(&["--zones", "--crds", "-n", APPS], None).await;
            let objects = manifests.split("---\n").filter(|object| {
                let is = |kind: &str| object.contains(&format!("kind: {kind}\n"));
                !is("Deployment")
                    && !is("MutatingWebhookConfiguration")
                    && !is("ValidatingWebhookConfiguration")
            });
            server.apply(&objects.collect::<Vec<_>>().join("---\n")).await;
            established(server.client(), &definitions).await;
            let token = token(server.client(), APPS, "muster-zones").await;
            server.admit(ZONES, &token);
        }
    }
}

/// Gives the management cluster access to a cluster, as `examples/enrol` does.
pub async fn enrol(server: &real::Server) {
    server.apply(ACCOUNT).await;
    let secrets: Api<Secret> = Api::namespaced(server.client(), SYSTEM_NAMESPACE);
    let filled = async {
        loop {
            let secret = secrets.get(MANAGEMENT_ACCOUNT).await.unwrap();
            match secret.data.unwrap_or_default().remove("token") {
                Some(token) => return String::from_utf8(token.0).unwrap(),
                None => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let token = timeout(READY, filled).await.expect("the account gets a token");
    server.admit(CONTROLLER, &token);
}

/// Deletes the token of the management cluster.
pub async fn revoke(server: &real::Server) {
    let secrets = Objects::new(server.client(), SYSTEM_NAMESPACE);
    secrets.delete(kinds::SECRET, MANAGEMENT_ACCOUNT).await;
}

/// Allows the management cluster to apply whatever a BootstrapModule contains.
pub async fn let_bootstrap(server: &real::Server) {
    server.apply(BOOTSTRAP).await;
}

/// Installs the CRDs of Flux's kinds, unless Flux has installed its own.
fn ours(ground: Ground) -> Vec<CustomResourceDefinition> {
    if ground == Ground::Flux {
        Vec::new()
    } else {
        crds::flux()
    }
}

/// The output of `muster install --export`, for parts that depend on who applies in the clusters.
pub async fn export(flags: &[&str], ground: Option<Ground>) -> String {
    let sync = ground.map(|ground| ["--sync", ground.sync()]);
    let output = Command::new(muster())
        .args(["install", "--export"])
        .args(sync.iter().flatten())
        .args(flags)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A token of a ServiceAccount, like that of a pod.
pub async fn token(client: Client, namespace: &str, account: &str) -> String {
    bound_token(client, namespace, account, None).await
}

/// The same, bound to an object: its claims describe the bearer.
pub async fn bound_token(
    client: Client,
    namespace: &str,
    account: &str,
    to: Option<BoundObjectReference>,
) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
    let wanted = TokenRequest {
        spec: Some(TokenRequestSpec {
            bound_object_ref: to,
            expiration_seconds: Some(SHIFT),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let given = accounts
        .create_token_request(account, &PostParams::default(), &wanted)
        .await
        .unwrap();
    let token = given.status.and_then(|status| status.token);
    token.expect("an answer has a token")
}

fn create(api: &ApiServer, namespace: &str, definitions: Vec<CustomResourceDefinition>) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    api.add([namespace]).unwrap();
    api.add(definitions).unwrap();
}

/// Waits until CRDs are served.
pub async fn established(client: Client, definitions: &[CustomResourceDefinition]) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    for definition in definitions {
        let name = definition.name_any();
        let served = await_condition(api.clone(), &name, is_crd_established());
        timeout(READY, served).await.unwrap().unwrap();
    }
}
