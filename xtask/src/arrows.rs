//! Which crate may depend on which: the table of `ARCHITECTURE.md`, compared with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::{Problems, tree};

/// Each crate, and the crates that its product code may use. Tests may use more: see [`TEST_ARROWS`].
const ARROWS: &[(&str, &[&str])] = &[
    ("muster-api", &[]),
    ("muster-rollout", &[]),
    ("muster-driver", &["muster-rollout"]),
    ("muster-simulator", &["muster-driver", "muster-rollout"]),
    (
        "muster-model",
        &["muster-driver", "muster-rollout", "muster-simulator"],
    ),
    ("muster-apiserver", &[]),
    ("muster-health", &[]),
    ("muster-kit", &[]),
    ("muster-node", &[]),
    (
        "muster-node-agent",
        &["muster-api", "muster-controllers", "muster-node", "muster-sync"],
    ),
    ("muster-zones", &["muster-api"]),
    ("muster-windows", &["muster-api"]),
    ("muster-machines", &["muster-api"]),
    ("muster-sync", &["muster-api", "muster-health", "muster-kit"]),
    (
        "muster-controllers",
        &[
            "muster-api",
            "muster-driver",
            "muster-health",
            "muster-kit",
            "muster-machines",
            "muster-rollout",
            "muster-sync",
            "muster-windows",
            "muster-zones",
        ],
    ),
    (
        "muster-dashboard",
        &["muster-api", "muster-kit", "muster-rollout"],
    ),
    (
        "muster-fleet",
        &[
            "muster-api",
            "muster-controllers",
            "muster-dashboard",
            "muster-kit",
            "muster-rollout",
            "muster-sync",
            "muster-windows",
        ],
    ),
    (
        "muster-operate",
        &[
            "muster-api",
            "muster-apiserver",
            "muster-controllers",
            "muster-dashboard",
            "muster-fleet",
            "muster-kit",
            "muster-node",
            "muster-node-agent",
            "muster-sync",
            "muster-zones",
        ],
    ),
    (
        "muster-inspect",
        &[
            "muster-api",
            "muster-apiserver",
            "muster-controllers",
            "muster-dashboard",
            "muster-fleet",
            "muster-health",
            "muster-operate",
            "muster-sync",
            "muster-windows",
        ],
    ),
    (
        "muster-foresee",
        &[
            "muster-api",
            "muster-controllers",
            "muster-dashboard",
            "muster-fleet",
            "muster-health",
            "muster-inspect",
            "muster-rollout",
            "muster-simulator",
            "muster-sync",
            "muster-windows",
        ],
    ),
    (
        "muster",
        &[
            "muster-api",
            "muster-controllers",
            "muster-dashboard",
            "muster-fleet",
            "muster-foresee",
            "muster-inspect",
            "muster-node-agent",
            "muster-operate",
            "muster-rollout",
            "muster-sync",
            "muster-windows",
            "muster-zones",
        ],
    ),
    (
        "muster-e2e",
        &[
            "follow-the-sun",
            "muster",
            "muster-api",
            "muster-apiserver",
            "muster-controllers",
            "muster-machines",
            "muster-node",
            "muster-real",
            "muster-rollout",
            "muster-sync",
            "muster-zones",
        ],
    ),
    (
        "muster-bench",
        &[
            "muster-api",
            "muster-apiserver",
            "muster-controllers",
            "muster-real",
            "muster-rollout",
            "muster-sync",
        ],
    ),
    (
        "muster-fuzz",
        &[
            "muster-apiserver",
            "muster-controllers",
            "muster-node",
            "muster-sync",
        ],
    ),
    ("muster-real", &[]),
    ("follow-the-sun", &[]),
    (
        "xtask",
        &["muster-api", "muster-apiserver", "muster-health", "muster-real"],
    ),
];

/// Crates that the tests of every crate may use: a Kubernetes API is never mocked by hand, and the laws of a rollout
/// are written once.
const TEST_ARROWS: &[&str] = &["muster-apiserver", "muster-driver", "muster-simulator"];

