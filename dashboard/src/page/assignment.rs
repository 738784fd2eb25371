//! The page of a module on a cluster: down to the object that fails.

use maud::{Markup, html};

use super::{Page, Part, Request, layout, lists, module, parts};
use crate::{Assignment, EchoView, ModuleRef, Place, RowView, Snapshot};

pub fn page(snapshot: &Snapshot, request: &Request, module: &ModuleRef, cluster: &str) -> Option<Page> {
    let view = Assignment::of(snapshot, module, cluster)?;
    Some(Page {
        title: format!("{} on {cluster}", module.said()),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            hero(&view, module, request),
            module::reasons(&view.why, module, request),
            said(view.echo.as_ref()),
            assigned(view.row.as_ref(), module, request),
            Part::whole("conditions", lists::conditions(&view.conditions)),
            commands(&view, module, &snapshot.namespace),
        ],
    })
}

fn hero(view: &Assignment, module: &ModuleRef, request: &Request) -> Part {
    let cell = &view.cell;
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(cell.shape)) { (parts::glyph(cell.shape)) " " (parts::link(request, &Place::Module(module.clone()), &module.said())) " on "
                (parts::link(request, &Place::Cluster(cell.cluster.clone()), &cell.cluster)) ": " (parts::text(&cell.reason)) }
        }
    };
    Part::whole("hero", markup)
}

fn said(echo: Option<&EchoView>) -> Part {
    let markup = html! {
        section #said aria-labelledby="said-title" {
            h2 #said-title { "What the cluster says" }
            @match echo {
                None => { p { "Nothing yet." } }
                Some(echo) => {
                    dl.facts {
                        dt { "state" }
                        dd { (echo.state) @if !echo.is_current { " (of what was assigned before)" } }
                        @if let Some(class) = echo.class { dt { "whose fault" } dd { (class) @if echo.terminal { "; waiting does not mend it" } } }
                        (fact("reason", echo.reason.as_deref()))
                        @if let Some(message) = &echo.message { dt { "message" } dd.message { (parts::text(message)) } }
                        (fact("last ready at commit", echo.commit.as_deref()))
                    }
                }
            }
        }
    };
    Part::whole("said", markup)
}

fn assigned(row: Option<&RowView>, module: &ModuleRef, request: &Request) -> Part {
    let markup = html! {
        section #assigned aria-labelledby="assigned-title" {
            h2 #assigned-title { "What was assigned" }
            @match row {
                None => { p { "Nothing." } }
                Some(row) => {
                    dl.facts {
                        dt { "to do" } dd { (row.intent) }
                        (fact("repository", row.url.as_deref()))
                        (fact("version", row.version.as_deref()))
                        (fact("folder", row.path.as_deref()))
                        (fact("commit", row.commit.as_deref()))
                        @if let Some(revision) = &row.revision {
                            @let short: String = revision.chars().take(8).collect();
                            dt { "revision" } dd { (parts::link(request, &Place::Revision(module.clone(), short.clone()), &short)) }
                        }
                        (fact("digest", row.digest.as_deref()))
                        @if let Some(token) = row.token { dt { "token" } dd { (token) } }
                        @if !row.variables.is_empty() { dt { "variables" } dd { (parts::text(&row.variables.join(", "))) } }
                    }
                }
            }
        }
    };
    Part::whole("assigned", markup)
}

fn fact(what: &str, value: Option<&str>) -> Markup {
    html! { @if let Some(value) = value { dt { (what) } dd { (parts::text(value)) } } }
}

fn commands(view: &Assignment, module: &ModuleRef, namespace: &str) -> Part {
    let (said, at) = (parts::word(&module.said()), parts::word(namespace));
    let cluster = parts::word(&view.cell.cluster);
    let assemblage = format!("{}s.fleet.muster.dev", view.assemblage.to_lowercase());
    let markup = html! {
        section #commands aria-labelledby="commands-title" {
            h2 #commands-title { "As commands" }
            (parts::commands([
                ("why", format!("muster why {said} --cluster {cluster} -n {at}")),
                ("leave it as it is", format!("muster hold {said} --clusters {cluster} --reason WHY -n {at}")),
                ("the assignment as YAML", format!("kubectl get {assemblage} {cluster} -o yaml -n {at}")),
                ("the objects, in the cluster", "kubectl get kustomizations.kustomize.toolkit.fluxcd.io -n muster-system -o yaml".to_owned()),
            ]))
        }
    };
    Part::whole("commands", markup)
}
