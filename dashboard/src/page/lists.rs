//! Lists that several pages have: conditions, and what happened.

use std::sync::Arc;

use maud::{Markup, html};

use super::{Request, parts};
use crate::{ConditionView, Happened, Kind, ModuleRef, Place};

/// The conditions of an object, for who wants to know it all.
pub fn conditions(conditions: &[ConditionView]) -> Markup {
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

/// What happened, newest first, as far as it is about something.
pub fn events(
    events: &[Arc<Happened>],
    is_meant: impl Fn(&Happened) -> bool,
    most: usize,
    request: &Request,
) -> Markup {
    let found: Vec<&Happened> = events
        .iter()
        .map(|event| &**event)
        .filter(|event| is_meant(event))
        .collect();
    html! {
        section #events aria-labelledby="events-title" {
            h2 #events-title { "Events" }
            @if found.is_empty() { p.faint { "None on record. A cluster keeps events for an hour, as a rule." } }
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

fn about(event: &Happened, request: &Request) -> Markup {
    let module = |kind| {
        Place::Module(ModuleRef {
            kind,
            name: event.name.clone(),
        })
    };
    let place = match &*event.kind {
        "Module" => Some(module(Kind::Module)),
        "BootstrapModule" => Some(module(Kind::BootstrapModule)),
        "Cluster" | "ProxyAssemblage" | "RemoteAssemblage" => Some(Place::Cluster(event.name.clone())),
        _ => None,
    };
    let said = format!("{}/{}", event.kind.to_lowercase(), event.name);
    html! {
        @match place {
            Some(place) => { (parts::link(request, &place, &said)) }
            None => { (parts::text(&said)) }
        }
    }
}
