//! Promise: an accepted kubeconfig leads, over HTTPS, only to the API server that its CA certifies; there are no hidden
//! retries.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use muster_apiserver::{
    ApiServer, Login,
    fault::{Failure, Fault, Match, Rule},
};
use muster_controllers::registry::{Access, connect_over_network, kubeconfig::parse_kubeconfig};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

async fn names(access: &Access) -> Result<Vec<String>, String> {
    let namespaces: Api<Namespace> =
        Api::all(connect_over_network(access).map_err(|error| error.to_string())?);
    let list = namespaces
        .list(&kube::api::ListParams::default())
        .await
        .map_err(|error| error.to_string())?;
    Ok(list
        .items
        .into_iter()
        .filter_map(|namespace| namespace.metadata.name)
        .collect())
}

#[tokio::test]
async fn both_kinds_of_credential_lead_in() {
    let api = ApiServer::start().await.unwrap();
    let identity = api.issue("muster").unwrap();
    for login in [Login::Certificate, Login::Token] {
        let config = api.kubeconfig_of(&identity, login).unwrap();
        let access = parse_kubeconfig(config.as_bytes()).unwrap();
        assert!(names(&access).await.unwrap().contains(&"kube-system".to_owned()));
    }
    api.revoke("muster");
    let access = parse_kubeconfig(api.kubeconfig_of(&identity, Login::Token).unwrap().as_bytes()).unwrap();
    assert!(names(&access).await.unwrap_err().contains("401"));
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_spoken_to() {
    let (api, other) = (
        ApiServer::start().await.unwrap(),
        ApiServer::start().await.unwrap(),
    );
    let mut access = parse_kubeconfig(api.kubeconfig().unwrap().as_bytes()).unwrap();
    access.certificate_authority = parse_kubeconfig(other.kubeconfig().unwrap().as_bytes())
        .unwrap()
        .certificate_authority;
    assert!(names(&access).await.is_err());
    assert!(api.recorder().requests().is_empty());
    access.certificate_authority = b"no PEM".to_vec();
    assert_eq!(
        names(&access).await.unwrap_err(),
        "certificate-authority-data: has no certificate"
    );
}

#[tokio::test]
async fn a_failure_is_reported_at_once_despite_retry_after() {
    let api = ApiServer::start().await.unwrap();
    let access = parse_kubeconfig(api.kubeconfig().unwrap().as_bytes()).unwrap();
    api.faults().add(Rule::always(
        Match::default(),
        Fault::Status(Failure::TooManyRequests(86_400)),
    ));
    let answer = tokio::time::timeout(Duration::from_secs(20), names(&access)).await;
    assert!(answer.unwrap().is_err());
    assert_eq!(api.recorder().requests().len(), 1, "nothing was sent again");
}

/// A proxy connects to where its client says; only a kubeconfig uses one for an API server.
#[tokio::test]
async fn a_proxy_of_the_kubeconfig_leads_to_its_server() {
    let api = ApiServer::start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let text = api.kubeconfig().unwrap();
    let server = parse_kubeconfig(text.as_bytes()).unwrap().server;
    let through = text.replace(
        &server,
        &format!("{server}\n    proxy-url: http://ann:hunter2@{address}"),
    );
    let access = parse_kubeconfig(through.as_bytes()).unwrap();
    assert!(!format!("{access:?}").contains("hunter2"), "{access:?}");
    let proxy = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let mut client = BufReader::new(client);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(client.read_line(&mut head).await.unwrap(), 0);
        }
        let to = head.split(' ').nth(1).unwrap().to_owned();
        let mut server = TcpStream::connect(&to).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
        head
    });
    assert!(names(&access).await.unwrap().contains(&"kube-system".to_owned()));
    let head = proxy.await.unwrap();
    let host = server.strip_prefix("https://").unwrap();
    assert!(
        head.starts_with(&format!("CONNECT {host} HTTP/1.1\r\n")),
        "{head}"
    );
    assert!(
        head.to_lowercase().contains("proxy-authorization: basic "),
        "{head}"
    );
}

/// `token: |` leaves a trailing line feed; kube's client panics on it.
#[tokio::test]
async fn a_token_with_a_line_feed_at_its_end_leads_in() {
    let api = ApiServer::start().await.unwrap();
    let identity = api.issue("muster").unwrap();
    let text = api.kubeconfig_of(&identity, Login::Token).unwrap();
    let token = parse_kubeconfig(text.as_bytes()).unwrap().token.unwrap();
    let config = text.replace(token.expose(), &format!("\"{}\\n\"", token.expose()));
    assert_ne!(config, text);
    let access = parse_kubeconfig(config.as_bytes()).unwrap();
    assert!(names(&access).await.unwrap().contains(&"kube-system".to_owned()));
}
