//! `caBundle` of the ExtensionConfig by which Cluster API finds the hooks: the authorities of the served certificate,
//! now and whenever they change.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kube::{
    Client,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::json;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::runtime::{Api, Shutdown, call::error_chain};

/// How often it is read: others may create or change it at any time.
const REREAD: Duration = Duration::from_mins(1);

/// The resource of ExtensionConfigs.
fn resource() -> ApiResource {
    const GROUP: &str = "runtime.cluster.x-k8s.io";
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1beta2".to_owned(),
        api_version: format!("{GROUP}/v1beta2"),
        kind: "ExtensionConfig".to_owned(),
        plural: "extensionconfigs".to_owned(),
    }
}

/// Keeps the bundle of the ExtensionConfig `name` up to date until shutdown. Waits for one that does not exist.
pub async fn keep_extension_bundle(
    client: Client,
    name: &str,
    mut authorities: watch::Receiver<String>,
    shutdown: Shutdown,
) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource());
    loop {
        let wanted = authorities.borrow_and_update().clone();
        if !wanted.is_empty()
            && let Err(error) = write(&api, name, &wanted).await
        {
            warn!(
                name,
                error = error_chain(&error),
                "caBundle of the ExtensionConfig could not be written"
            );
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            Ok(()) = authorities.changed() => {}
            () = tokio::time::sleep(REREAD) => {}
        }
    }
}

async fn write(api: &Api<DynamicObject>, name: &str, authorities: &str) -> kube::Result<()> {
    let Some(config) = api.get_opt(name).await? else {
        return Ok(());
    };
    let wanted = BASE64_STANDARD.encode(authorities);
    let present = config.data.pointer("/spec/clientConfig/caBundle");
    if present.and_then(|bundle| bundle.as_str()) == Some(&wanted) {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"resourceVersion": config.metadata.resource_version},
        "spec": {"clientConfig": {"caBundle": wanted}},
    });
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    info!(name, "caBundle of the ExtensionConfig was written");
    Ok(())
}
