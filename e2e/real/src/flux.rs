//! Flux in a control plane: its definitions, source-controller and kustomize-controller.

use std::{fs, path::Path, time::Duration};

use crate::{
    api::Api,
    cache::Cache,
    fleet::free_ports,
    plane::{Plane, text},
    processes::Processes,
};

/// What Flux consists of here.
pub(crate) const PROGRAMS: [&str; 2] = ["source-controller", "kustomize-controller"];
/// Its namespace.
const NAMESPACE: &str = "flux-system";
/// How long it may take to be ready; 2 s are usual.
const READY: Duration = Duration::from_mins(1);

/// Starts Flux, and waits until it is ready. Gates are what `kustomize-controller --feature-gates` takes; none leaves all as they are.
pub(crate) fn start(
    plane: &Plane,
    folder: &Path,
    cache: &Cache,
    processes: &mut Processes,
    gates: &str,
) -> anyhow::Result<()> {
    let api = plane.api()?;
    api.apply(
        &format!("/api/v1/namespaces/{NAMESPACE}"),
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n"),
    )?;
    let definitions = cache.files("flux")?;
    let definitions = definitions
        .iter()
        .map(|file| api.apply_definition(file))
        .collect::<anyhow::Result<Vec<String>>>()?;
    let apiserver = plane.process("apiserver");
    processes.wait(&apiserver, READY, || {
        definitions.iter().all(|path| api.has(path, "Established"))
    })?;
    let [artifacts, metrics, health, metrics_too, health_too] = free_ports()?;
    let storage = folder.join(format!("{}-artifacts", plane.name));
    fs::create_dir_all(&storage)?;
    let artifacts = format!("127.0.0.1:{artifacts}");
    let common = [
        ("watch-all-namespaces", "true".to_owned()),
        ("enable-leader-election", "false".to_owned()),
        ("events-addr", String::new()),
    ];
    let sources = [
        ("storage-path", text(&storage)),
        ("storage-addr", artifacts.clone()),
        ("storage-adv-addr", artifacts),
        ("metrics-addr", format!("127.0.0.1:{metrics}")),
        ("health-addr", format!("127.0.0.1:{health}")),
    ];
    let kustomizations = [
        ("no-remote-bases", "true".to_owned()),
        ("feature-gates", gates.to_owned()),
        ("metrics-addr", format!("127.0.0.1:{metrics_too}")),
        ("health-addr", format!("127.0.0.1:{health_too}")),
    ];
    for (program, own) in [(PROGRAMS[0], sources.as_slice()), (PROGRAMS[1], &kustomizations)] {
        let mut launch = plane.launch(cache, program, program, &[&common, own].concat());
        launch.environment = vec![
            ("KUBECONFIG".to_owned(), text(&plane.config("flux"))),
            ("RUNTIME_NAMESPACE".to_owned(), NAMESPACE.to_owned()),
            ("TUF_ROOT".to_owned(), text(&storage.join("sigstore"))),
        ];
        processes.start(&launch)?;
    }
    for (program, port) in PROGRAMS.into_iter().zip([health, health_too]) {
        let door = Api::plain(&format!("http://127.0.0.1:{port}"))?;
        processes.wait(&plane.process(program), READY, || door.is_there("/readyz"))?;
    }
    Ok(())
}
