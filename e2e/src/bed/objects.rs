//! Objects of any kind as plain JSON, as a user with kubectl accesses them.

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The field manager of a user.
const MANAGER: &str = "kubectl-edit";

/// A kind of objects.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    singular: &'static str,
    plural: &'static str,
    namespaced: bool,
}

/// The kinds used in scenarios.
pub mod kinds {
    use super::Kind;

    const fn kind(
        group: &'static str,
        version: &'static str,
        singular: &'static str,
        plural: &'static str,
    ) -> Kind {
        Kind {
            group,
            version,
            singular,
            plural,
            namespaced: true,
        }
    }

    /// Module.
    pub const MODULE: Kind = kind("fleet.muster.dev", "v1alpha1", "Module", "modules");
    /// BootstrapModule.
    pub const BOOTSTRAP_MODULE: Kind = kind(
        "fleet.muster.dev",
        "v1alpha1",
        "BootstrapModule",
        "bootstrapmodules",
    );
    /// ProxyAssemblage.
    pub const PROXY_ASSEMBLAGE: Kind = kind(
        "fleet.muster.dev",
        "v1alpha1",
        "ProxyAssemblage",
        "proxyassemblages",
    );
    /// RemoteAssemblage.
    pub const REMOTE_ASSEMBLAGE: Kind = kind(
        "fleet.muster.dev",
        "v1alpha1",
        "RemoteAssemblage",
        "remoteassemblages",
    );
    /// ModuleRevision.
    pub const MODULE_REVISION: Kind = kind(
        "fleet.muster.dev",
        "v1alpha1",
        "ModuleRevision",
        "modulerevisions",
    );
    /// RolloutWindow.
    pub const ROLLOUT_WINDOW: Kind = kind("fleet.muster.dev", "v1alpha1", "RolloutWindow", "rolloutwindows");
    /// Assemblage.
    pub const ASSEMBLAGE: Kind = kind("fleet.muster.dev", "v1alpha1", "Assemblage", "assemblages");
    /// Cluster API's Cluster.
    pub const CLUSTER: Kind = kind("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters");
    /// The same at the previous API version.
    pub const CLUSTER_V1BETA1: Kind = kind("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters");
    /// Flux's GitRepository.
    pub const GIT_REPOSITORY: Kind = kind(
        "source.toolkit.fluxcd.io",
        "v1",
        "GitRepository",
        "gitrepositories",
    );
    /// Flux's Kustomization.
    pub const KUSTOMIZATION: Kind = kind(
        "kustomize.toolkit.fluxcd.io",
        "v1",
        "Kustomization",
        "kustomizations",
    );
    /// Flux's OCIRepository.
    pub const OCI_REPOSITORY: Kind = kind(
        "source.toolkit.fluxcd.io",
        "v1",
        "OCIRepository",
        "ocirepositories",
    );
    /// Flux's HelmRelease.
    pub const HELM_RELEASE: Kind = kind("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases");
    /// Deployment.
    pub const DEPLOYMENT: Kind = kind("apps", "v1", "Deployment", "deployments");
    /// StatefulSet.
    pub const STATEFUL_SET: Kind = kind("apps", "v1", "StatefulSet", "statefulsets");
    /// Job.
    pub const JOB: Kind = kind("batch", "v1", "Job", "jobs");
    /// ConfigMap.
    pub const CONFIG_MAP: Kind = kind("", "v1", "ConfigMap", "configmaps");
    /// Pod.
    pub const POD: Kind = kind("", "v1", "Pod", "pods");
    /// Secret.
    pub const SECRET: Kind = kind("", "v1", "Secret", "secrets");
    /// Namespace.
    pub const NAMESPACE: Kind = Kind {
        namespaced: false,
        ..kind("", "v1", "Namespace", "namespaces")
    };
    /// Role.
    pub const ROLE: Kind = kind("rbac.authorization.k8s.io", "v1", "Role", "roles");
    /// `RoleBinding`.
    pub const ROLE_BINDING: Kind = kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
    /// CustomResourceDefinition.
    pub const DEFINITION: Kind = Kind {
        namespaced: false,
        ..kind(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        )
    };
    /// ValidatingWebhookConfiguration.
    pub const VALIDATING_WEBHOOK: Kind = Kind {
        namespaced: false,
        ..kind(
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        )
    };
    /// Event.
    pub const EVENT: Kind = kind("events.k8s.io", "v1", "Event", "events");
    /// Lease.
    pub const LEASE: Kind = kind("coordination.k8s.io", "v1", "Lease", "leases");
    /// A custom resource whose operator is simulated by a test.
    pub const WIDGET: Kind = kind("example.test", "v1", "Widget", "widgets");
    /// The custom resource of the example fleet.
    pub const SCHEDULE: Kind = kind("backup.example.com", "v1", "Schedule", "schedules");
}

