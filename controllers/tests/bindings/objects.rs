//! Promise: an object that bindings read is fetched once, and its changes are noticed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use muster_api::sync::{Binding, ObjectFieldRef};
use muster_apiserver::ApiServer;
use muster_controllers::{
    bindings::{Kinds, Objects, Values},
    runtime::Shutdown,
};
use serde_json::json;

const NS: &str = "fleet";

struct Bed {
    api: ApiServer,
    objects: Arc<Objects>,
    _running: tokio_util::task::AbortOnDropHandle<()>,
}

impl Bed {
    fn new() -> Self {
        let api = ApiServer::builder().namespace(NS).in_process().unwrap();
        let objects = Objects::new(api.client(), NS, Kinds::default());
        let running = tokio::spawn(Arc::clone(&objects).run(Shutdown::new()));
        Self {
            api,
            objects,
            _running: tokio_util::task::AbortOnDropHandle::new(running),
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.api.client(), NS)
    }

    async fn create(&self, name: &str, host: &str) {
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("host".to_owned(), host.to_owned())])),
            ..ConfigMap::default()
        };
        self.config_maps()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    async fn host(&self) -> Result<String, String> {
        let reference = ObjectFieldRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "facts".to_owned(),
            field_path: "/data/host".to_owned(),
        };
        let binding = Binding {
            name: "HOST".to_owned(),
            value: None,
            object_field_ref: Some(reference),
        };
        let values = self
            .objects
            .resolve(&[binding], &Values::new())
            .await
            .map_err(|error| error.to_string())?;
        Ok(values["HOST"].clone())
    }

    fn reads(&self) -> usize {
        let requests = self.api.recorder().requests();
        requests
            .iter()
            .filter(|request| request.method == "GET" && request.path.ends_with("/configmaps/facts"))
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_noticed_and_nothing_is_read_twice_for_nothing() {
    let bed = Bed::new();
    let changes = bed.objects.changes();
    let mut changes = std::pin::pin!(changes);
    let within = Duration::from_secs(2);
    assert_eq!(
        bed.host().await.unwrap_err(),
        "binding HOST: ConfigMap facts does not exist"
    );
    // The watch of the kind starts when it is first needed.
    tokio::time::timeout(within, changes.next()).await.unwrap();
    bed.create("facts", "one").await;
    tokio::time::timeout(within, changes.next()).await.unwrap();
    assert_eq!(bed.host().await.unwrap(), "one");
    let reads = bed.reads();
    for _ in 0..100 {
        assert_eq!(bed.host().await.unwrap(), "one");
    }
    assert_eq!(bed.reads(), reads, "it is kept while it is watched");
    bed.create("unrelated", "x").await;
    assert!(
        tokio::time::timeout(within, changes.next()).await.is_err(),
        "an unused object is not a change"
    );
    let patch = Patch::Merge(json!({"data": {"host": "two"}}));
    bed.config_maps()
        .patch("facts", &PatchParams::default(), &patch)
        .await
        .unwrap();
    tokio::time::timeout(within, changes.next()).await.unwrap();
    assert_eq!(bed.host().await.unwrap(), "two");
    bed.config_maps()
        .delete("facts", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::timeout(within, changes.next()).await.unwrap();
    assert!(bed.host().await.is_err());
}
