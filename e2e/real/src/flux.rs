//! Flux in a control plane: its CRDs, source-controller and kustomize-controller, and helm-controller on request.

use std::{fs, path::Path, time::Duration};

use crate::{
    api::Api,
    cache::Cache,
    plane::{Plane, text},
    ports::free_ports,
    processes::Processes,
};

/// The controllers of Flux that are started here.
pub(crate) const PROGRAMS: [&str; 2] = ["source-controller", "kustomize-controller"];
/// The controller of HelmReleases.
pub(crate) const HELM: &str = "helm-controller";
/// The namespace of Flux.
const NAMESPACE: &str = "flux-system";
/// Timeout for being ready; 2 s are usual.
const READY: Duration = Duration::from_mins(1);

/// Starts Flux, and waits until it is ready. `gates` is the value of `kustomize-controller --feature-gates`; without it
/// the defaults apply.
pub(crate) fn start(
    plane: &Plane,
    directory: &Path,
    cache: &Cache,
    processes: &mut Processes,
    gates: &str,
) -> anyhow::Result<()> {
    let api = plane.api()?;
    api.apply(
        &format!("/api/v1/namespaces/{NAMESPACE}"),
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n"),
    )?;
    define(plane, cache, processes, "flux")?;
    let [artifacts] = free_ports()?;
    let storage = directory.join(format!("{}-artifacts", plane.name));
    fs::create_dir_all(&storage)?;
    let artifacts = format!("127.0.0.1:{artifacts}");
    let sources = [
        ("storage-path", text(&storage)),
        ("storage-addr", artifacts.clone()),
        ("storage-adv-addr", artifacts),
    ];
    let kustomizations = [
        ("no-remote-bases", "true".to_owned()),
        ("feature-gates", gates.to_owned()),
    ];
    let doors = [
        launch(plane, directory, cache, processes, PROGRAMS[0], &sources)?,
        launch(plane, directory, cache, processes, PROGRAMS[1], &kustomizations)?,
    ];
    for (program, door) in PROGRAMS.into_iter().zip(doors) {
        processes.wait(&plane.process(program), READY, || door.is_there("/readyz"))?;
    }
    Ok(())
}

/// Starts helm-controller beside Flux, and waits until it is ready.
pub(crate) fn start_helm(
    plane: &Plane,
    directory: &Path,
    cache: &Cache,
    processes: &mut Processes,
) -> anyhow::Result<()> {
    define(plane, cache, processes, "helm")?;
    let door = launch(plane, directory, cache, processes, HELM, &[])?;
    processes.wait(&plane.process(HELM), READY, || door.is_there("/readyz"))
}

/// Applies the CRDs of a directory of the cache, and waits until they are served.
fn define(plane: &Plane, cache: &Cache, processes: &mut Processes, files: &str) -> anyhow::Result<()> {
    let api = plane.api()?;
    let definitions = cache.files(files)?;
    let definitions = definitions
        .iter()
        .map(|file| api.apply_definition(file))
        .collect::<anyhow::Result<Vec<String>>>()?;
    let apiserver = plane.process("apiserver");
    processes.wait(&apiserver, READY, || {
        definitions.iter().all(|path| api.has(path, "Established"))
    })
}

/// Starts a controller of Flux. Returns the address of its readiness probe.
fn launch(
    plane: &Plane,
    directory: &Path,
    cache: &Cache,
    processes: &mut Processes,
    program: &str,
    own: &[(&str, String)],
) -> anyhow::Result<Api> {
    let [metrics, health] = free_ports()?;
    let common = [
        ("watch-all-namespaces", "true".to_owned()),
        ("enable-leader-election", "false".to_owned()),
        ("events-addr", String::new()),
        ("metrics-addr", format!("127.0.0.1:{metrics}")),
        ("health-addr", format!("127.0.0.1:{health}")),
    ];
    let mut launch = plane.launch(cache, program, program, &[&common, own].concat());
    let sigstore = directory.join(format!("{}-artifacts/sigstore", plane.name));
    launch.environment = vec![
        ("KUBECONFIG".to_owned(), text(&plane.config("flux"))),
        ("RUNTIME_NAMESPACE".to_owned(), NAMESPACE.to_owned()),
        ("TUF_ROOT".to_owned(), text(&sigstore)),
    ];
    processes.start(&launch)?;
    Api::plain(&format!("http://127.0.0.1:{health}"))
}
