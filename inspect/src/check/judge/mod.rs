//! Turns the collected state into findings. Pure.

mod clusters;
mod controller;
mod machines;
mod management;
mod modules;

use super::{finding::Finding, world::World};

/// All findings.
pub(crate) fn all(world: &World) -> Vec<Finding> {
    let mut findings = management::judge(world);
    findings.extend(controller::judge(world));
    findings.extend(clusters::judge(world));
    findings.extend(modules::judge(world));
    findings.extend(machines::judge(&world.machines));
    findings
}

pub(crate) use management::{node_agents, server_version};
