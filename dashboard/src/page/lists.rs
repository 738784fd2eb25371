//! Lists that several pages share: conditions and events.

use std::sync::Arc;

use maud::{Markup, html};

use super::{Part, Piece, Request, parts};
use crate::{Carried, ConditionView, FleetEvent, Kind, ModuleRef, PageLocation, words::without_next};

/// The conditions of an object, as a collapsed detail.
pub(super) fn conditions(conditions: &[ConditionView]) -> Markup {
    html! {
        section #conditions hidden[conditions.is_empty()] {
            details {
                summary { "Conditions" }
                div.scroll tabindex="0" role="region" aria-label="Conditions" {
                    table {
                        thead { tr { @for title in ["Type", "Status", "Reason", "Since", "Message"] { th scope="col" { (title) } } } }
                        tbody {
                            @for condition in conditions {
                                tr {
                                    th scope="row" { (parts::text(&condition.type_)) }
                                    td { (parts::text(&condition.status)) }
                                    td { (parts::text(&condition.reason)) }
                                    td { (parts::time(condition.since)) }
                                    td { (parts::text(&condition.message)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The modules on a cluster or node, most urgent first; every row is a separate piece. `more` adds details to the
/// message.
pub(super) fn module_list(
    modules: &[Carried],
    kind: Kind,
    unit: &str,
    request: &Request,
    more: impl Fn(&Carried) -> Markup,
) -> Part {
    let pieces = modules.iter().map(|carried| {
        let module = ModuleRef {
            kind: carried.kind,
            name: carried.module.clone(),
        };
        let id = format!("carries:{}", module.command_argument());
        let cell = &carried.cell;
        let more = more(carried);
        let place = PageLocation::Assignment(module.clone(), unit.to_owned());
        let row = html! {
            tr.(parts::class(cell.shape)) id=(parts::text(&id)) {
                th scope="row" { a.step href=(request.place.link(&place)) { (parts::text(&module.command_argument())) } }
                td { (parts::badge(cell.shape, &cell.reason)) }
                td.version { (parts::text(cell.version.as_deref().unwrap_or("–"))) }
                td.version { (parts::text(&carried.target)) }
                td { @if let Some(since) = cell.since { (parts::time(since)) } }
                td { (parts::text(without_next(&cell.message))) (more) }
            }
        };
        Piece::new(id, row)
    });
    Part::of("modules", pieces.collect(), |rows| {
        html! {
            section #modules.scroll tabindex="0" role="region" aria-labelledby="modules-title" {
                table {
                    caption #modules-title { (kind.group_title()) ", most urgent first" }
                    thead { tr { @for title in [kind.title(), "Status", "Version", "Target", "Since", "Message"] { th scope="col" { (title) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    })
}

/// The events about something, newest first.
pub(super) fn events(
    events: &[Arc<FleetEvent>],
    is_meant: impl Fn(&FleetEvent) -> bool,
    most: usize,
    request: &Request,
) -> Markup {
    let found: Vec<&FleetEvent> = events
        .iter()
        .map(|event| &**event)
        .filter(|event| is_meant(event))
        .collect();
    html! {
        section #events aria-labelledby="events-title" {
            h2 #events-title { "Events" }
            @if found.is_empty() { p.faint { "None recorded. A cluster usually keeps events for an hour." } }
            ol.events {
                @for event in found.iter().take(most) {
                    li.warning[event.warning] {
                        (parts::time(event.at))
                        span.reason { @if event.warning { span.glyph title="warning" { "!" } " " } (parts::text(&event.reason)) }
                        span.about { (about(event, request)) }
                        span.note { (parts::text(&event.note)) }
                    }
                }
            }
            @if found.len() > most { p { "and " (found.len() - most) " older" } }
        }
    }
}

fn about(event: &FleetEvent, request: &Request) -> Markup {
    let module = |kind| {
        PageLocation::Module(ModuleRef {
            kind,
            name: event.name.clone(),
        })
    };
    let place = match &*event.kind {
        "Module" => Some(module(Kind::Module)),
        "BootstrapModule" => Some(module(Kind::BootstrapModule)),
        "NodeModule" => Some(module(Kind::NodeModule)),
        "Node" | "NodeAssemblage" => Some(PageLocation::Node(event.name.clone())),
        "Cluster" | "ProxyAssemblage" | "RemoteAssemblage" => Some(PageLocation::Cluster(event.name.clone())),
        _ => None,
    };
    let object = format!("{}/{}", event.kind.to_lowercase(), event.name);
    html! {
        @match place {
            Some(place) => { (parts::link(request, &place, &object)) }
            None => { (parts::text(&object)) }
        }
    }
}
