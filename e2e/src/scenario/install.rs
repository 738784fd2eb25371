//! Promise: what `muster install --export` prints runs: the pods of both Deployments are admitted by the rules of their namespace, and turn
//! ready. On real control planes only; nodes and pods are played, admission is not.

use muster_api::labels::SYSTEM_NAMESPACE;

use crate::{
    bed::{Bed, Ground, Objects, kinds},
    fleet::{ROLLED, condition},
};

/// The Deployments of the management cluster and of another one.
pub async fn is_admitted(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    let inside = bed.inside("eu-1", SYSTEM_NAMESPACE);
    for (objects, name) in [(bed.system(), "muster-controller"), (inside, "muster-agent")] {
        until_available(&bed, &objects, name).await;
    }
}

async fn until_available(bed: &Bed, objects: &Objects, name: &str) {
    let look = async || {
        let deployment = objects
            .get(kinds::DEPLOYMENT, name)
            .await
            .ok_or("no Deployment")?;
        match condition(&deployment, "Available") {
            Some(available) if available["status"] == "True" => Ok(()),
            _ => Err(deployment["status"].to_string()),
        }
    };
    bed.wait_until(&format!("{name} is available"), ROLLED, look)
        .await;
}
