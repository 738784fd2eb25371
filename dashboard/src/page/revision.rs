//! The page of a revision: its result, the evidence for it, and the events during its rollout.

use maud::html;
use muster_api::module::Summary;

use super::{
    Page, Part, Request, layout, lists,
    module::{over_time, verdict},
    parts,
};
use crate::{
    FleetEvent, History, Kind, ModuleRef, PageLocation, Past, RevisionOutcome, Snapshot, Timeline, shell_word,
};

/// Maximum number of events shown.
const EVENTS: usize = 200;

pub(super) fn page(snapshot: &Snapshot, request: &Request, module: &ModuleRef, hash: &str) -> Option<Page> {
    let history = History::of_module(&snapshot.objects, module)?;
    let past = history.find(hash).ok()?; // an ambiguous prefix matches none
    let view = snapshot.fleet_of(module.kind).module(module.kind, &module.name)?;
    let rolling = snapshot.objects.module(module)?;
    let run = past.span();
    let timeline =
        run.and_then(|run| Timeline::of(view, &rolling.status, &snapshot.objects.events, run, snapshot.at));
    let is_meant = |event: &FleetEvent| {
        let is_within = run.is_some_and(|run| run.holds(event.at));
        is_within && event.is_about(module)
    };
    Some(Page {
        title: format!("{} at {}", module.command_argument(), past.version),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            hero(past, module, request),
            facts(past, module.kind),
            evidence(past, module, request),
            over_time("Over time", timeline.as_ref(), module.kind),
            Part::unsplit(
                "events",
                lists::events(&snapshot.objects.events, is_meant, EVENTS, request),
            ),
            commands(past, module, &snapshot.namespace),
        ],
    })
}

fn hero(past: &Past, module: &ModuleRef, request: &Request) -> Part {
    let markup = html! {
        section #hero aria-live="polite" {
            h1 { "Revision " code { (past.short_hash()) } " of " (parts::link(request, &PageLocation::Module(module.clone()), &module.command_argument())) ": " (verdict(past.verdict)) }
            p { (meaning(past.verdict, module.kind)) @if past.is_target { " It is what the " (module.kind.word()) " asks for now." } }
        }
    };
    Part::unsplit("hero", markup)
}

fn meaning(verdict: RevisionOutcome, kind: Kind) -> String {
    let unit = kind.unit();
    match verdict {
        RevisionOutcome::Good => format!("It was confirmed on every {unit} that could be changed."),
        RevisionOutcome::Bad => {
            format!("It failed on more {unit}s than allowed, and is not rolled out further.")
        }
        RevisionOutcome::Aborted => "A user ended it; it is not marked as bad.".to_owned(),
        RevisionOutcome::Superseded => "Another revision replaced it before it was done.".to_owned(),
        RevisionOutcome::Running => "It is being rolled out.".to_owned(),
        RevisionOutcome::Pending => "Its rollout has not started.".to_owned(),
    }
}

fn facts(past: &Past, kind: Kind) -> Part {
    let markup = html! {
        section #facts {
            dl.facts {
                dt { "version" } dd.version { (parts::text(&past.version)) }
                @if !past.commit.is_empty() { dt { "commit" } dd.version { (parts::text(&past.commit)) } }
                dt { "revision" } dd.version { (parts::text(&past.revision)) }
                @if let Some(first) = &past.first {
                    dt { "first rollout" }
                    dd {
                        "began " (parts::time(first.started))
                        @if let Some(finished) = first.finished { ", ended " (parts::time(finished)) }
                        @if let Some(verdict) = first.verdict { ": " (verdict.as_str()) }
                        @if let Some(clusters) = &first.clusters { ", " (parts::text(clusters)) " updated" }
                    }
                }
                @if let Some(started) = past.started { dt { "began" } dd { (parts::time(started)) } }
                @if let Some(finished) = past.finished { dt { "ended" } dd { (parts::time(finished)) } }
                @if let Some(counts) = &past.counts_now { dt { (kind.unit()) "s now" } dd { (in_numbers(counts)) } }
                @if let (Some(counts), Some(_)) = (&past.counts, past.finished) { dt { (kind.unit()) "s at its end" } dd { (in_numbers(counts)) } }
            }
        }
    };
    Part::unsplit("facts", markup)
}

fn in_numbers(counts: &Summary) -> String {
    format!(
        "{} updated, {} ready, {} failed, {} waiting, {} skipped, {} held",
        counts.clusters, counts.ready, counts.failed, counts.waiting, counts.skipped, counts.held
    )
}

fn evidence(past: &Past, module: &ModuleRef, request: &Request) -> Part {
    let markup = html! {
        section #evidence hidden[past.evidence.is_empty()] aria-labelledby="evidence-title" {
            h2 #evidence-title { "Evidence" }
            ul.steps {
                @for failure in &past.evidence {
                    li.failed {
                        a.step href=(request.place.link(&PageLocation::Assignment(module.clone(), failure.cluster.clone()))) { (parts::text(&failure.cluster)) }
                        @if let Some(at) = failure.at { " " (parts::time(at)) }
                        p.message { (parts::text(&failure.message)) }
                    }
                }
            }
        }
    };
    Part::unsplit("evidence", markup)
}

fn commands(past: &Past, module: &ModuleRef, namespace: &str) -> Part {
    let (argument, at) = (shell_word(&module.command_argument()), module.within(namespace));
    let (back, revisions) = match module.kind {
        Kind::Module | Kind::BootstrapModule => ("go back to it, in git", "modulerevisions"),
        // A ClusterUpgrade has no revisions, so this page does not exist for it.
        Kind::ClusterUpgrade | Kind::NodeModule => ("show its content, to go back to it", "noderevisions"),
    };
    let short = shell_word(past.short_hash());
    let mut all = vec![(
        "in full",
        format!("muster rollout history {argument} --revision {short}{at}"),
    )];
    match past.verdict {
        RevisionOutcome::Running => all.push(("abort", format!("muster rollout abort {argument}{at}"))),
        RevisionOutcome::Bad | RevisionOutcome::Aborted => {
            all.push((
                "try it again",
                format!("muster rollout retry {argument} --revision {short}{at}"),
            ));
        }
        RevisionOutcome::Good if !past.is_target => {
            all.push((
                back,
                format!("muster rollout undo {argument} --to-revision {short}{at}"),
            ));
        }
        RevisionOutcome::Good | RevisionOutcome::Superseded | RevisionOutcome::Pending => {}
    }
    all.push((
        "as YAML",
        format!(
            "kubectl get {revisions}.fleet.muster.dev {} -o yaml{at}",
            shell_word(&past.name)
        ),
    ));
    let markup = html! {
        section #commands aria-labelledby="commands-title" {
            h2 #commands-title { "As commands" }
            (parts::commands(all))
        }
    };
    Part::unsplit("commands", markup)
}
