//! The git repository of a demo: a real one, created from the example fleet.

use std::{fs, path::Path};

use anyhow::Context as _;
use git2::{IndexAddOption, Repository, RepositoryInitOptions, Signature};
use include_dir::{Dir, include_dir};

use super::{Pace, name::Name};

/// The example fleet, from `examples/fleet`.
static FLEET: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../examples/fleet");

/// The example of a plan, from `examples/plan`: the tour adds it to the fleet.
static PLAN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../examples/plan");

/// The example NodeModule, and the Module that delivers it.
const SYSCTL: &str = include_str!("../../../examples/nodes/sysctl.yaml");
const NODES: &str = include_str!("../../../examples/nodes/module.yaml");
/// The deadline in the example.
const DEADLINE: &str = "progressDeadlineSeconds: 30\n";

/// The tag that the example modules use.
pub(crate) const FIRST_TAG: &str = "v1.0.0";

/// Creates the work tree with a first commit on `main` and its tag. Returns its URL.
pub(crate) fn make(directory: &Path, clusters: &[Name], pace: Pace, nodes: bool) -> anyhow::Result<String> {
    fs::create_dir_all(directory)?;
    FLEET
        .extract(directory)
        .context("the example fleet cannot be written")?;
    fs::write(directory.join("modules/clusters/all.yaml"), facts(clusters))?;
    give_up_after(directory, pace.gives_up_after)?;
    for environment in ["dev", "prod"] {
        fs::remove_file(directory.join(format!("modules/clusters/{environment}.yaml")))?;
    }
    if nodes {
        add_nodes(directory)?;
    }
    commit(directory).with_context(|| format!("git in {}", directory.display()))?;
    Ok(format!("file://{}", directory.display()))
}

/// Writes the example of a plan beside the work tree.
pub(crate) fn plan(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory)?;
    PLAN.extract(directory)
        .context("the example of a plan cannot be written")
}

/// Writes a file of the work tree.
pub(crate) fn add(directory: &Path, file: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(file);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, text).with_context(|| path.display().to_string())
}

fn commit(directory: &Path) -> Result<(), git2::Error> {
    let repository = Repository::init_opts(directory, RepositoryInitOptions::new().initial_head("main"))?;
    let mut config = repository.config()?;
    config.set_str("user.name", "muster demo")?;
    config.set_str("user.email", "demo@example.com")?;
    // Users who sign commits are not asked for a key here.
    config.set_bool("commit.gpgsign", false)?;
    config.set_bool("tag.gpgsign", false)?;
    let mut index = repository.index()?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None)?;
    index.write()?;
    let tree = repository.find_tree(index.write_tree()?)?;
    let author = Signature::now("muster demo", "demo@example.com")?;
    let commit = repository.commit(Some("HEAD"), &author, &author, "A small fleet", &tree, &[])?;
    repository.tag_lightweight(FIRST_TAG, &repository.find_object(commit, None)?, false)?;
    Ok(())
}

/// How long the Deployments of the example retry an image that cannot be pulled.
fn give_up_after(directory: &Path, seconds: u32) -> anyhow::Result<()> {
    for file in ["apps/podinfo/deployment.yaml", "apps/backup/operator.yaml"] {
        let path = directory.join(file);
        let text = fs::read_to_string(&path)?;
        let text = text.replace(DEADLINE, &format!("progressDeadlineSeconds: {seconds}\n"));
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The facts of each cluster, which the modules' bindings read.
fn facts(clusters: &[Name]) -> String {
    let of = |cluster: &Name| {
        let (replicas, days) = if cluster.environment() == "dev" {
            (1, 1)
        } else {
            (2, 30)
        };
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {cluster}-facts\ndata:\n  replicas: \"{replicas}\"\n  retentionDays: \"{days}\"\n"
        )
    };
    let documents: String = clusters.iter().map(of).collect();
    format!("# Facts of each cluster: the modules' controlPlaneBindings read them.\n{documents}")
}

/// Adds the NodeModule, and the Module that delivers it, to the repository.
fn add_nodes(fleet: &Path) -> anyhow::Result<()> {
    // Shortened, so that a node does not take half a minute.
    let sysctl = SYSCTL.replace("settle: 10s", "settle: 1s\n  holdFor: 1s");
    add(fleet, "apps/nodes/sysctl.yaml", &sysctl)?;
    add(fleet, "modules/nodes.yaml", NODES)
}
