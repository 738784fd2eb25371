//! From what was read to findings. Pure.

mod clusters;
mod controller;
mod management;
mod modules;

use super::{finding::Finding, world::World};

/// Every finding.
pub fn all(world: &World) -> Vec<Finding> {
    let mut findings = management::judge(world);
    findings.extend(controller::judge(world));
    findings.extend(clusters::judge(world));
    findings.extend(modules::judge(world));
    findings
}

pub use management::{node_agents, server_version};
