//! Collects the content of a bundle, within limits; what cannot be read is noted, and the rest is read.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Client, ResourceExt,
    api::{ListParams, LogParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_api::{cluster::Version, labels::SYSTEM_NAMESPACE};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call::error_chain, call_within};
use muster_fleet::apply::DEADLINE;
use muster_sync::build::print;
use serde_json::Value;

use super::redact::{Redactor, SecretValues};

/// The most objects of one kind in one namespace.
const OBJECTS: usize = 2000;
/// The most objects in one response.
const PAGE: u32 = 200;
/// The most bytes of one log.
const LOG_BYTES: i64 = 4 * 1024 * 1024;
/// The number of last lines of one log.
const LOG_LINES: i64 = 5000;
/// The most pods whose logs are read.
const PODS: usize = 8;

/// A file of the bundle.
pub(crate) struct File {
    /// Path in the bundle.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// What was collected, and what was not.
pub(crate) struct Gathered {
    /// The collected files.
    pub files: Vec<File>,
    /// What could not be read, a line each.
    pub failed: Vec<String>,
    /// Masks the content.
    pub redactor: Redactor,
}

/// What is read from a namespace.
const FLEET: &[(&str, &str)] = &[
    ("fleet.muster.dev/v1alpha1", "Module"),
    ("fleet.muster.dev/v1alpha1", "BootstrapModule"),
    ("fleet.muster.dev/v1alpha1", "ModuleRevision"),
    ("fleet.muster.dev/v1alpha1", "RolloutWindow"),
    ("fleet.muster.dev/v1alpha1", "ProxyAssemblage"),
    ("fleet.muster.dev/v1alpha1", "RemoteAssemblage"),
    ("fleet.muster.dev/v1alpha1", "Assemblage"),
    ("fleet.muster.dev/v1alpha1", "PlanRun"),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"),
    ("source.toolkit.fluxcd.io/v1", "OCIRepository"),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
    ("coordination.k8s.io/v1", "Lease"),
    ("events.k8s.io/v1", "Event"),
];
/// What is also read from the namespace of the processes.
const PROCESSES: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

impl Gathered {
    /// Reads a namespace and the processes; Secrets come first, so that their values are masked in everything that
    /// follows.
    pub(crate) async fn read(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let mut namespaces = vec![namespace];
        namespaces.extend((namespace != SYSTEM_NAMESPACE).then_some(SYSTEM_NAMESPACE));
        let (mut known, mut secrets) = (SecretValues::default(), Vec::new());
        for namespace in &namespaces {
            secrets.push((namespace, list_secrets(client, namespace, &mut known).await));
        }
        let mut gathered = Self {
            files: Vec::new(),
            failed: Vec::new(),
            redactor: Redactor::of(&known).context("there are too many values of Secrets to mask")?,
        };
        for (namespace, listed) in secrets {
            gathered.secrets(namespace, listed);
        }
        for namespace in &namespaces {
            for (api_version, kind) in FLEET {
                gathered.objects(client, namespace, api_version, kind).await;
            }
        }
        gathered.clusters(client, namespace).await;
        for (api_version, kind) in PROCESSES {
            gathered
                .objects(client, SYSTEM_NAMESPACE, api_version, kind)
                .await;
        }
        gathered.logs(client).await;
        Ok(gathered)
    }

    /// Adds a text file, masked.
    pub(crate) fn add(&mut self, path: impl Into<String>, text: &str) {
        let text = self.redactor.text(text);
        self.files.push(File {
            path: path.into(),
            text,
        });
    }

    fn fail(&mut self, what: &str, error: &CallError) {
        let why = self.redactor.text(&error_chain(error));
        self.failed.push(format!("{what}: {why}"));
    }

    /// Names and keys are included in the bundle.
    fn secrets(&mut self, namespace: &str, listed: Result<String, CallError>) {
        match listed {
            Ok(text) => self.files.push(File {
                path: format!("secrets/{namespace}.txt"),
                text,
            }),
            Err(error) => self.fail(
                &format!("Secrets of {namespace}, whose values can therefore be masked only by pattern"),
                &error,
            ),
        }
    }

