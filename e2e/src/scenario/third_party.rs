//! Promise: automations that write their own assemblages, beside muster's, get values, health and removal for them, and
//! neither disturbs the other. The automation is examples/third-party.

use follow_the_sun::{Round, RoundError, roll, take_back};
use serde_json::{Value, json};

use crate::{
    bed::{Bed, FLEET, Ground, kinds},
    fleet::{APPS, Quality, manifests, workload},
};

/// From west to east, which is not the alphabetical order.
const SUN: [(&str, &str); 3] = [("us-1", "16"), ("eu-1", "09"), ("ap-1", "01")];

/// Runs a round, then one that stops at a bad version, continues with the next version, and removes everything.
pub async fn follows_the_sun(ground: Ground) {
    let mut bed = Bed::new(ground).await;
    bed.prepare(&SUN.map(|(name, _)| name)).await;
    for (name, sun) in SUN {
        bed.join(name, &[("env", "prod"), ("sun", sun)], &[]).await;
        let facts = json!({"metadata": {"name": format!("{name}-facts")}, "data": {"hour": sun}});
        bed.fleet().create(kinds::CONFIG_MAP, facts).await;
    }
    bed.let_bootstrap().await;
    bed.deploy(&["web"]).await;
    let before = bed.marks("web").await;
    let client = bed.fleet().client();

    let done = roll(&client, &round(&bed, 1, Quality::Good)).await.unwrap();
    assert_eq!(done, ["ap-1", "eu-1", "us-1"]);
    assert_eq!(bed.order(&workload("inside"), "inside-v1"), done);
    for (name, sun) in SUN {
        let object = bed
            .inside(name, APPS)
            .get(kinds::CONFIG_MAP, "inside")
            .await
            .unwrap();
        assert_eq!(
            object["data"]["cluster"],
            format!("{name} at {sun}"),
            "values are each cluster's own"
        );
        assert_eq!(bed.version_in(name, "remote").await.as_deref(), Some("remote-v1"));
    }

    let failed = roll(&client, &round(&bed, 2, Quality::Bad)).await;
    let Err(RoundError::Failed {
        cluster,
        sync,
        message,
    }) = failed
    else {
        panic!("{failed:?}")
    };
    assert_eq!((cluster.as_str(), sync.as_str()), ("ap-1", "remote"), "{message}");
    assert_eq!(
        bed.version_in("eu-1", "remote").await.as_deref(),
        Some("remote-v1")
    );
    let last = round(&bed, 3, Quality::Good);
    roll(&client, &last).await.unwrap();

    take_back(&client, &last).await.unwrap();
    for (name, _) in SUN {
        for app in ["inside", "remote"] {
            assert_eq!(bed.version_in(name, app).await, None, "{app} in {name}");
        }
    }
    assert_eq!(bed.marks("web").await, before, "modules are not concerned");
    let left: Vec<Value> = bed.fleet().list(kinds::PROXY_ASSEMBLAGE).await;
    assert_eq!(left.len(), SUN.len(), "those of modules");
}

fn round(bed: &Bed, number: u32, quality: Quality) -> Round {
    Round {
        name: "sun".to_owned(),
        namespace: FLEET.to_owned(),
        selector: "env=prod".to_owned(),
        version: format!("v{number}"),
        remote: vec![row(bed, "remote", number, quality)],
        inside: vec![row(bed, "inside", number, quality)],
    }
}

fn row(bed: &Bed, app: &str, number: u32, quality: Quality) -> Value {
    let text = manifests(app, &format!("{app}-v{number}"), quality);
    let commit = bed.git.commit(&[(&format!("apps/{app}/all.yaml"), &text)]);
    let facts = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "$(CLUSTER_NAME)-facts", "fieldPath": "/data/hour"});
    json!({
        "name": app,
        "source": {"git": {"url": bed.git.url(), "version": {"commit": commit}}},
        "package": {"path": format!("apps/{app}"), "substitute": {"CLUSTER": "$(CLUSTER_NAME) at $(HOUR)"}, "interval": "1m", "retryInterval": "10s", "timeout": "30s"},
        "controlPlaneBindings": [{"name": "HOUR", "objectFieldRef": facts}],
    })
}
