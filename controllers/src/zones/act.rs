//! The writes of a pass. Each has a precondition: a uid, or the resourceVersion that was read.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use muster_api::{
    ZoneRollout,
    labels::label::APP_MANAGED_BY,
    names,
    zonerollout::{ZoneRolloutSpec, ZoneRolloutStatus},
};
use muster_zones::{
    decide::Action,
    model::Group,
    roll::{Delete, Record},
    scale::{
        Change,
        mirror::Reference,
        operation::Downscale,
        times::{Copied, LAST_DOWNSCALE, Tracker, rfc3339, uncopied},
    },
};
use serde_json::{Value, json};

use super::{
    Error, MANAGER, Zones,
    read::{Namespace, answered},
};
use crate::runtime::{Api, CallError, call};

/// Applies an action; the error is the API server's.
pub(super) async fn act(
    zones: &Zones,
    group: &Group,
    action: &Action,
    read: &Namespace,
) -> Result<(), String> {
    match action {
        Action::Delete(delete) => delete_pod(zones, delete).await,
        Action::Record(record) => write_revision(zones, record).await,
        Action::Scale(Change::Replicas(downscale)) => write_replicas(zones, group, downscale, read).await,
        Action::Scale(Change::WriteBack { reference, replicas }) => {
            write_back(zones, reference, *replicas).await
        }
    }
}

fn by() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// A pod that is gone, or has another uid or version, counts as deleted.
async fn delete_pod(zones: &Zones, delete: &Delete) -> Result<(), String> {
    let pods: Api<Pod> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let only_it = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(delete.uid.clone()),
            resource_version: delete.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    match call("deleting a pod", pods.delete(&delete.pod, &only_it)).await {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(answered(&error)),
    }
}

/// With the uid of the set as precondition.
async fn write_revision(zones: &Zones, record: &Record) -> Result<(), String> {
    let body = json!({
        "metadata": {"uid": record.uid},
        "status": {"currentRevision": record.revision},
    });
    let (sets, by, patch) = (sets(zones), by(), Patch::Merge(&body));
    let write = sets.patch_status(&record.set, &by, &patch);
    call("writing currentRevision", write)
        .await
        .map(drop)
        .map_err(|error| answered(&error))
}

/// With the resourceVersion of the set as precondition: its generation is recorded.
async fn write_replicas(
    zones: &Zones,
    group: &Group,
    downscale: &Downscale,
    read: &Namespace,
) -> Result<(), String> {
    let version = read.versions.get(&downscale.set);
    if group.set(&downscale.set).map(|set| &set.uid) != Some(&downscale.set_uid) {
        return Err("it was replaced by another StatefulSet".to_owned());
    }
    let body = json!({
        "metadata": {"uid": downscale.set_uid, "resourceVersion": version},
        "spec": {"replicas": downscale.to},
    });
    patch_set(zones, &downscale.set, &body)
        .await
        .map_err(|error| answered(&error))
}

async fn write_back(zones: &Zones, reference: &Reference, replicas: u32) -> Result<(), String> {
    let api = zones.reader.reference(reference).await?;
    let body = json!({"status": {"replicas": replicas}});
    let (by, patch) = (by(), Patch::Merge(&body));
    let write = api.patch_status(&reference.name, &by, &patch);
    call("writing status.replicas", write)
        .await
        .map(drop)
        .map_err(|error| answered(&error))
}

/// Copies times of downscales to the places that the flags select.
pub(super) async fn write_times(
    zones: &Zones,
    group: &Group,
    status: &ZoneRolloutStatus,
    read: &Namespace,
) -> Result<(), Error> {
    if zones.settings.use_zone_tracker {
        let mut tracker = read.tracker();
        // An unreadable ConfigMap is reported by the reviews, and is not overwritten.
        if let Ok(known) = &tracker {
            let times = uncopied(&group.sets, status, Copied::Tracker(known));
            if !times.is_empty() {
                write_tracker(zones, &times).await?;
                tracker = tracker.map(|tracker| tracker.with(&times));
            }
        }
        *zones.tracker.lock() = Some(tracker);
    }
    if zones.settings.last_downscale_annotation {
        let times = uncopied(&group.sets, status, Copied::Annotation);
        for (name, time) in times {
            let uid = group.set(&name).map(|set| set.uid.as_str());
            let annotations = json!({ LAST_DOWNSCALE: rfc3339(time.0) });
            let body = json!({"metadata": {"uid": uid, "annotations": annotations}});
            patch_set(zones, &name, &body).await?;
        }
    }
    Ok(())
}

