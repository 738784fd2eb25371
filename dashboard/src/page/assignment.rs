//! The page of a module on a cluster, down to the failing object.

use maud::{Markup, html};

use super::{Page, Part, Request, layout, lists, module, parts};
use crate::{
    Assignment, Kind, ModuleRef, ObjectName, PageLocation, ReportView, RowView, Shape, Snapshot, shell_word,
    words::diff_command,
};

pub(super) fn page(
    snapshot: &Snapshot,
    request: &Request,
    module: &ModuleRef,
    cluster: &str,
) -> Option<Page> {
    let view = Assignment::of(snapshot, module, cluster)?;
    let rolling = snapshot.objects.module(module)?;
    Some(Page {
        title: format!("{} on {cluster}", module.command_argument()),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            hero(&view, module, request),
            module::reasons(&view.why, module, request),
            failing(&view),
            report_part(view.report.as_ref(), module),
            assigned(view.row.as_ref(), module, request),
            Part::unsplit("conditions", lists::conditions(&view.conditions)),
            commands(&view, module, rolling.url(), &snapshot.namespace),
        ],
    })
}

fn hero(view: &Assignment, module: &ModuleRef, request: &Request) -> Part {
    let cell = &view.cell;
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(cell.shape)) { (parts::glyph(cell.shape)) " " (parts::link(request, &PageLocation::Module(module.clone()), &module.command_argument())) " on "
                (parts::link(request, &PageLocation::unit(module.kind, cell.cluster.clone()), &cell.cluster)) ": " (parts::text(&cell.reason)) }
        }
    };
    Part::unsplit("hero", markup)
}

/// The failing object, and how to inspect it.
fn failing(view: &Assignment) -> Part {
    let object = view.failing.as_ref();
    let markup = html! {
        section #failing hidden[object.is_none()] aria-labelledby="failing-title" {
            h2 #failing-title { "Failing object" }
            @if let Some(ObjectName { kind, namespace, name, says }) = object {
                p.object.failed { (parts::glyph(Shape::Failed)) " " strong { (parts::text(kind)) "/" (parts::text(name)) }
                    @if let Some(namespace) = namespace { " in " (parts::text(namespace)) } }
                (parts::message(says))
                @let at = namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {}", shell_word(namespace)));
                p { (parts::command(&format!("kubectl describe {} {}{at}", shell_word(&kind.to_lowercase()), shell_word(name))))
                    span.faint { " with the kubeconfig of " (parts::text(&view.cell.cluster)) } }
            }
        }
    };
    Part::unsplit("failing", markup)
}

fn report_part(report: Option<&ReportView>, module: &ModuleRef) -> Part {
    let markup = html! {
        section #said aria-labelledby="said-title" {
            h2 #said-title { "Reported by the " (module.kind.unit()) }
            @match report {
                None => { p { "Nothing yet." } }
                Some(report) => {
                    dl.facts {
                        dt { "state" }
                        dd { (report.state) @if !report.is_current { " (about an earlier assignment)" } }
                        @if let Some(class) = report.class { dt { "failure" } dd { (class) @if report.terminal { "; it will not recover by itself" } } }
                        (fact("reason", report.reason.as_deref()))
                        @if let Some(message) = &report.message { dt { "message" } dd.message { (parts::text(message)) } }
                        (fact("plan", report.plan.as_deref()))
                        (fact("last ready commit", report.commit.as_deref()))
                        (fact("confirmed last", report.carries.as_deref()))
                        @if !report.drift.is_empty() { dt { "changed by something else" } dd { (parts::text(&report.drift.join(", "))) } }
                    }
                }
            }
        }
    };
    Part::unsplit("said", markup)
}

fn assigned(row: Option<&RowView>, module: &ModuleRef, request: &Request) -> Part {
    let markup = html! {
        section #assigned aria-labelledby="assigned-title" {
            h2 #assigned-title { "Assigned" }
            @match row {
                None => { p { "Nothing." } }
                Some(row) => {
                    dl.facts {
                        dt { "intent" } dd { (row.intent) }
                        (fact("repository", row.url.as_deref()))
                        (fact("version", row.version.as_deref()))
                        (fact("path", row.path.as_deref()))
                        (fact("commit", row.commit.as_deref()))
                        @if let Some(revision) = &row.revision {
                            @let short: String = revision.chars().take(8).collect();
                            dt { "revision" } dd { (parts::link(request, &PageLocation::Revision(module.clone(), short.clone()), &short)) }
                        }
                        (fact("digest", row.digest.as_deref()))
                        @if let Some(token) = row.token { dt { "token" } dd { (token) } }
                        @if !row.variables.is_empty() { dt { "variables" } dd { (parts::text(&row.variables.join(", "))) } }
                    }
                }
            }
        }
    };
    Part::unsplit("assigned", markup)
}

fn fact(what: &str, value: Option<&str>) -> Markup {
    html! { @if let Some(value) = value { dt { (what) } dd.version { (parts::text(value)) } } }
}

fn commands(view: &Assignment, module: &ModuleRef, url: Option<&str>, namespace: &str) -> Part {
    let (argument, at) = (shell_word(&module.command_argument()), module.within(namespace));
    let (one, several) = match module.kind {
        Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => ("--cluster", "--clusters"),
        Kind::NodeModule => ("--node", "--node"),
    };
    let cluster = shell_word(&view.cell.cluster);
    let group = if module.kind == Kind::ClusterUpgrade {
        muster_api::cluster::GROUP
    } else {
        muster_api::kind::GROUP
    };
    let assemblage = format!("{}s.{group}", view.assemblage.to_lowercase());
    let mut all = vec![
        ("explain", format!("muster why {argument} {one} {cluster}{at}")),
        if view.cell.shape == Shape::Held {
            (
                "release",
                format!("muster release {argument} {several} {cluster}{at}"),
            )
        } else {
            ("hold", format!("muster hold {argument} {several} {cluster}{at}"))
        },
        (
            "as YAML",
            format!("kubectl get {assemblage} {cluster} -o yaml{at}"),
        ),
    ];
    // A version has no content to compare.
    if module.kind != Kind::ClusterUpgrade {
        let compared = diff_command(
            &argument,
            &format!(" {one} {cluster}{at}"),
            url.unwrap_or_default(),
        );
        all.insert(2, ("compare", compared));
    }
    let markup = html! {
        section #commands aria-labelledby="commands-title" {
            h2 #commands-title { "As commands" }
            (parts::commands(all))
        }
    };
    Part::unsplit("commands", markup)
}