    async fn objects(&mut self, client: &Client, namespace: &str, api_version: &str, kind: &str) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        self.list(client, namespace, &resource).await;
    }

    async fn clusters(&mut self, client: &Client, namespace: &str) {
        let version = match muster_fleet::served(client).await {
            Ok(version) => version.unwrap_or(Version::V1Beta2),
            Err(error) => {
                self.failed
                    .push(self.redactor.text(&format!("Clusters: {error:#}")));
                return;
            }
        };
        self.list(client, namespace, &version.api_resource()).await;
    }

    async fn list(&mut self, client: &Client, namespace: &str, resource: &ApiResource) {
        let what = format!("{} in {namespace}", resource.plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
        let mut page = ListParams::default().limit(PAGE);
        let (mut text, mut count) = (String::new(), 0);
        loop {
            let list = match call_within(DEADLINE, format!("listing {what}"), api.list(&page)).await {
                Ok(list) => list,
                // A kind that is not served has no objects.
                Err(error) if error.is_not_found() => return,
                Err(error) => {
                    self.fail(&what, &error);
                    return;
                }
            };
            for mut object in list.items {
                object.types.get_or_insert_with(|| kube::core::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                // A response of an API server always serializes to JSON.
                let object = self
                    .redactor
                    .object(&serde_json::to_value(&object).unwrap_or(Value::Null));
                text += "---\n";
                text += &print::yaml(&object);
                count += 1;
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(_) if count >= OBJECTS => {
                    self.failed
                        .push(format!("{what}: only the first {count} are included"));
                    break;
                }
                Some(token) => page.continue_token = Some(token),
                None => break,
            }
        }
        if count > 0 {
            // Masked again as text: a value of a Secret may look different once it is printed.
            self.add(format!("objects/{namespace}/{}.yaml", resource.plural), &text);
        }
    }

    /// The logs of muster's pods, and of their previous containers.
    async fn logs(&mut self, client: &Client) {
        let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let of_muster = ListParams::default().labels("app.kubernetes.io/name=muster");
        let list = match call_within(DEADLINE, "listing pods", pods.list(&of_muster)).await {
            Ok(list) => list.items,
            Err(error) => {
                self.fail("the pods of muster", &error);
                return;
            }
        };
        for pod in list.iter().take(PODS) {
            let name = pod.name_any();
            for previous in [false, true] {
                let parameters = LogParams {
                    previous,
                    limit_bytes: Some(LOG_BYTES),
                    tail_lines: Some(LOG_LINES),
                    timestamps: true,
                    ..LogParams::default()
                };
                let word = if previous { "previous" } else { "current" };
                let reading = pods.logs(&name, &parameters);
                match call_within(DEADLINE, format!("reading the log of pod {name}"), reading).await {
                    Ok(log) => self.add(format!("logs/{name}.{word}.log"), &log),
                    // A container that never restarted has no previous log.
                    Err(error) if previous && matches!(error.code(), Some(400 | 404)) => {}
                    Err(error) => self.fail(&format!("the {word} log of pod {name}"), &error),
                }
            }
        }
    }
}

/// Secrets by name, type and keys, a line each. Values of all Secrets are registered for masking, and never written.
async fn list_secrets(
    client: &Client,
    namespace: &str,
    known: &mut SecretValues,
) -> Result<String, CallError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut page = ListParams::default().limit(PAGE);
    let mut lines = String::new();
    loop {
        let what = format!("listing Secrets in {namespace}");
        let list = call_within(DEADLINE, what, api.list(&page)).await?;
        for secret in list.items {
            let (name, data) = (secret.name_any(), secret.data.unwrap_or_default());
            let keys: Vec<&str> = data.keys().map(String::as_str).collect();
            let type_ = secret.type_.as_deref().unwrap_or("Opaque");
            lines.extend([namespace, "/", &name, " (", type_, "): ", &keys.join(", "), "\n"]);
            for (key, value) in &data {
                known.learn(key, &value.0);
            }
        }
        page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        if page.continue_token.is_none() {
            return Ok(lines);
        }
    }
}
