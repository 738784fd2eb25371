//! Cluster API in a control plane: its CRDs, webhooks and controllers, with the in-memory backend of its development
//! provider as infrastructure. No containers, no machines: nodes are objects in an API server with a few kinds that the
//! provider serves on loopback.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};

use crate::{
    api::Api,
    cache::Cache,
    plane::{CLUSTER_API, Plane, text},
    ports::free_ports,
    processes::Processes,
};

/// Core, bootstrap, control plane, infrastructure.
pub(crate) const PROGRAMS: [&str; 4] = ["capi-core", "capi-bootstrap", "capi-control-plane", "capi-dev"];
/// The namespace of the controllers; in-memory clusters need the pod's address and namespace.
const ENVIRONMENT: [(&str, &str); 2] = [("POD_IP", "127.0.0.1"), ("POD_NAMESPACE", "default")];
/// Timeout for being ready; 3 s are usual.
const READY: Duration = Duration::from_mins(2);
/// The contract labels on the CRDs of a provider.
const CONTRACTS: &str = r#"{"metadata": {"labels": {"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}}}"#;

/// Starts the four controllers and waits until they are ready.
pub(crate) fn start(
    plane: &Plane,
    directory: &Path,
    cache: &Cache,
    processes: &mut Processes,
) -> anyhow::Result<()> {
    let (api, apiserver) = (plane.api()?, plane.process("apiserver"));
    let mut definitions = Vec::new();
    for program in PROGRAMS {
        for file in cache.files(program)? {
            if !file.ends_with(MANIFESTS) {
                let path = api.apply_definition(&file)?;
                api.merge(&path, CONTRACTS)?;
                definitions.push(path);
            }
        }
    }
    processes.wait(&apiserver, READY, || {
        definitions.iter().all(|path| api.has(path, "Established"))
    })?;
    let certificates = directory.join(format!("{}-capi", plane.name));
    fs::create_dir_all(&certificates)?;
    plane.serving("cluster-api")?.write(&certificates, "tls")?;
    let mut doors = Vec::new();
    for program in PROGRAMS {
        let [webhooks, health, diagnostics] = free_ports()?;
        let mut flags = vec![
            ("kubeconfig", text(&plane.config(CLUSTER_API))),
            ("leader-elect", "false".to_owned()),
            ("webhook-port", webhooks.to_string()),
            ("webhook-cert-dir", text(&certificates)),
            ("health-addr", format!("127.0.0.1:{health}")),
            ("diagnostics-address", format!("127.0.0.1:{diagnostics}")),
            ("insecure-diagnostics", "true".to_owned()),
            ("kube-api-qps", "200".to_owned()),
            ("kube-api-burst", "400".to_owned()),
            // Only the stored version is used, so that no conversion is needed.
            (
                "skip-crd-migration-phases",
                "StorageVersionMigration,CleanupManagedFields".to_owned(),
            ),
            ("feature-gates", "ClusterTopology=true".to_owned()),
        ];
        if matches!(program, "capi-core" | "capi-control-plane") {
            let gates = "ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true";
            flags.pop();
            flags.push(("feature-gates", gates.to_owned()));
        }
        let mut launch = plane.launch(cache, program, program, &flags);
        launch.environment = ENVIRONMENT
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        processes.start(&launch)?;
        doors.push((program, webhooks, health));
    }
    for (program, webhooks, health) in doors {
        let door = Api::plain(&format!("http://127.0.0.1:{health}"))?;
        processes.wait(&plane.process(program), READY, || door.is_there("/readyz"))?;
        register(plane, &api, cache, program, webhooks)?;
    }
    Ok(())
}

/// The file with the webhooks of a provider.
const MANIFESTS: &str = "manifests.yaml";
/// The two objects in the file, and their collections.
const WEBHOOKS: [(&str, &str); 2] = [
    ("mutating-webhook-configuration", "mutatingwebhookconfigurations"),
    (
        "validating-webhook-configuration",
        "validatingwebhookconfigurations",
    ),
];
/// The reference to the provider's Service in the file, which is replaced by a URL.
const SERVICE: &str = "    service:\n      name: webhook-service\n      namespace: system\n      path: ";

/// Registers the webhooks of a provider at the address where it listens.
fn register(plane: &Plane, api: &Api, cache: &Cache, program: &str, port: u16) -> anyhow::Result<()> {
    let files = cache.files(program)?;
    let file = files.iter().find(|file| file.ends_with(MANIFESTS));
    let file = file.with_context(|| format!("{program} has no {MANIFESTS}"))?;
    let address = format!(
        "    caBundle: {}\n    url: https://127.0.0.1:{port}",
        plane.authority_base64()
    );
    let manifests = fs::read_to_string(file)?.replace(SERVICE, &address);
    ensure!(
        !manifests.contains("    service:"),
        "{}: a webhook has an unexpected reference to its Service",
        file.display()
    );
    for document in manifests.split("\n---\n").filter(|text| text.contains("kind:")) {
        let found = WEBHOOKS.iter().find(|(name, _)| document.contains(name));
        let (name, collection) = found.with_context(|| format!("{}: {document}", file.display()))?;
        let own = format!("{program}-{name}");
        api.apply(
            &format!("/apis/admissionregistration.k8s.io/v1/{collection}/{own}"),
            document.replacen(name, &own, 1),
        )?;
    }
    Ok(())
}
