//! What a person says to muster, as an annotation that git does not own: who says it, and when, is written with it.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use muster_api::{kind, labels::manager};
use muster_controllers::runtime::Clock;
use serde_json::{Value, json};

use crate::{args::ModuleName, fleet::Address};

/// Writes an annotation, or with null removes it.
pub async fn annotate(address: &Address, key: &str, value: &Value, dry_run: bool) -> anyhow::Result<()> {
    let parameters = PatchParams {
        field_manager: Some(manager::CLI.to_owned()),
        dry_run,
        ..PatchParams::default()
    };
    let body = json!({"metadata": {"annotations": {key: value}}});
    let patched = address
        .api
        .patch(&address.name, &parameters, &Patch::Merge(body))
        .await;
    patched
        .map(drop)
        .with_context(|| format!("annotating {}", address.name))
}

/// Who asks: as the API server knows them, or else as this machine does.
pub async fn me(client: &Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    // An API server older than 1.28, or one that does not say, is no reason to be silent.
    let known = review.ok().and_then(|review| review.status?.user_info?.username);
    known
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| std::env::var("USER").unwrap_or_else(|_| "somebody".to_owned()))
}

/// Now, in whole seconds: people read it.
pub fn now() -> Timestamp {
    let now = Clock::system().now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// As kubectl tells what was done.
pub fn tell(module: &ModuleName, verb: &str, dry_run: bool) {
    let kind = module.kind.as_str().to_lowercase();
    let only = if dry_run { " (server dry run)" } else { "" };
    anstream::println!("{kind}.{}/{} {verb}{only}", kind::GROUP, module.name);
}
