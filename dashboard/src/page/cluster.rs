//! The page of a cluster: what it carries, whether it answers, and what people say of it.

use maud::html;

use super::{Page, Part, Piece, Request, layout, lists, parts};
use crate::{ClusterView, Happened, ModuleRef, Place, Shape, Snapshot, shell_word, why::without_next};

/// Events that are shown.
const EVENTS: usize = 50;

pub fn page(snapshot: &Snapshot, request: &Request, name: &str) -> Option<Page> {
    let view = ClusterView::of(snapshot, name)?;
    let is_meant = |event: &Happened| event.is_about_cluster(name);
    Some(Page {
        title: format!("cluster {name}"),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            hero(&view),
            facts(&view),
            modules(&view, request),
            Part::whole(
                "events",
                lists::events(&snapshot.objects.events, is_meant, EVENTS, request),
            ),
            commands(&view, &snapshot.namespace),
        ],
    })
}

fn hero(view: &ClusterView) -> Part {
    let root = &view.tree.root;
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(root.shape)) { (parts::glyph(root.shape)) " Cluster " (parts::text(&view.name)) ": " (root.reason) }
            p { (parts::text(&root.message)) }
        }
    };
    Part::whole("hero", markup)
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
                @for (what, told) in &view.controls { dt { (parts::text(what)) } dd { (parts::text(told)) } }
            }
        }
    };
    Part::whole("facts", markup)
}

fn modules(view: &ClusterView, request: &Request) -> Part {
    let pieces = view.modules.iter().map(|carried| {
        let module = ModuleRef {
            kind: carried.kind,
            name: carried.module.clone(),
        };
        let id = format!("carries:{}", module.said());
        let cell = &carried.cell;
        let place = Place::Assignment(module.clone(), view.name.clone());
        let row = html! {
            tr.(parts::class(cell.shape)) id=(parts::text(&id)) {
                th scope="row" { a.step href=(request.place.link(&place)) { (parts::text(&module.said())) } }
                td { (parts::badge(cell.shape, &cell.reason)) }
                td.version { (parts::text(cell.version.as_deref().unwrap_or("–"))) }
                td.version { (parts::text(&carried.target)) }
                td { @if let Some(since) = cell.since { (parts::time(since)) } }
                td { (parts::text(without_next(&cell.message))) }
            }
        };
        Piece::new(id, row)
    });
    Part::of("modules", pieces.collect(), |rows| {
        html! {
            section #modules.scroll tabindex="0" role="region" aria-labelledby="modules-title" {
                table {
                    caption #modules-title { "Modules, most urgent first" }
                    thead { tr { @for title in ["Module", "Status", "Version", "Target", "Since", "Message"] { th scope="col" { (title) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    })
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
    Part::whole("commands", markup)
}
