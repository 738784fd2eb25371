//! The tree of a fleet, a module or a cluster.

use anyhow::Context as _;
use kube::Client;
use muster_dashboard::{Fleet, Tree};

use crate::{
    name::Top,
    read::{self, missing, missing_cluster},
};

/// Reads the fleet of a tree.
pub async fn read(client: &Client, namespace: &str, top: &Top) -> anyhow::Result<Fleet> {
    match top {
        Top::Module(module) => read::read_fleet(client, namespace, module).await,
        Top::Fleet | Top::Cluster(_) => read::read(client, namespace).await,
    }
}

/// The tree with this root. A missing module or cluster is an error.
pub fn tree(fleet: &Fleet, top: &Top, namespace: &str) -> anyhow::Result<Tree> {
    match top {
        Top::Fleet => Ok(Tree::fleet(fleet, namespace)),
        Top::Module(module) => {
            let view = fleet.module(module.kind, &module.name);
            Ok(Tree::module(
                view.with_context(|| missing(fleet, module, namespace))?,
            ))
        }
        Top::Cluster(name) => {
            Tree::cluster(fleet, name).with_context(|| missing_cluster(fleet, name, namespace))
        }
    }
}
