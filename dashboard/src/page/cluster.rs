//! The page of a cluster: its modules, its reachability, and its holds and pins.

use maud::html;

use super::{Page, Part, Request, layout, lists, parts};
use crate::{ClusterView, FleetEvent, Kind, Shape, Snapshot, Tree, shell_word};

/// Maximum number of events shown.
const EVENTS: usize = 50;

pub(super) fn page(snapshot: &Snapshot, request: &Request, name: &str) -> Option<Page> {
    let view = ClusterView::of(snapshot, name)?;
    let is_meant = |event: &FleetEvent| event.is_about_unit(Kind::Module, name);
    Some(Page {
        title: format!("cluster {name}"),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            hero(name, &view.tree),
            facts(&view),
            lists::module_list(&view.modules, Kind::Module, name, request, |_| html! {}),
            Part::unsplit(
                "events",
                lists::events(&snapshot.objects.events, is_meant, EVENTS, request),
            ),
            commands(&view, &snapshot.namespace),
        ],
    })
}

/// The name of a cluster or node, and its state.
pub(super) fn hero(name: &str, tree: &Tree) -> Part {
    let root = &tree.root;
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(root.shape)) { (parts::glyph(root.shape)) " " (root.kind) " " (parts::text(name)) ": " (root.reason) }
            p { (parts::text(&root.message)) }
        }
    };
    Part::unsplit("hero", markup)
}

fn facts(view: &ClusterView) -> Part {
    let markup = html! {
        section #facts {
            dl.facts {
                @if let Some(why) = &view.not_ready { dt { "Cluster API" } dd { (parts::text(why)) } }
                @if let Some((reason, message, since)) = &view.reachable {
                    dt { "reachable" }
                    dd { (parts::text(reason)) @if !message.is_empty() { ": " (parts::text(message)) } (parts::since(Some(*since))) }
                }
                @if let Some(last) = view.last_contact { dt { "last contact" } dd { (parts::time(last)) } }
                @if let Some(version) = &view.kubernetes { dt { "Kubernetes" } dd.version { (parts::text(version)) } }
                dt { "labels" }
                dd { @for (key, value) in &view.labels { code { (parts::text(key)) "=" (parts::text(value)) } " " } }
                @for (what, description) in &view.controls { dt { (parts::text(what)) } dd { (parts::text(description)) } }
            }
        }
    };
    Part::unsplit("facts", markup)
}

fn commands(view: &ClusterView, namespace: &str) -> Part {
    let (name, at) = (shell_word(&view.name), shell_word(namespace));
    let markup = html! {
        section #commands aria-labelledby="commands-title" {
            h2 #commands-title { "As commands" }
            (parts::commands([
                ("explain", format!("muster tree cluster/{name} -n {at}")),
                ("check", format!("muster check --cluster {name} -n {at}")),
                if view.modules.iter().any(|carried| carried.cell.shape == Shape::Held) {
                    ("release", format!("muster release {name} -n {at}"))
                } else {
                    ("hold", format!("muster hold {name} -n {at}"))
                },
                ("with kubectl", format!("kubectl describe clusters.cluster.x-k8s.io {name} -n {at}")),
            ]))
        }
    };
    Part::unsplit("commands", markup)
}
