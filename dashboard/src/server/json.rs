//! The view models as JSON, in the same schemas as the command's `-o json`.

use axum::{
    extract::{RawQuery, State},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{Shared, query};
use crate::{
    FleetEvent, History, Kind, Matrix, ModuleRef, PageLocation, Snapshot, Tree, ZonesView, page::Request,
    why, why_on,
};

/// Serves `matrix.json`, `tree.json`, `tree/PLACE.json`, `why/PLACE.json`, `history/PLACE.json`, `activity.json`,
/// `zones.json` and `machines.json`.
pub(super) async fn answer(State(shared): State<Shared>, uri: Uri, RawQuery(query): RawQuery) -> Response {
    let snapshot = std::sync::Arc::clone(&shared.0.snapshots.borrow());
    if !snapshot.is_complete {
        let retry = [(header::RETRY_AFTER, "1")];
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            retry,
            "the fleet is still loading\n",
        )
            .into_response();
    }
    let path = uri.path().strip_prefix("/api/v1/").unwrap_or_default();
    let found = path.strip_suffix(".json").and_then(|path| {
        let (what, place) = path.split_once('/').unwrap_or((path, ""));
        let request = query::request(PageLocation::parse(place)?, query.as_deref().unwrap_or_default());
        text(&snapshot, what, &request)
    });
    match found {
        Some(Ok(text)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/json"),
                (header::CACHE_CONTROL, "no-store"),
            ];
            (headers, text).into_response()
        }
        Some(Err(why)) => (StatusCode::BAD_REQUEST, why + "\n").into_response(),
        None => (StatusCode::NOT_FOUND, "not found\n").into_response(),
    }
}

fn text(snapshot: &Snapshot, what: &str, request: &Request) -> Option<Result<String, String>> {
    let fleet = snapshot.fleet_of(kind(snapshot, &request.place));
    let view = |module: &ModuleRef| fleet.module(module.kind, &module.name);
    match (what, &request.place) {
        ("matrix", PageLocation::Fleet | PageLocation::Nodes) => {
            let shown = request.filter.apply(fleet).map_err(|refused| refused.to_string());
            Some(shown.and_then(|fleet| written(&Matrix::of(&fleet, Matrix::UNFOLDED))))
        }
        ("tree", PageLocation::Fleet | PageLocation::Nodes) => {
            Some(written(&Tree::fleet(fleet, &snapshot.namespace)))
        }
        ("tree", PageLocation::Module(module)) => Some(written(&Tree::module(view(module)?))),
        ("tree", PageLocation::Cluster(name) | PageLocation::Node(name)) => {
            Some(written(&Tree::cluster(fleet, name)?))
        }
        ("why", PageLocation::Module(module)) => Some(written(&why(view(module)?))),
        ("why", PageLocation::Assignment(module, cluster)) => {
            Some(written(&why_on(&snapshot.objects, fleet, module, cluster)?))
        }
        ("history", PageLocation::Module(module)) => {
            Some(written(&History::of_module(&snapshot.objects, module)?))
        }
        ("activity", PageLocation::Fleet) => Some(written(&activity(snapshot))),
        ("zones", PageLocation::Fleet) => Some(written(&zones(snapshot))),
        ("machines", PageLocation::Fleet) => Some(written(&machines(snapshot))),
        _ => None,
    }
}

/// Kind of the fleet that a page is about.
fn kind(snapshot: &Snapshot, place: &PageLocation) -> Kind {
    match place {
        PageLocation::Fleet => snapshot.home(),
        PageLocation::Nodes | PageLocation::Node(_) => Kind::NodeModule,
        PageLocation::Module(module)
        | PageLocation::Revision(module, _)
        | PageLocation::Assignment(module, _) => module.kind,
        PageLocation::Cluster(_) | PageLocation::Activity | PageLocation::Zones | PageLocation::Machines => {
            Kind::Module
        }
    }
}

/// Events, with the schema version.
fn activity(snapshot: &Snapshot) -> serde_json::Value {
    let events: Vec<&FleetEvent> = snapshot.objects.events.iter().map(|event| &**event).collect();
    serde_json::json!({"schema": "activity/v1", "events": events})
}

/// Zone groups, with the schema version.
fn zones(snapshot: &Snapshot) -> serde_json::Value {
    let rollouts = snapshot.objects.zones.iter();
    let groups: Vec<ZonesView> = rollouts.map(|rollout| ZonesView::of(rollout)).collect();
    serde_json::json!({"schema": "zones/v1", "groups": groups})
}

/// Machines that are updated in place, with the schema version.
fn machines(snapshot: &Snapshot) -> serde_json::Value {
    serde_json::json!({"schema": "machines/v1", "updates": snapshot.updates()})
}

fn written(view: &impl Serialize) -> Result<String, String> {
    // Ends with a newline, as the command prints it.
    let text = serde_json::to_string_pretty(view).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}
