//! Interference with muster's objects: a second writer that is faster, a cluster that reports false statuses.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, CustomResourceExt, api::PostParams};
use muster_api::{Assemblage, labels::SYSTEM_NAMESPACE};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use super::{Bed, CONTROLLER, kinds};

impl Bed {
    /// The next writes of the controller to paths with `path` conflict: another writer was faster.
    pub fn overtake(&self, path: &str, times: u32) {
        let matching = Match {
            verbs: vec![Verb::Create, Verb::Update, Verb::Patch],
            path: Some(path.to_owned()),
            ..Match::client(CONTROLLER)
        };
        let faster = Rule::times(matching, Fault::Status(Failure::Conflict), times);
        self.management.embedded().faults().add(faster);
    }

    /// The owner of a cluster replaces its agent after this call: the agent is ended, and the kind accepts any content.
    pub async fn usurp(&mut self, cluster: &str) {
        self.crash_agent(cluster).await;
        let kinds: Api<CustomResourceDefinition> = Api::all(self.clusters[cluster].api.client());
        let mut definition = kinds.get(Assemblage::crd_name()).await.unwrap();
        let lax = json!({"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        for version in &mut definition.spec.versions {
            let schema = json!({"openAPIV3Schema": lax});
            version.schema = Some(serde_json::from_value(schema).unwrap());
        }
        kinds
            .replace(Assemblage::crd_name(), &PostParams::default(), &definition)
            .await
            .unwrap();
    }

    /// Writes the status that such a cluster reports.
    pub async fn lie(&self, cluster: &str, syncs: Value) {
        self.inside(cluster, SYSTEM_NAMESPACE)
            .patch_status(kinds::ASSEMBLAGE, cluster, json!({"status": {"syncs": syncs}}))
            .await;
    }
}