/// Libraries that a crate must never use, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    (
        "muster-rollout",
        &["kube", "k8s-openapi", "tokio", "jiff", "rand", "reqwest"],
        "it must not depend on Kubernetes, I/O, clock or randomness",
    ),
    (
        "muster-driver",
        &["kube", "k8s-openapi", "tokio", "jiff", "rand", "reqwest"],
        "it must not depend on Kubernetes, I/O, clock or randomness",
    ),
    (
        "muster-simulator",
        &["kube", "k8s-openapi", "tokio", "jiff", "reqwest"],
        "it must not depend on Kubernetes, I/O or clock",
    ),
    (
        "muster-api",
        &["tokio", "reqwest", "git2", "rand"],
        "it must not do I/O or spawn tasks",
    ),
    (
        "muster-windows",
        &["kube", "tokio", "rand", "reqwest"],
        "it must not do I/O or use a client",
    ),
    (
        "muster-node",
        &["kube", "k8s-openapi", "tokio", "rand", "reqwest"],
        "it must not depend on Kubernetes, and is blocking",
    ),
    (
        "muster-machines",
        &["kube", "tokio", "rand", "reqwest"],
        "it must not do I/O or use a client",
    ),
    (
        "muster-zones",
        &["kube", "tokio", "rand", "reqwest"],
        "it must not do I/O or use a client",
    ),
    (
        "muster-fleet",
        &["clap", "anstream"],
        "it must not print or parse flags",
    ),
    (
        "muster-foresee",
        &["clap", "anstream"],
        "it must not print or parse flags",
    ),
    (
        "muster-inspect",
        &["clap", "anstream"],
        "it must not print or parse flags",
    ),
    (
        "muster-operate",
        &["clap", "anstream"],
        "it must not print or parse flags",
    ),
    (
        "muster-apiserver",
        &["muster-api", "muster-sync"],
        "it must not depend on other crates",
    ),
];

/// Every dependency between crates that the table does not allow.
pub fn check() -> anyhow::Result<Problems> {
    let metadata = MetadataCommand::new()
        .manifest_path(tree::root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let packages: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .map(|package| (package.name.as_str(), package))
        .collect();
    let known: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    let mut problems: Problems = packages
        .keys()
        .filter(|name| !known.contains(*name))
        .map(|name| {
            format!(
                "{name}: a crate that is missing in the table of arrows: add it to ARCHITECTURE.md and xtask"
            )
        })
        .collect();
    for (room, allowed) in ARROWS {
        match packages.get(room) {
            Some(package) => problems.extend(check_room(package, allowed, &known)),
            None => problems.push(format!(
                "{room}: in the table of arrows, but not in the workspace"
            )),
        }
    }
    Ok(problems)
}

fn check_room(package: &Package, allowed: &[&str], rooms: &BTreeSet<&str>) -> Problems {
    let room = package.name.as_str();
    let forbidden = FORBIDDEN.iter().filter(|(name, ..)| *name == room);
    let mut problems = Problems::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let product = dependency.kind != DependencyKind::Development;
        let permitted = allowed.contains(&name) || (!product && TEST_ARROWS.contains(&name));
        if rooms.contains(name) && !permitted {
            problems.push(format!(
                "{room} must not use {name}: see the table of arrows in ARCHITECTURE.md"
            ));
        }
        for (_, libraries, why) in forbidden.clone() {
            if product && libraries.contains(&name) {
                problems.push(format!("{room} must not use {name}: {why}"));
            }
        }
        if room == "muster-api"
            && product
            && name == "kube"
            && dependency
                .features
                .iter()
                .any(|f| f == "client" || f == "runtime")
        {
            problems.push("muster-api must not use kube's client: it does no I/O".to_owned());
        }
        let pins_version = name == "k8s-openapi" && dependency.features.iter().any(|f| f.starts_with("v1_"));
        if pins_version
            && product
            && !["follow-the-sun", "muster", "muster-bench", "muster-e2e", "xtask"].contains(&room)
        {
            problems.push(format!(
                "{room} is a library and must not choose a Kubernetes version for k8s-openapi"
            ));
        }
    }
    problems
}

/// Every library of the workspace without a reason in ARCHITECTURE.md.
pub fn unexplained() -> anyhow::Result<Problems> {
    let manifest = tree::read("Cargo.toml")?;
    let reasons = tree::read("ARCHITECTURE.md")?;
    let explained: BTreeSet<&str> = reasons
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|cell| cell.split([',', ' ']))
        .collect();
    let section = manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1);
    let names = section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name);
    Ok(names
        .filter(|name| ARROWS.iter().all(|(room, _)| room != name) && !explained.contains(name))
        .map(|name| format!("{name}: the table of dependencies in ARCHITECTURE.md has no reason for it"))
        .collect())
}
