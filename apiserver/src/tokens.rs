//! Simulates the controller that fills Secrets of type `kubernetes.io/service-account-token`, and revokes their tokens
//! when they are deleted.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use tracing::warn;

use crate::door::Credentials;

/// The type of the Secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation with the service account of the token.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

/// Runs the controller until it is dropped.
pub(crate) async fn fill_token_secrets(client: Client, credentials: Arc<Credentials>) {
    let secrets: Api<Secret> = Api::all(client.clone());
    let config = watcher::Config::default().fields(&format!("type={TYPE}"));
    let mut events = pin!(watcher(secrets, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret)) => {
                fill(&client, &credentials, secret).await;
            }
            Ok(watcher::Event::Delete(secret)) => {
                if let Some(user) = user(&secret) {
                    credentials.revoke(&user);
                }
            }
            // The watcher retries.
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
        }
    }
}

async fn fill(client: &Client, credentials: &Credentials, mut secret: Secret) {
    let is_filled = secret
        .data
        .as_ref()
        .is_some_and(|data| data.contains_key("token"));
    let Some(user) = user(&secret).filter(|_| !is_filled && secret.metadata.deletion_timestamp.is_none())
    else {
        return;
    };
    let identity = match credentials.issue(&user) {
        Ok(identity) => identity,
        Err(error) => return warn!(%user, %error, "a token could not be issued"),
    };
    let namespace = secret.namespace().unwrap_or_default(); // a Secret has one
    let filled = [
        ("token", identity.token.into_bytes()),
        ("ca.crt", credentials.authority_pem().into_bytes()),
        ("namespace", namespace.clone().into_bytes()),
    ];
    let data = secret.data.get_or_insert_with(BTreeMap::new);
    data.extend(filled.map(|(key, value)| (key.to_owned(), ByteString(value))));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    // The write has the version that was read: after a conflict the watch brings the Secret back here.
    if let Err(error) = secrets
        .replace(&secret.name_any(), &PostParams::default(), &secret)
        .await
    {
        warn!(%user, %error, "a token could not be written to its Secret");
    }
}

/// The user of a Secret's token; `None` if it has no service account.
fn user(secret: &Secret) -> Option<String> {
    let account = secret.annotations().get(ACCOUNT)?;
    Some(format!("system:serviceaccount:{}:{account}", secret.namespace()?))
}
