//! Promise: a Secret whose `secretRef` has `distribute` is in the cluster before the first row that names it, up to
//! date within a minute, and deleted after the last; only keys that git needs are copied, and only if the cluster would
//! accept nothing else.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use muster_api::{
    Assemblage, ProxyAssemblage,
    assemblage::{SyncRow, Withdraw},
    flux::GitRepository,
    names,
    sync::{GitSecretReference, Source},
};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use super::support::*;

const PASSWORD: &str = "hunter2-canary";

struct Bed {
    management: Cluster,
    downstream: BTreeMap<&'static str, Cluster>,
}

impl Bed {
    /// `held`: the cluster refuses the account what its policy must refuse.
    async fn new(held: bool) -> Self {
        let mut cluster = Cluster::downstream();
        cluster.run_assemblages();
        if held {
            let created = Match {
                client: Some(CONTROLLERS.to_owned()),
                verbs: vec![Verb::Create],
                path: Some("/secrets".to_owned()),
                ..Match::default()
            };
            cluster
                .server
                .faults()
                .add(Rule::always(created, Fault::Status(Failure::Forbidden)));
        }
        let downstream = BTreeMap::from([("eu-1", cluster)]);
        let mut management = Cluster::management();
        enrol(&management, &["eu-1"]).await;
        management.run_management(&downstream);
        Self {
            management,
            downstream,
        }
    }

    fn here(&self) -> Api<Secret> {
        Api::namespaced(self.management.server.client(), "fleet")
    }

    fn there(&self) -> Api<Secret> {
        Api::namespaced(self.downstream["eu-1"].server.client(), "muster-system")
    }

