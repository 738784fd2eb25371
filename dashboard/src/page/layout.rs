//! The frame of every page: header, navigation, read errors, and footer.

use maud::{DOCTYPE, Markup, html};

use super::{Page, Part, Request, parts};
use crate::{Kind, PageLocation, Snapshot};

/// Refresh interval without a script, in seconds.
const REFRESH: &str = "15";
/// Maximum number of read errors listed; more are counted.
const SHOWN: usize = 5;

/// URLs of the assets, relative to the root of the dashboard.
#[derive(Clone, Copy, Debug)]
pub struct Assets<'a> {
    /// The style sheet.
    pub style: &'a str,
    /// The script.
    pub script: &'a str,
    /// The favicon.
    pub sign: &'a str,
    /// Build identifier of the style sheet and script: a page of another build reloads itself.
    pub build: &'a str,
}

/// Renders a page as an HTML document.
pub fn render_document(
    page: &Page,
    request: &Request,
    query: &str,
    snapshot: &Snapshot,
    assets: Assets<'_>,
) -> Markup {
    let root = request.place.root();
    let stream = format!("{root}events/{}", request.place.path());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (parts::text(&page.title)) " · muster" }
                link rel="stylesheet" href=(format!("{root}{}", assets.style));
                link rel="icon" type="image/svg+xml" href=(format!("{root}{}", assets.sign));
                script src=(format!("{root}{}", assets.script)) defer {}
                noscript { meta http-equiv="refresh" content=(REFRESH); }
            }
            body data-stream=(stream) data-query=(query) data-version=(page.version()) data-build=(assets.build) {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.brand href=(root) { (sign()) "muster" }
                    nav aria-label="Pages" {
                        (tab(request, &PageLocation::Fleet, "Fleet"))
                        @if snapshot.has_nodes() && snapshot.home() != Kind::NodeModule { (tab(request, &PageLocation::Nodes, "Nodes")) }
                        (tab(request, &PageLocation::Activity, "Activity"))
                        @if !snapshot.objects.zones.is_empty() { (tab(request, &PageLocation::Zones, "Zones")) }
                        @if !snapshot.objects.update_plans.is_empty() { (tab(request, &PageLocation::Machines, "Machines")) }
                    }
                    p.where { "namespace " strong { (parts::text(&snapshot.namespace)) } }
                    p #live role="status" { noscript { "reloaded every " (REFRESH) " s" } }
                }
                main #main tabindex="-1" { @for part in &page.parts { (part.markup()) } }
                footer {
                    p { "muster " (env!("CARGO_PKG_VERSION")) ". Read-only: make changes in git or with the muster command." }
                    p.keys hidden { kbd { "/" } " search " kbd { "j" } " " kbd { "k" } " next, previous " kbd { "g" } " fleet " kbd { "?" } " all keys" }
                }
                dialog #keys aria-label="Keys" {
                    h2 { "Keys" }
                    dl {
                        dt { kbd { "/" } } dd { "to the search" }
                        dt { kbd { "j" } " " kbd { "k" } } dd { "next, previous item; " kbd { "Enter" } " opens it" }
                        dt { kbd { "g" } } dd { "to the fleet" }
                        dt { kbd { "Esc" } } dd { "leave the search" }
                        dt { kbd { "?" } } dd { "this help" }
                    }
                    form method="dialog" { button { "Close" } }
                }
            }
        }
    }
}

/// The logo: three clusters, the last one pending.
fn sign() -> Markup {
    html! {
        svg viewBox="0 0 16 8" width="28" height="14" aria-hidden="true" {
            circle.ready cx="2.5" cy="4" r="2.2" {}
            circle.updating cx="8" cy="4" r="2.2" {}
            circle cx="13.2" cy="4" r="1.8" {}
        }
    }
}

fn tab(request: &Request, to: &PageLocation, words: &str) -> Markup {
    let current = (request.place == *to).then_some("page");
    html! { a href=(request.place.link(to)) aria-current=[current] { (words) } }
}

/// The first part of every page: read errors, if any.
pub(super) fn troubles(snapshot: &Snapshot) -> Part {
    let troubles = &snapshot.troubles;
    let markup = html! {
        div #troubles {
            @if !snapshot.is_complete {
                p.trouble role="alert" { "The fleet is still loading; this page is incomplete." }
            }
            @if !troubles.is_empty() {
                section.trouble role="alert" aria-label="Read errors" {
                    h2 { "Some data could not be read: this page may be out of date" }
                    ul {
                        @for trouble in troubles.iter().take(SHOWN) {
                            li { strong { (parts::text(&trouble.what)) } " since " (parts::time(trouble.since)) ": " (parts::text(&trouble.message)) }
                        }
                        @if troubles.len() > SHOWN { li { "and " (troubles.len() - SHOWN) " more" } }
                    }
                }
            }
        }
    };
    Part::unsplit("troubles", markup)
}

/// The page for something that does not exist.
pub(super) fn missing(snapshot: &Snapshot, request: &Request) -> Page {
    let what = match &request.place {
        PageLocation::Fleet
        | PageLocation::Nodes
        | PageLocation::Activity
        | PageLocation::Zones
        | PageLocation::Machines => "page".to_owned(),
        PageLocation::Module(module) => module.command_argument(),
        PageLocation::Revision(module, hash) => format!("revision {hash} of {}", module.command_argument()),
        PageLocation::Assignment(module, cluster) => {
            format!(
                "{} on a {} {cluster}",
                module.command_argument(),
                module.kind.unit()
            )
        }
        PageLocation::Cluster(name) => format!("cluster {name}"),
        PageLocation::Node(name) => format!("node {name}"),
    };
    let markup = html! {
        section #missing {
            h1 { "There is no " (parts::text(&what)) }
            p { "Namespace " (parts::text(&snapshot.namespace)) " does not have it, or it was deleted. " (parts::link(request, &PageLocation::Fleet, "The fleet")) }
        }
    };
    Page {
        title: "Not found".to_owned(),
        is_found: false,
        parts: vec![troubles(snapshot), Part::unsplit("missing", markup)],
    }
}
