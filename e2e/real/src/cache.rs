//! The programs and files of control planes: built by Go from `go/`, and cached outside the repository.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Environment variable for the cache directory, instead of `~/.cache`.
const PLACE: &str = "MUSTER_REAL_CACHE";
/// The module whose version the Kubernetes programs report.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// A program that Go builds.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the program and of its file.
    pub name: &'static str,
    /// The directory of its Go module in `go/`.
    pub module: &'static str,
    /// The Go package to build.
    package: &'static str,
}

/// All programs, in the order in which they are needed.
pub const PROGRAMS: [Program; 13] = [
    program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    program(
        "kube-apiserver",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kube-apiserver",
    ),
    program(
        "kube-controller-manager",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    program(
        "kube-scheduler",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kube-scheduler",
    ),
    program("kwok", "flux-kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    program(
        "source-controller",
        "flux-kwok",
        "github.com/fluxcd/source-controller",
    ),
    program(
        "kustomize-controller",
        "flux-kwok",
        "github.com/fluxcd/kustomize-controller",
    ),
    program(
        "helm-controller",
        "flux-kwok",
        "github.com/fluxcd/helm-controller",
    ),
    program(
        "registry",
        "flux-kwok",
        "github.com/distribution/distribution/v3/cmd/registry",
    ),
    program("capi-core", "cluster-api", "sigs.k8s.io/cluster-api/core"),
    program(
        "capi-bootstrap",
        "cluster-api",
        "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
    ),
    program(
        "capi-control-plane",
        "cluster-api",
        "sigs.k8s.io/cluster-api/controlplane/kubeadm",
    ),
    program(
        "capi-dev",
        "cluster-api",
        "sigs.k8s.io/cluster-api/test/infrastructure/docker",
    ),
];

const fn program(name: &'static str, module: &'static str, package: &'static str) -> Program {
    Program {
        name,
        module,
        package,
    }
}

/// Files of a Go module.
struct Files {
    /// The directory in the cache.
    place: &'static str,
    /// The directory in `go/` of the module that names the version.
    module: &'static str,
    /// The module that contains the files.
    dependency: &'static str,
    /// A file or directory in the module.
    path: &'static str,
}

const FILES: [Files; 13] = [
    files(
        "flux",
        "flux-kwok",
        "github.com/fluxcd/source-controller",
        "config/crd/bases",
    ),
    files(
        "flux",
        "flux-kwok",
        "github.com/fluxcd/kustomize-controller",
        "config/crd/bases",
    ),
    files(
        "helm",
        "flux-kwok",
        "github.com/fluxcd/helm-controller",
        "config/crd/bases",
    ),
    files(
        "kwok",
        "flux-kwok",
        "sigs.k8s.io/kwok",
        "kustomize/stage/pod/fast",
    ),
    files(
        "kwok",
        "flux-kwok",
        "sigs.k8s.io/kwok",
        "kustomize/stage/node/fast",
    ),
    files(
        "capi-core",
        "cluster-api",
        "sigs.k8s.io/cluster-api",
        "core/config/crd/bases",
    ),
    files(
        "capi-core",
        "cluster-api",
        "sigs.k8s.io/cluster-api",
        "core/config/webhook/manifests.yaml",
    ),
    files(
        "capi-bootstrap",
        "cluster-api",
        "sigs.k8s.io/cluster-api",
        "bootstrap/kubeadm/config/crd/bases",
    ),
    files(
        "capi-bootstrap",
        "cluster-api",
        "sigs.k8s.io/cluster-api",
        "bootstrap/kubeadm/config/webhook/manifests.yaml",
    ),
    files(
        "capi-control-plane",
        "cluster-api",
        "sigs.k8s.io/cluster-api",
        "controlplane/kubeadm/config/crd/bases",
    ),
    files(
        "capi-control-plane",
        "cluster-api",
        "sigs.k8s.io/cluster-api",
        "controlplane/kubeadm/config/webhook/manifests.yaml",
    ),
    files(
        "capi-dev",
        "cluster-api",
        "sigs.k8s.io/cluster-api/test",
        "infrastructure/docker/config/crd/bases",
    ),
    files(
        "capi-dev",
        "cluster-api",
        "sigs.k8s.io/cluster-api/test",
        "infrastructure/docker/config/webhook/manifests.yaml",
    ),
];

const fn files(
    place: &'static str,
    module: &'static str,
    dependency: &'static str,
    path: &'static str,
) -> Files {
    Files {
        place,
        module,
        dependency,
        path,
    }
}

/// The result of building a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// Up to date: built from the same module files with the same Go.
    Already,
    /// Built, in this time.
    Now(Duration),
}

