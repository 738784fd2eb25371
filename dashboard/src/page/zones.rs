//! The page of zones: each group of StatefulSets that is rolled out zone by zone in this cluster, with the reason for
//! its state.

use maud::{Markup, html};
use muster_api::ZoneRollout;

use super::{Page, Part, layout, parts};
use crate::{Snapshot, Step, ZoneView, ZonesView, shell_word, why_zones};

pub(super) fn page(snapshot: &Snapshot) -> Page {
    let rollouts = &snapshot.objects.zones;
    let hero = html! { section #hero { h1 { "Zones" } } };
    let groups = html! {
        div #groups {
            @if rollouts.is_empty() {
                p.faint { "This cluster has no ZoneRollout in namespace " (parts::text(&snapshot.namespace)) "." }
            }
            @for rollout in rollouts { (group(rollout)) }
        }
    };
    let at = shell_word(&snapshot.namespace);
    let commands = [("with kubectl", format!("kubectl get zonerollouts -n {at}"))];
    let commands = html! {
        section #commands aria-labelledby="commands-title" { h2 #commands-title { "As commands" } (parts::commands(commands)) }
    };
    Page {
        title: "Zones".to_owned(),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            Part::unsplit("hero", hero),
            Part::unsplit("groups", groups),
            Part::unsplit("commands", commands),
        ],
    }
}

fn group(rollout: &ZoneRollout) -> Markup {
    let view = ZonesView::of(rollout);
    let why = why_zones(rollout);
    html! {
        section aria-label=(parts::text(&view.name)) {
            h2 { (parts::badge(view.shape, &view.reason)) " " (parts::text(&view.group)) }
            p { (view.done) " of " (view.total) " pods are available at the revision of their StatefulSet" }
            (parts::message(&view.message))
            div.scroll tabindex="0" role="region" aria-label="StatefulSets" {
                table {
                    thead { tr { @for title in ["StatefulSet", "State", "Revision", "Why"] { th scope="col" { (title) } } } }
                    tbody { @for zone in &view.zones { (row(zone)) } }
                }
            }
            @if let Some(next) = &why.next {
                p { "Next: " (parts::text(next)) @if let Some(command) = &why.command { ": " (parts::command(command)) } }
            }
        }
    }
}

fn row(zone: &ZoneView) -> Markup {
    html! {
        tr {
            th scope="row" { (parts::text(&zone.name)) }
            td { (parts::badge(zone.shape, zone.shape.word())) }
            td { code { (parts::text(&zone.revision)) } }
            td { @for step in &zone.steps { (reason(step, &zone.name)) } }
        }
    }
}

fn reason(step: &Step, zone: &str) -> Markup {
    html! {
        p {
            (parts::badge(step.shape, &step.reason))
            @if step.who != zone { " " (parts::text(&step.who)) }
            ": " (parts::text(&step.message))
        }
    }
}
