//! Writes the mirror.

use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams, ValidationDirective},
};
use muster_api::{
    Assemblage,
    labels::{SYSTEM_NAMESPACE, manager},
};
use tracing::info;

use super::{
    Mirroring,
    mirror::{self, Mirror},
    observe::DOWNSTREAM_DEADLINE,
};
use crate::runtime::{Api, CallError, Key, call_within, entries, strict};

/// The result of writing a mirror.
#[derive(Debug, Default)]
pub(super) struct MirrorWrite {
    /// The mirror as written, if it was written.
    pub live: Option<Assemblage>,
    /// The other origin that owns it.
    pub foreign: Option<String>,
}

impl Mirroring {
    /// Writes the decision, with the resourceVersion or the absence it was decided on as a precondition. `live` is the
    /// object that may be patched.
    pub(super) async fn act(
        &self,
        client: &Client,
        proxy: &Key,
        mirror: Mirror,
        live: Option<&Assemblage>,
    ) -> Result<MirrorWrite, CallError> {
        let api: Api<Assemblage> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let by = PostParams {
            field_manager: Some(manager::CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        match mirror {
            Mirror::Equal | Mirror::Terminating => Ok(MirrorWrite::default()),
            Mirror::Foreign(origin) => Ok(MirrorWrite {
                foreign: Some(origin),
                ..MirrorWrite::default()
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
                Ok(MirrorWrite {
                    live: Some(live),
                    ..MirrorWrite::default()
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
                match patched(&api, &what, &wanted, live).await {
                    Ok(Some(outcome)) => return Ok(outcome),
                    Ok(None) => {}
                    Err(error) if error.code() == Some(403) => self.sessions.deny_patches(proxy),
                    Err(error) => return Err(error),
                }
                let live = call_within(
                    DOWNSTREAM_DEADLINE,
                    what,
                    strict::replace_object(&api, &by, &wanted),
                )
                .await?;
                Ok(MirrorWrite {
                    live: Some(live),
                    ..MirrorWrite::default()
                })
            }
        }
    }
}

/// Changes rows by a patch, so that concurrent reports of other rows are not a conflict. `None`: the object must be
/// replaced, because more than rows changed, or a test failed.
async fn patched(
    api: &Api<Assemblage>,
    what: &str,
    wanted: &Assemblage,
    live: Option<&Assemblage>,
) -> Result<Option<MirrorWrite>, CallError> {
    let Some((live, patch)) = live.and_then(|live| Some((live, mirror::mirror_patch(live, wanted)?))) else {
        return Ok(None);
    };
    let by = PatchParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let (name, patch) = (wanted.name_any(), Patch::Json::<()>(patch));
    let answer = call_within(DOWNSTREAM_DEADLINE, what, api.patch_metadata(&name, &by, &patch)).await;
    match answer {
        Ok(written) => {
            let mut now = wanted.clone();
            now.spec.syncs = entries::in_place(&live.spec.syncs, &wanted.spec.syncs);
            now.metadata.resource_version = written.metadata.resource_version;
            now.metadata.generation = written.metadata.generation;
            now.status.clone_from(&live.status);
            Ok(Some(MirrorWrite {
                live: Some(now),
                ..MirrorWrite::default()
            }))
        }
        Err(error) if error.is_invalid() => Ok(None),
        Err(error) => Err(error),
    }
}