/// The cache of built programs.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// `$MUSTER_REAL_CACHE`, or `muster/real` in the user's cache.
    pub fn open() -> anyhow::Result<Self> {
        let home = |name: &str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let directory = home(PLACE)
            .or_else(|| home("XDG_CACHE_HOME").map(|cache| cache.join("muster/real")))
            .or_else(|| home("HOME").map(|home| home.join(".cache/muster/real")))
            .with_context(|| {
                format!("neither {PLACE} nor HOME is set: there is no cache directory for programs")
            })?;
        Ok(Self { directory })
    }

    /// The path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Builds a program unless it is up to date. The output of Go goes to standard error.
    pub fn build(&self, program: &Program) -> anyhow::Result<Built> {
        let go = go_version()?;
        let (file, stamp) = (
            self.program(program.name),
            self.directory.join(format!("bin/.{}.stamp", program.name)),
        );
        let wanted = print_of(program, &go)?;
        if file.is_file() && fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(Built::Already);
        }
        fs::create_dir_all(self.directory.join("bin"))?;
        let (began, fresh) = (
            Instant::now(),
            self.directory.join(format!("bin/.{}.new", program.name)),
        );
        let status = go_in(program.module)
            .args([
                "build",
                "-mod=readonly",
                "-buildvcs=false",
                "-trimpath",
                "-ldflags",
            ])
            .arg(linker_flags(program)?)
            .arg("-o")
            .arg(&fresh)
            .arg(program.package)
            .status()
            .context("go build")?;
        ensure!(status.success(), "go build {}: {status}", program.package);
        fs::rename(&fresh, &file)?;
        fs::write(&stamp, wanted)?;
        Ok(Built::Now(began.elapsed()))
    }

    /// Copies other files out of these modules: CRDs of Flux and of Cluster API, stages of kwok.
    pub fn take_files(&self, modules: &BTreeSet<&str>) -> anyhow::Result<()> {
        for files in FILES.iter().filter(|files| modules.contains(files.module)) {
            let to = self.directory.join("share").join(files.place);
            fs::create_dir_all(&to)?;
            let from = module_directory(files.module, files.dependency)?.join(files.path);
            let from = if from.is_file() {
                vec![from]
            } else {
                yaml_in(&from)?
            };
            for file in from {
                let name = file.file_name().context("a file has a name")?;
                if name != "kustomization.yaml" {
                    // Copied with new permissions: Go's modules are read-only.
                    fs::write(to.join(name), fs::read(&file)?)?;
                }
            }
        }
        Ok(())
    }

    /// An error that names the missing programs.
    pub fn require(&self, names: &[&str]) -> anyhow::Result<()> {
        let missing: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| !self.program(name).is_file())
            .collect();
        ensure!(
            missing.is_empty(),
            "not built yet: {} (searched in {}); run `cargo xtask real build`",
            missing.join(", "),
            self.directory.display()
        );
        Ok(())
    }

    /// A program that was built.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join("bin").join(name)
    }

    /// The path of a file that was copied out of a module.
    pub fn file(&self, place: &str, name: &str) -> anyhow::Result<PathBuf> {
        let file = self.directory.join("share").join(place).join(name);
        ensure!(
            file.is_file(),
            "{} is missing; run `cargo xtask real build`",
            file.display()
        );
        Ok(file)
    }

    /// The files that were copied out of modules, by name.
    pub fn files(&self, place: &str) -> anyhow::Result<Vec<PathBuf>> {
        yaml_in(&self.directory.join("share").join(place)).context("run `cargo xtask real build`")
    }
}

/// The YAML files of a directory, by name.
pub(crate) fn yaml_in(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    ensure!(!files.is_empty(), "{} has no YAML files", directory.display());
    Ok(files)
}

/// A directory of this crate.
pub(crate) fn here(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)
}

fn go_in(module: &str) -> Command {
    let mut go = Command::new("go");
    go.current_dir(here("go").join(module))
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null());
    go
}

fn go_version() -> anyhow::Result<String> {
    let output = Command::new("go").arg("version").output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => bail!(
            "`go version` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => bail!(
            "real control planes are built by Go 1.26, and `go` cannot be run ({error}); install it from https://go.dev/doc/install, or as package `golang` or `go` of your system"
        ),
    }
}

/// The fingerprint of a program's inputs: the same fingerprint means the same program.
fn print_of(program: &Program, go: &str) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        hash.update(fs::read(here("go").join(program.module).join(file))?);
    }
    hash.update(format!("{}\n{go}{}", program.package, linker_flags(program)?));
    Ok(HEXLOWER.encode(&hash.finalize()))
}

/// Without symbols; the version is set for Kubernetes' programs as in their own builds.
fn linker_flags(program: &Program) -> anyhow::Result<String> {
    if program.module != "kubernetes" {
        return Ok("-s -w".to_owned());
    }
    let modules = fs::read_to_string(here("go/kubernetes/go.mod"))?;
    let version = modules
        .split_whitespace()
        .skip_while(|word| *word != KUBERNETES)
        .nth(1)
        .with_context(|| format!("go/kubernetes/go.mod has no version of {KUBERNETES}"))?;
    let minor = version.split('.').nth(1).unwrap_or_default();
    let place = "k8s.io/component-base/version";
    Ok(format!(
        "-s -w -X {place}.gitVersion={version} -X {place}.gitMajor=1 -X {place}.gitMinor={minor} -X {place}.gitTreeState=clean"
    ))
}

/// Where Go keeps a dependency. Downloads it if necessary: a build fetches only what a program needs.
fn module_directory(module: &str, dependency: &str) -> anyhow::Result<PathBuf> {
    let output = go_in(module)
        .args(["mod", "download", "-json", dependency])
        .output()
        .context("go mod download")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if let Some(directory) = answer["Dir"].as_str().filter(|_| output.status.success()) {
        return Ok(PathBuf::from(directory));
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    bail!(
        "where {dependency} is: {}",
        answer["Error"].as_str().unwrap_or(&printed).trim()
    )
}
