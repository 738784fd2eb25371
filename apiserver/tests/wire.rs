//! The HTTPS listener: authentication, and kube-rs over TLS.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster_apiserver::{ApiServer, Login};

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

async fn outcome(kubeconfig: &str) -> Result<usize, u16> {
    let namespaces: Api<Namespace> = Api::all(client(kubeconfig).await);
    match namespaces.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items.len()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn certificates_and_tokens_let_in_until_they_are_revoked() {
    let api = ApiServer::start().await.unwrap();
    assert_eq!(outcome(&api.kubeconfig().unwrap()).await, Ok(4));
    let user = api.issue("robot").unwrap();
    for login in [Login::Certificate, Login::Token] {
        assert_eq!(
            outcome(&api.kubeconfig_of(&user, login).unwrap()).await,
            Ok(4),
            "{login:?}"
        );
    }
    api.revoke("robot");
    for login in [Login::Certificate, Login::Token] {
        assert_eq!(
            outcome(&api.kubeconfig_of(&user, login).unwrap()).await,
            Err(401),
            "{login:?}"
        );
    }
}

#[tokio::test]
async fn the_credentials_of_one_server_do_not_open_another() {
    let (one, other) = (
        ApiServer::start().await.unwrap(),
        ApiServer::start().await.unwrap(),
    );
    let theirs = one.issue("robot").unwrap();
    assert_eq!(
        outcome(&other.kubeconfig_of(&theirs, Login::Token).unwrap()).await,
        Err(401)
    );
}

#[tokio::test]
async fn the_recorder_names_the_user_and_the_bytes() {
    let api = ApiServer::start().await.unwrap();
    let user = api.issue("robot").unwrap();
    outcome(&api.kubeconfig_of(&user, Login::Token).unwrap())
        .await
        .unwrap();
    let requests = api.recorder().requests();
    let last = requests.last().unwrap();
    assert_eq!(
        (last.client.as_str(), last.path.as_str(), last.code()),
        ("robot", "/api/v1/namespaces", 200)
    );
    assert!(last.bytes() > 500);
}