impl Kind {
    /// Group and plural name, as in the event log.
    pub const fn resource(&self) -> (&'static str, &'static str) {
        (self.group, self.plural)
    }

    pub(super) fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.singular.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The objects of one namespace of one cluster.
pub struct Objects {
    client: Client,
    namespace: String,
}

impl Objects {
    /// The objects of a namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    /// The API client for a kind.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// An object, if it is there, and its kind.
    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        match self.api(kind).get(name).await {
            Ok(object) => Some(value(object)),
            // Also `None` if the kind does not exist.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// All objects of a kind, by name.
    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        let mut items: Vec<Value> = self
            .api(kind)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter()
            .map(value)
            .collect();
        items.sort_by_key(|object| name(object).to_owned());
        items
    }

    /// Creates an object.
    pub async fn create(&self, kind: Kind, object: Value) -> Value {
        self.try_create(kind, object).await.unwrap()
    }

    /// Creates an object, or returns the API server's error message.
    pub async fn try_create(&self, kind: Kind, object: Value) -> Result<Value, String> {
        let by = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        match self.api(kind).create(&by, &with_type_meta(kind, object)).await {
            Ok(object) => Ok(value(object)),
            Err(kube::Error::Api(status)) => {
                Err(format!("{} {}: {}", status.code, status.reason, status.message))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// `kubectl apply --server-side --force-conflicts`.
    pub async fn apply(&self, kind: Kind, object: Value) -> Value {
        let (name, by) = (name(&object).to_owned(), PatchParams::apply(MANAGER).force());
        value(
            self.api(kind)
                .patch(&name, &by, &Patch::Apply(with_type_meta(kind, object)))
                .await
                .unwrap(),
        )
    }

    /// `kubectl patch --type=merge`.
    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Value {
        value(
            self.api(kind)
                .patch(name, &by(), &Patch::Merge(patch))
                .await
                .unwrap(),
        )
    }

    /// The same, or returns the API server's error message.
    pub async fn try_patch(&self, kind: Kind, name: &str, patch: Value) -> Result<Value, String> {
        match self.api(kind).patch(name, &by(), &Patch::Merge(patch)).await {
            Ok(object) => Ok(value(object)),
            Err(kube::Error::Api(status)) => {
                Err(format!("{} {}: {}", status.code, status.reason, status.message))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The same for the status subresource.
    pub async fn patch_status(&self, kind: Kind, name: &str, patch: Value) -> Value {
        value(
            self.api(kind)
                .patch_status(name, &by(), &Patch::Merge(patch))
                .await
                .unwrap(),
        )
    }

    /// Removes the status, as after a restore from backup without it; no error if the object does not exist.
    pub async fn empty_status(&self, kind: Kind, name: &str) {
        let patch = json!([{"op": "replace", "path": "/status", "value": {}}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        match self.api(kind).patch_status(name, &by(), &patch).await {
            Ok(_) => {}
            // There is no object, or it has no status.
            Err(kube::Error::Api(status)) if [404, 422].contains(&status.code) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Deletes an object; no error if it does not exist.
    pub async fn delete(&self, kind: Kind, name: &str) {
        self.delete_with(kind, name, &DeleteParams::default()).await;
    }

    /// `kubectl delete --cascade=foreground --wait=false`.
    pub async fn delete_in_the_foreground(&self, kind: Kind, name: &str) {
        self.delete_with(kind, name, &DeleteParams::foreground()).await;
    }

    async fn delete_with(&self, kind: Kind, name: &str, how: &DeleteParams) {
        match self.api(kind).delete(name, how).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = kind.api_resource();
        if kind.namespaced {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("an object has a name")
}

fn by() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn with_type_meta(kind: Kind, mut object: Value) -> DynamicObject {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.singular);
    serde_json::from_value(object).unwrap()
}

fn value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}