/// Whether all times of downscales are where the flags want them, as far as this process knows.
pub(super) fn are_times_written(zones: &Zones, group: &Group, status: &ZoneRolloutStatus) -> bool {
    let is_missing = |copied| !uncopied(&group.sets, status, copied).is_empty();
    if zones.settings.last_downscale_annotation && is_missing(Copied::Annotation) {
        return false;
    }
    !zones.settings.use_zone_tracker
        || match &*zones.tracker.lock() {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(tracker)) => !is_missing(Copied::Tracker(tracker)),
        }
}

async fn write_tracker(
    zones: &Zones,
    times: &std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
) -> Result<(), CallError> {
    let name = &zones.settings.zone_tracker;
    let maps: Api<ConfigMap> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let live = call(format!("reading ConfigMap {name}"), maps.get_opt(name)).await?;
    let parameters = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let data = live.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
    let data = Some(Tracker::written(&data, times));
    let what = format!("writing ConfigMap {name}");
    if let Some(live) = live {
        let map = ConfigMap { data, ..live };
        call(what, maps.replace(name, &parameters, &map)).await?;
    } else {
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap {
            metadata,
            data,
            ..ConfigMap::default()
        };
        call(what, maps.create(&parameters, &map)).await?;
    }
    Ok(())
}

/// The ZoneRollout of a group when it is created, or re-created after it was lost.
pub(super) fn new_rollout(group: &str) -> ZoneRollout {
    let spec = ZoneRolloutSpec {
        group: group.to_owned(),
        ..ZoneRolloutSpec::default()
    };
    let mut rollout = ZoneRollout::new(&names::zone_rollout_name(group), spec);
    rollout
        .labels_mut()
        .insert(APP_MANAGED_BY.to_owned(), MANAGER.to_owned());
    rollout
}

/// Whether it contains nothing that users wrote.
pub(super) fn is_own_rollout(rollout: &ZoneRollout) -> bool {
    let ours = new_rollout(&rollout.spec.group);
    rollout.spec == ours.spec && rollout.labels() == ours.labels()
}

/// Creates a ZoneRollout; an existing one is fine.
pub(super) async fn create_rollout(zones: &Zones, group: &str) -> Result<Option<ZoneRollout>, CallError> {
    let api: Api<ZoneRollout> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let rollout = new_rollout(group);
    let parameters = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    match call("making a ZoneRollout", api.create(&parameters, &rollout)).await {
        Ok(made) => Ok(Some(made)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the full status over the version that was read; returns the new version.
pub(super) async fn replace_status(
    zones: &Zones,
    group: &str,
    version: &str,
    status: ZoneRolloutStatus,
) -> Result<String, CallError> {
    let api: Api<ZoneRollout> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let mut rollout = new_rollout(group);
    rollout.metadata.resource_version = Some(version.to_owned());
    rollout.status = Some(status);
    let name = rollout.name_any();
    let parameters = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let write = api.replace_status(&name, &parameters, &rollout);
    let written = call(format!("writing the status of ZoneRollout {name}"), write).await?;
    Ok(written.resource_version().unwrap_or_default())
}

/// Deletes a ZoneRollout, as it was read.
pub(super) async fn delete_rollout(zones: &Zones, rollout: &ZoneRollout) -> Result<(), CallError> {
    let api: Api<ZoneRollout> = Api::namespaced(zones.client.clone(), &zones.settings.namespace);
    let as_read = DeleteParams {
        preconditions: Some(Preconditions {
            uid: rollout.metadata.uid.clone(),
            resource_version: rollout.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    let name = rollout.name_any();
    match call(
        format!("deleting ZoneRollout {name}"),
        api.delete(&name, &as_read),
    )
    .await
    {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        deleted => deleted,
    }
}

fn sets(zones: &Zones) -> Api<StatefulSet> {
    Api::namespaced(zones.client.clone(), &zones.settings.namespace)
}

async fn patch_set(zones: &Zones, name: &str, body: &Value) -> Result<(), CallError> {
    let (sets, by, patch) = (sets(zones), by(), Patch::Merge(body));
    let write = sets.patch(name, &by, &patch);
    call(format!("writing StatefulSet {name}"), write).await.map(drop)
}
