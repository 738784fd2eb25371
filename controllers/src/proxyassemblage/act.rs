//! Writing the mirror.

use kube::{Client, ResourceExt, api::PostParams};
use muster_api::{
    Assemblage,
    labels::{SYSTEM_NAMESPACE, manager},
};
use tracing::info;

use super::{Mirroring, mirror::Mirror, observe::DOWNSTREAM_DEADLINE};
use crate::runtime::{Api, CallError, call_within, strict};

/// What became of a mirror.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The mirror as written, if it was.
    pub live: Option<Assemblage>,
    /// The other origin that it belongs to.
    pub foreign: Option<String>,
}

impl Mirroring {
    /// Writes what was decided, on the version or the absence that it was decided on.
    pub(super) async fn act(&self, client: &Client, mirror: Mirror) -> Result<Outcome, CallError> {
        let api: Api<Assemblage> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let by = PostParams {
            field_manager: Some(manager::CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        match mirror {
            Mirror::Equal | Mirror::Terminating => Ok(Outcome::default()),
            Mirror::Foreign(origin) => Ok(Outcome {
                foreign: Some(origin),
                ..Outcome::default()
            }),
            Mirror::Create(wanted) => {
                let name = wanted.name_any();
                info!(
                    assemblage = name,
                    rows = wanted.spec.syncs.len(),
                    "creating a mirror"
                );
                let what = format!("creating Assemblage {SYSTEM_NAMESPACE}/{name}");
                let live = call_within(DOWNSTREAM_DEADLINE, what, strict::create(&api, &by, &wanted)).await?;
                Ok(Outcome {
                    live: Some(live),
                    ..Outcome::default()
                })
            }
            Mirror::Replace(wanted) => {
                let name = wanted.name_any();
                info!(
                    assemblage = name,
                    rows = wanted.spec.syncs.len(),
                    "changing a mirror"
                );
                let what = format!("changing Assemblage {SYSTEM_NAMESPACE}/{name}");
                let live =
                    call_within(DOWNSTREAM_DEADLINE, what, strict::replace(&api, &by, &wanted)).await?;
                Ok(Outcome {
                    live: Some(live),
                    ..Outcome::default()
                })
            }
        }
    }
}
