//! One object: observe, decide, act.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{
    CallError, Cluster, Kind, ObjectFailure, Options, Outcome, Prepared, drift::drifted,
    error::immutable_fields, prepare::Wishes,
};

/// How often an object that was deleted to be created again is looked for.
const GONE_POLL: Duration = Duration::from_millis(200);

/// Makes one object as it should be, with no write if it is.
pub(super) async fn apply_one(
    cluster: &Cluster,
    object: &Prepared,
    options: &Options,
) -> Result<Outcome, ObjectFailure> {
    let failed = |action: &str, error: &CallError| ObjectFailure::call(object.id.clone(), action, error);
    let api_version = object.api_version();
    let kind = cluster
        .kind(&api_version, &object.id.kind)
        .await
        .map_err(|error| failed("discovery", &error))?
        .ok_or_else(|| ObjectFailure::unknown_kind(object.id.clone(), &api_version))?;
    if object.wishes.ignore {
        return Ok(Outcome::Skipped);
    }
    let live = cluster
        .get(&kind, &object.id)
        .await
        .map_err(|error| failed("reading it", &error))?;
    let Some(live) = live else {
        cluster
            .apply(&kind, &object.id, &object.body, false)
            .await
            .map_err(|error| failed("apply", &error))?;
        return Ok(Outcome::Created);
    };
    if object.wishes.if_not_present || Wishes::of(&live).ignore {
        return Ok(Outcome::Skipped);
    }
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Err(ObjectFailure::terminating(object.id.clone()));
    }
    let dry_run = match cluster.apply(&kind, &object.id, &object.body, true).await {
        Ok(dry_run) => dry_run,
        Err(error) => return around_immutable(cluster, &kind, object, &live, options, error).await,
    };
    if !drifted(&live, &dry_run) {
        return Ok(Outcome::Unchanged);
    }
    match cluster.apply(&kind, &object.id, &object.body, false).await {
        Ok(_) => Ok(Outcome::Configured),
        Err(error) => Err(failed("apply", &error)),
    }
}

/// After a refused dry run: creates the object anew if a field that cannot be changed is the cause and force was asked for.
async fn around_immutable(
    cluster: &Cluster,
    kind: &Kind,
    object: &Prepared,
    live: &Value,
    options: &Options,
    error: CallError,
) -> Result<Outcome, ObjectFailure> {
    let id = &object.id;
    let Some(fields) = immutable_fields(&error) else {
        return Err(ObjectFailure::call(id.clone(), "dry-run", &error));
    };
    if !options.force && !object.wishes.force {
        return Err(ObjectFailure::immutable(id.clone(), &error, &fields));
    }
    let failed = |action: &str, error: &CallError| ObjectFailure::call(id.clone(), action, error);
    let uid = live
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match cluster.delete(kind, id, uid).await {
        Err(error) if !error.is_not_found() => return Err(failed("delete", &error)),
        Ok(()) | Err(_) => {}
    }
    let gone = await_gone(cluster, kind, object, uid);
    match tokio::time::timeout(options.timeout, gone).await {
        Ok(gone) => gone?,
        Err(_elapsed) => return Err(ObjectFailure::not_gone(id.clone())),
    }
    cluster
        .apply(kind, id, &object.body, false)
        .await
        .map_err(|error| failed("apply", &error))?;
    Ok(Outcome::Recreated)
}

/// Waits until the object of that uid is not there any more.
async fn await_gone(
    cluster: &Cluster,
    kind: &Kind,
    object: &Prepared,
    uid: &str,
) -> Result<(), ObjectFailure> {
    let id = &object.id;
    loop {
        let there = cluster.get(kind, id).await;
        let there = there.map_err(|error| ObjectFailure::call(id.clone(), "reading it", &error))?;
        match there
            .as_ref()
            .map(|there| there.pointer("/metadata/uid").and_then(Value::as_str))
        {
            None => return Ok(()),
            Some(found) if found == Some(uid) => sleep(GONE_POLL).await,
            // Somebody else was faster: it is theirs until the next round looks at it anew.
            Some(_) => return Err(ObjectFailure::terminating(id.clone())),
        }
    }
}
