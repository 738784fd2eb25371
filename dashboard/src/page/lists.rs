//! Lists that several pages have: conditions, and what happened.

use std::sync::Arc;

use maud::{Markup, html};
use muster_api::module::ModuleKind;

use super::{Request, parts};
use crate::{ConditionView, Happened, ModuleRef, Place};

/// The conditions of an object.
pub fn conditions(conditions: &[ConditionView]) -> Markup {
    html! {
        section #conditions.scroll hidden[conditions.is_empty()] tabindex="0" role="region" aria-labelledby="conditions-title" {
            table {
                caption #conditions-title { "Conditions" }
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
            h2 #events-title { "What happened" }
            @if found.is_empty() { p { "Nothing is on record. Events are kept for an hour, as a rule." } }
            ol.happened {
                @for event in found.iter().take(most) {
                    li {
                        (parts::time(event.at)) " "
                        @if event.warning { strong { "✗ " (parts::text(&event.reason)) } } @else { span { (parts::text(&event.reason)) } }
                        " " (about(event, request)) ": " (parts::text(&event.note))
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
        "Module" => Some(module(ModuleKind::Module)),
        "BootstrapModule" => Some(module(ModuleKind::BootstrapModule)),
        "Cluster" | "ProxyAssemblage" | "RemoteAssemblage" => Some(Place::Cluster(event.name.clone())),
        _ => None,
    };
    let said = format!("{} {}", event.kind, event.name);
    html! {
        @match place {
            Some(place) => { (parts::link(request, &place, &said)) }
            None => { (parts::text(&said)) }
        }
    }
}