    async fn secret(&self, name: &str, data: Value) {
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        let secret = serde_json::from_value(secret).unwrap();
        self.here().create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn proxy(&self, rows: &[SyncRow]) {
        self.management
            .create(ProxyAssemblage::new("eu-1", targeted("eu-1", rows)))
            .await;
    }

    /// The copied Secrets, as `name: keys`.
    async fn brought(&self) -> BTreeMap<String, Vec<String>> {
        let all = self
            .there()
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let brought = all.items.into_iter().filter_map(|secret| {
            assert_eq!(secret.type_.as_deref(), Some("Opaque"));
            let labels = secret.metadata.labels.unwrap_or_default();
            assert_eq!(
                labels.get("fleet.muster.dev/distributed").map(String::as_str),
                Some("true")
            );
            Some((
                secret.metadata.name?,
                secret.data.unwrap_or_default().into_keys().collect(),
            ))
        });
        brought.collect()
    }

    async fn password(&self, copy: &str) -> String {
        let secret = self.there().get(copy).await.unwrap();
        String::from_utf8(secret.data.unwrap()["password"].0.clone()).unwrap()
    }

    async fn mirror(&self) -> Assemblage {
        until("the mirror", || async {
            self.downstream["eu-1"].api::<Assemblage>().get("eu-1").await.ok()
        })
        .await
    }

    /// The proxy's message about a row that it cannot write.
    async fn refusal(&self) -> String {
        until("a refusal", || async {
            let proxy: ProxyAssemblage = self.management.api().get("eu-1").await.unwrap();
            let states = proxy.status?.syncs;
            let state = states.iter().find(|state| state.name == "web")?;
            (state.reason.as_deref() == Some("DistributionRefused")).then(|| state.message.clone().unwrap())
        })
        .await
    }
}

fn copy_of(name: &str, mirror: &Assemblage) -> String {
    let origin = &mirror.metadata.annotations.as_ref().unwrap()["fleet.muster.dev/origin"];
    names::distributed(name, origin)
}

fn with_secret(name: &str, commit: &str, token: u64, secret: &str) -> SyncRow {
    let mut row = row(name, commit, token);
    if let Some(Source::Git(git)) = &mut row.source {
        git.secret_ref = Some(GitSecretReference {
            name: secret.to_owned(),
            distribute: true,
        });
    }
    row
}

/// The same of a repository that Flux reads.
fn with_secret_of_flux(name: &str, commit: &str, token: u64, secret: &str) -> SyncRow {
    let mut row = row(name, commit, token);
    let source = json!({"flux": {"gitRepository": {
        "url": URL, "ref": {"commit": commit}, "secretRef": {"name": secret, "distribute": true},
    }}});
    row.source = Some(serde_json::from_value(source).unwrap());
    row
}

fn usual() -> Value {
    json!({"username": "git", "password": PASSWORD, "ca.crt": "PEM", "note": "of no use to git"})
}

#[tokio::test(start_paused = true)]
async fn it_comes_before_the_row_changes_with_its_original_and_goes_after_the_last_row() {
    let bed = Bed::new(true).await;
    bed.secret("shop", usual()).await;
    bed.proxy(&[
        with_secret("web", OLD, 1, "shop"),
        with_secret("api", OLD, 1, "shop"),
        with_secret_of_flux("flux", OLD, 1, "shop"),
        row("plain", OLD, 1),
    ])
    .await;
    let mirror = bed.mirror().await;
    let copy = copy_of("shop", &mirror);
    assert!(copy.starts_with("git-shop-"), "{copy}");
    let keys = ["ca.crt", "password", "username"].map(str::to_owned).to_vec();
    assert_eq!(bed.brought().await, [(copy.clone(), keys.clone())].into());
    for row in &mirror.spec.syncs {
        let secret = row.source.as_ref().unwrap().git_secret();
        let named = (row.name != "plain").then_some((copy.as_str(), false));
        assert_eq!(
            secret.map(|secret| (secret.name.as_str(), secret.distribute)),
            named,
            "{}",
            row.name
        );
    }
    let source = names::source(URL, OLD, Some(&copy));
    let derived = until("the source", || async {
        bed.downstream["eu-1"]
            .api::<GitRepository>()
            .get(&source)
            .await
            .ok()
    })
    .await;
    assert_eq!(derived.spec.secret_ref.unwrap().name, copy);

    // At rest nothing is written, in either cluster.
    pass(Duration::from_mins(2)).await;
    let writes = bed.management.writes() + bed.downstream["eu-1"].writes();
    pass(Duration::from_hours(1)).await;
    assert_eq!(bed.management.writes() + bed.downstream["eu-1"].writes(), writes);

    let next = json!({"stringData": {"password": "another-canary"}});
    bed.here()
        .patch("shop", &PatchParams::default(), &Patch::Merge(next))
        .await
        .unwrap();
    pass(Duration::from_mins(1)).await;
    assert_eq!(bed.password(&copy).await, "another-canary", "within a minute");

    let rows = |rows: &[SyncRow]| rows.to_vec();
    bed.management
        .set_rows::<ProxyAssemblage>(
            "eu-1",
            &rows(&[
                withdrawn("web", 2),
                with_secret("api", OLD, 1, "shop"),
                row("plain", OLD, 1),
            ]),
        )
        .await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(bed.brought().await, [(copy.clone(), keys)].into(), "api needs it");
    bed.management
        .set_rows::<ProxyAssemblage>(
            "eu-1",
            &rows(&[withdrawn("web", 2), withdrawn("api", 2), row("plain", OLD, 1)]),
        )
        .await;
    until("its end", || async {
        bed.brought().await.is_empty().then_some(())
    })
    .await;
    until("the end of its record", || async {
        let mirror = bed.mirror().await;
        (!mirror
            .metadata
            .annotations
            .unwrap()
            .contains_key("fleet.muster.dev/distributed"))
        .then_some(())
    })
    .await;
}

fn withdrawn(name: &str, token: u64) -> SyncRow {
    SyncRow::withdrawal(name, token, Withdraw::Prune)
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_to_a_cluster_that_would_take_anything() {
    let bed = Bed::new(false).await;
    bed.secret("shop", usual()).await;
    bed.proxy(&[with_secret("web", OLD, 1, "shop"), row("plain", OLD, 1)])
        .await;
    let message = bed.refusal().await;
    assert!(message.contains("would accept any Secret"), "{message}");
    assert!(
        message.ends_with(": muster install --export --downstream --distribute"),
        "{message}"
    );
    assert!(bed.brought().await.is_empty());
    let mirror = bed.mirror().await;
    let names: Vec<&str> = mirror.spec.syncs.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["plain"], "other rows go on");
}

/// What cannot be distributed, the message about it, and that it is copied once it can be.
#[tokio::test(start_paused = true)]
async fn what_is_not_distributed() {
    let app = json!({"githubAppID": "7", "githubAppPrivateKey": "canary"});
    for (data, expect) in [
        (
            None,
            "Secret shop does not exist; create it, or correct secretRef",
        ),
        (
            Some(app),
            "Secret shop has the key of a GitHub App, which is never distributed",
        ),
        (
            Some(json!({"note": "canary"})),
            "Secret shop has no key that git needs (username, password,",
        ),
    ] {
        let bed = Bed::new(true).await;
        if let Some(data) = data {
            bed.secret("shop", data).await;
        }
        bed.proxy(&[with_secret("web", OLD, 1, "shop")]).await;
        let message = bed.refusal().await;
        assert!(
            message.starts_with(expect) && !message.contains("canary"),
            "{message}"
        );
        assert!(bed.brought().await.is_empty());
        drop(bed.here().delete("shop", &DeleteParams::default()).await);
        bed.secret("shop", usual()).await;
        pass(Duration::from_mins(1)).await;
        assert_eq!(bed.brought().await.len(), 1, "within a minute");
    }
}

/// The cluster's refusal is reported, and the row is left out.
#[tokio::test(start_paused = true)]
async fn what_the_cluster_refuses_is_said() {
    let bed = Bed::new(true).await;
    let patched = Match {
        client: Some(CONTROLLERS.to_owned()),
        verbs: vec![Verb::Patch],
        path: Some("/secrets/".to_owned()),
        ..Match::default()
    };
    bed.downstream["eu-1"]
        .server
        .faults()
        .add(Rule::always(patched, Fault::Status(Failure::Forbidden)));
    bed.secret("shop", usual()).await;
    bed.proxy(&[with_secret("web", OLD, 1, "shop")]).await;
    let message = bed.refusal().await;
    assert!(
        message.starts_with("writing Secret muster-system/git-shop-"),
        "{message}"
    );
    assert!(bed.mirror().await.spec.syncs.is_empty());
    pass(Duration::from_mins(2)).await;
    let writes = bed.downstream["eu-1"].writes();
    pass(Duration::from_mins(10)).await;
    let tries = bed.downstream["eu-1"].writes() - writes;
    assert!(
        (10..=60).contains(&tries),
        "{tries} in ten minutes: one each half a minute"
    );
}

/// No value of a Secret is in any other object.
#[tokio::test(start_paused = true)]
async fn no_value_is_shown() {
    let bed = Bed::new(true).await;
    bed.secret("shop", usual()).await;
    bed.proxy(&[with_secret("web", OLD, 1, "shop")]).await;
    bed.mirror().await;
    for server in [&bed.management.server, &bed.downstream["eu-1"].server] {
        for event in server.recorder().events() {
            let object = event.object().to_string();
            assert!(
                event.resource.resource == "secrets" || !object.contains(PASSWORD),
                "{object}"
            );
        }
    }
}
