//! The activity page: events of the fleet, newest first.

use maud::html;

use super::{Page, Part, Request, layout, lists, parts};
use crate::{FleetEvent, Snapshot, shell_word};

/// Maximum number of events shown.
const EVENTS: usize = 300;

pub(super) fn page(snapshot: &Snapshot, request: &Request) -> Page {
    let text = request.filter.text.trim().to_lowercase();
    let is_meant = |event: &FleetEvent| {
        let has = |part: &str| part.to_lowercase().contains(&text);
        let is_named = text.is_empty()
            || [&event.name, &event.reason, &event.note]
                .into_iter()
                .any(|part| has(part));
        is_named && (event.warning || !request.filter.only_problems)
    };
    let hero = html! { section #hero { h1 { "Activity" } } };
    let markup = html! {
        form #filter method="get" role="search" aria-label="Filter events" {
            label { "Text " input #search type="search" name="q" value=(parts::text(&request.filter.text)) autocomplete="off" maxlength="200"; }
            label { input type="checkbox" name="only" value="problems" checked[request.filter.only_problems]; " only warnings" }
            button { "Show" }
            @if !request.filter.is_empty() { " " a href="?" { "show all" } }
        }
    };
    let at = shell_word(&snapshot.namespace);
    let follow = format!("muster events -w -n {at}");
    let command = format!("kubectl get events.events.k8s.io --sort-by=.metadata.creationTimestamp -n {at}");
    let commands = html! {
        section #commands aria-labelledby="commands-title" { h2 #commands-title { "As commands" } (parts::commands([("follow", follow), ("with kubectl", command)])) }
    };
    Page {
        title: "Activity".to_owned(),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            Part::unsplit("hero", hero),
            Part::unsplit("filter", markup),
            Part::unsplit(
                "events",
                lists::events(&snapshot.objects.events, is_meant, EVENTS, request),
            ),
            Part::unsplit("commands", commands),
        ],
    }
}
