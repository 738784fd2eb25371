//! The page of a module: why it is in its state, its stages, its clusters, its rollout over time, and its history.

use maud::{Markup, html};
use muster_api::{
    node::rollout::{DomainOrder, NodeDomains},
    reasons::Reason,
};

use super::{Page, Part, Piece, Request, chart, fleet, layout, lists, node, parts};
use crate::{
    Cell, History, Kind, Lane, ModuleRef, ModuleView, PageLocation, Past, RevisionOutcome, Rolling, Shape,
    Snapshot, StageView, Timeline, Why, selector, why,
    words::{counted, diff_command, shell_word, without_next},
};

/// Maximum number of clusters shown one by one, the most urgent first.
const CLUSTERS: usize = 500;
/// Maximum number of revisions shown.
const REVISIONS: usize = 100;
/// Maximum number of events shown; the activity page has more.
const EVENTS: usize = 20;
/// Index at which the part with the node budget is inserted.
const BUDGET: usize = 6;

pub(super) fn page(snapshot: &Snapshot, request: &Request, module: &ModuleRef) -> Option<Page> {
    let all = snapshot.fleet_of(module.kind);
    let view = all.module(module.kind, &module.name)?;
    let rolling = snapshot.objects.module(module)?;
    let history = History::of_module(&snapshot.objects, module)?;
    let lane = Lane::of(
        view,
        &all.clusters,
        &rolling.rollout,
        &rolling.status,
        snapshot.at,
    );
    let target = history.revisions.iter().find(|past| past.is_target);
    let began = target.and_then(Past::span);
    let events = &snapshot.objects.events;
    let timeline = began.and_then(|run| Timeline::of(view, &rolling.status, events, run, snapshot.at));
    let domains = snapshot.objects.nodes.module(&module.name);
    let domains = domains.and_then(|found| found.spec.rollout.domains.as_ref());
    let mut parts = vec![
        layout::troubles(snapshot),
        hero(view),
        reasons(&why(view), module, request),
        facts(&rolling, request, module, view, &history),
        controls(&rolling),
        stages(
            &lane,
            module.kind,
            domains.filter(|_| module.kind == Kind::NodeModule),
        ),
        clusters(view, &lane, module, request),
        over_time("This rollout over time", timeline.as_ref(), module.kind),
        revisions(&history, module, request),
        Part::unsplit("conditions", lists::conditions(&rolling.conditions())),
        Part::unsplit(
            "events",
            lists::events(events, |event| event.is_about(module), EVENTS, request),
        ),
        commands(snapshot, view, module, &rolling),
    ];
    if module.kind == Kind::NodeModule {
        parts.insert(BUDGET, node::budgets(snapshot, request));
    }
    Some(Page {
        title: module.command_argument(),
        is_found: true,
        parts,
    })
}

fn hero(view: &ModuleView) -> Part {
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(view.shape())) { (parts::glyph(view.shape())) " " (view.kind) " " (parts::text(&view.name)) " "
                span.version { (parts::text(&view.version)) } ": " (parts::text(&view.reason)) }
            p.faint { (parts::text(&view.summary.clusters)) " " (view.kind.unit()) "s updated" }
            @if !view.observed { p.trouble { "The controller has not observed the current spec yet: this page shows the state for an earlier one." } }
        }
    };
    Part::unsplit("hero", markup)
}

/// The explanation, and what to do next.
pub(super) fn reasons(why: &Why, module: &ModuleRef, request: &Request) -> Part {
    let markup = html! {
        section #why aria-labelledby="why-title" {
            h2 #why-title { "Why" }
            @if why.checks.is_empty() { (fleet::steps(&why.steps, module, request)) } @else { (fleet::checks(&why.checks)) }
            (fleet::next_action_markup(why))
        }
    };
    Part::unsplit("why", markup)
}

fn facts(
    rolling: &Rolling<'_>,
    request: &Request,
    module: &ModuleRef,
    view: &ModuleView,
    history: &History,
) -> Part {
    let selector = selector::in_words(rolling.selector, module.kind);
    let title = match module.kind {
        Kind::Module | Kind::BootstrapModule => "Source and selector",
        Kind::ClusterUpgrade => "Version and selector",
        Kind::NodeModule => "Revision and selector",
    };
    let target = history.revisions.iter().find(|past| past.is_target);
    let selected = view
        .cells
        .iter()
        .filter(|cell| cell.shape != Shape::NotSelected)
        .count();
    let markup = html! {
        section #facts aria-labelledby="facts-title" {
            h2 #facts-title { (title) }
            dl.facts {
                @if let Some(url) = rolling.url() { dt { "repository" } dd { (parts::text(url)) } }
                @if let Some(source) = &rolling.status.source { dt { "commit" } dd.version { (parts::text(&source.commit)) } }
                @if let Some(target) = target {
                    dt { "revision" }
                    dd { (parts::link(request, &PageLocation::Revision(module.clone(), target.short_hash().to_owned()), target.short_hash())) ": " (target.verdict.as_str()) }
                }
                dt { "selects" }
                dd { code { (parts::text(&selector)) } ": " (selected) " of " (counted(view.cells.len(), module.kind.unit())) }
            }
        }
    };
    Part::unsplit("facts", markup)
}

fn controls(rolling: &Rolling<'_>) -> Part {
    let controls = &rolling.status.controls;
    let markup = html! {
        section #controls hidden[controls.is_empty()] aria-labelledby="controls-title" {
            h2 #controls-title { "Controls" }
            ul {
                @for control in controls {
                    li { code { (parts::text(&control.control)) }
                        @if let Some(cluster) = &control.cluster { " on " (parts::text(cluster)) }
                        ": " (control.effect.as_str()) ": " (parts::text(&control.message)) }
                }
            }
        }
    };
    Part::unsplit("controls", markup)
}

fn stages(lane: &Lane, kind: Kind, domains: Option<&NodeDomains>) -> Part {
    let markup = html! {
        section #stages aria-labelledby="stages-title" {
            h2 #stages-title { "Stages" }
            p.faint {
                "At most " (lane.limit) " updating at a time; " (lane.failed) " failed of " (lane.may_fail) " allowed"
                @if let Some((size, left)) = lane.batch { "; batch of " (size) ", " (left) " not begun" }
                "."
                @if let Some(domains) = domains { " " (parts::text(&in_words(domains))) }
            }
            ol.lane { @for stage in &lane.stages { (self::stage(stage, kind, lane.stages.len() == 1)) } }
        }
    };
    Part::unsplit("stages", markup)
}

/// The order in which racks, zones or other domains are changed.
fn in_words(domains: &NodeDomains) -> String {
    let NodeDomains {
        key,
        order,
        values,
        at_once,
        limit,
    } = domains;
    let order = match order {
        DomainOrder::None => "in no particular order".to_owned(),
        DomainOrder::Name => "by name".to_owned(),
        DomainOrder::Listed => format!("in the order {}", values.join(", ")),
    };
    let limit = limit.map_or_else(String::new, |limit| {
        let nodes = counted(usize::try_from(limit).unwrap_or(usize::MAX), "node");
        format!(", at most {nodes} of each")
    });
    format!("Domains of the label {key} {order}, {at_once} at a time{limit}.")
}

fn stage(stage: &StageView, kind: Kind, is_only: bool) -> Markup {
    let rest = if is_only {
        format!("all {}s", kind.unit())
    } else {
        "all others".to_owned()
    };
    let name = stage.name.as_deref().unwrap_or(&rest);
    html! {
        li.(stage.state.as_str()) {
            h3 { (parts::badge(stage.state.shape(), stage.state.as_str())) " " (parts::text(name)) }
            p title=(parts::text(&stage.clusters.join(" "))) {
                (counted(stage.clusters.len(), kind.unit()))
                @for (shape, count) in &stage.counts { " " (parts::badge(*shape, &format!("{count} {}", shape.word()))) }
            }
            @if !stage.conditions.is_empty() {
                p.faint { "Before the next:" }
                ul {
                    @for condition in &stage.conditions {
                        li { span.glyph { (if condition.holds { "✓" } else { "…" }) } " " (parts::text(&condition.text))
                            @if let Some(until) = condition.until { ", over " (parts::time(until)) } }
                    }
                }
            }
        }
    }
}

/// The clusters in the order of the rollout; every row is a separate piece.
fn clusters(view: &ModuleView, lane: &Lane, module: &ModuleRef, request: &Request) -> Part {
    let stage_of = |cluster: &str| {
        lane.stages
            .iter()
            .position(|stage| stage.clusters.iter().any(|name| name == cluster))
    };
    let selected = view
        .cells
        .iter()
        .filter(|cell| cell.shape != Shape::NotSelected || cell.version.is_some());
    let mut cells: Vec<&Cell> = selected.collect();
    let all = cells.len();
    if all > CLUSTERS {
        cells.sort_by_key(|cell| cell.shape.urgency());
        cells.truncate(CLUSTERS);
    }
    let mut placed: Vec<(Option<usize>, &Cell)> = cells
        .into_iter()
        .map(|cell| (stage_of(&cell.cluster), cell))
        .collect();
    placed.sort_by_key(|(stage, cell)| (stage.unwrap_or(usize::MAX), &cell.cluster));
    let is_staged = lane.stages.iter().any(|stage| stage.name.is_some());
    let mut before: Option<&Cell> = None;
    let pieces = placed.into_iter().map(|(stage, cell)| {
        let id = format!("on:{}", cell.cluster);
        let name = stage.and_then(|place| lane.stages.get(place)?.name.as_deref());
        let place = PageLocation::Assignment(module.clone(), cell.cluster.clone());
        let is_same = before.is_some_and(|before| !cell.message.is_empty() && before.message == cell.message);
        before = Some(cell);
        let row = html! {
            tr.(parts::class(cell.shape)) id=(parts::text(&id)) {
                th scope="row" { a.step href=(request.place.link(&place)) { (parts::text(&cell.cluster)) } }
                @if is_staged { td { (parts::text(name.unwrap_or("–"))) } }
                td { (parts::badge(cell.shape, &cell.reason)) }
                td.version { (parts::text(cell.version.as_deref().unwrap_or("–"))) }
                td { @if let Some(since) = cell.since { (parts::time(since)) } }
                td { @if is_same { span.faint { "as above" } } @else { (parts::text(without_next(&cell.message))) } }
            }
        };
        Piece::new(id, row)
    });
    Part::of("clusters", pieces.collect(), |rows| {
        html! {
            section #clusters.scroll tabindex="0" role="region" aria-labelledby="clusters-title" {
                table {
                    caption #clusters-title { (module.kind.unit_kind()) "s, in rollout order" }
                    thead {
                        tr {
                            th scope="col" { (module.kind.unit_kind()) }
                            @if is_staged { th scope="col" { "Stage" } }
                            @for title in ["Status", "Version", "Since", "Message"] { th scope="col" { (title) } }
                        }
                    }
                    tbody { @for row in rows { (row) } }
                }
                @if all > CLUSTERS { p { "and " (all - CLUSTERS) " more, less urgent: see the matrix" } }
            }
        }
    })
}

/// A rollout over time, if anything is known of it.
pub(super) fn over_time(title: &str, timeline: Option<&Timeline>, kind: Kind) -> Part {
    let markup = html! {
        section #timeline hidden[timeline.is_none()] aria-labelledby="timeline-title" {
            h2 #timeline-title { (title) }
            @if let Some(timeline) = timeline { (chart::draw(timeline, kind)) }
        }
    };
    Part::unsplit("timeline", markup)
}

fn revisions(history: &History, module: &ModuleRef, request: &Request) -> Part {
    // Content without a commit is named by its hash.
    let is_of_git = module.kind != Kind::NodeModule;
    let units = format!("{}s", module.kind.unit_kind());
    let (now, at_end) = (format!("{units} now"), format!("{units} at its end"));
    let markup = html! {
        section #revisions.scroll hidden[module.kind == Kind::ClusterUpgrade] tabindex="0" role="region" aria-labelledby="revisions-title" {
            table {
                caption #revisions-title { "Revisions, newest first" }
                thead {
                    tr {
                        th scope="col" { "Revision" }
                        @if is_of_git { th scope="col" { "Version" } th scope="col" { "Commit" } }
                        @for title in ["Verdict", &now, &at_end, "Began", "Ended", "Evidence"] { th scope="col" { (title) } }
                    }
                }
                tbody {
                    @for past in history.revisions.iter().take(REVISIONS) {
                        tr {
                            th scope="row" {
                                (parts::link(request, &PageLocation::Revision(module.clone(), past.short_hash().to_owned()), past.short_hash()))
                                @if past.is_target { " (target)" }
                            }
                            @if is_of_git {
                                td.version { (parts::text(&past.version)) }
                                td.version title=(parts::text(&past.commit)) { (parts::text(past.commit.get(..8).unwrap_or(&past.commit))) }
                            }
                            td { (verdict(past.verdict)) }
                            td { @if let Some(counts) = &past.counts_now { (parts::text(&counts.clusters)) } }
                            td { @if let (Some(counts), Some(_)) = (&past.counts, past.finished) { (parts::text(&counts.clusters)) } }
                            td { @if let Some(started) = past.started { (parts::time(started)) } }
                            td { @if let Some(finished) = past.finished { (parts::time(finished)) } }
                            td { @if let Some(failure) = past.evidence.first() { (parts::text(&failure.cluster)) ": " (parts::text(&failure.message)) } }
                        }
                    }
                }
            }
        }
    };
    Part::unsplit("revisions", markup)
}

/// A verdict with its shape.
pub(super) fn verdict(verdict: RevisionOutcome) -> Markup {
    let shape = match verdict {
        RevisionOutcome::Good => Shape::Ready,
        RevisionOutcome::Bad => Shape::Failed,
        RevisionOutcome::Running => Shape::Updating,
        RevisionOutcome::Aborted => Shape::Held,
        RevisionOutcome::Pending | RevisionOutcome::Superseded => Shape::Waiting,
    };
    parts::badge(shape, verdict.as_str())
}

/// Commands for the user: only those that apply in the current state.
fn commands(snapshot: &Snapshot, view: &ModuleView, module: &ModuleRef, rolling: &Rolling<'_>) -> Part {
    let (argument, at) = (
        shell_word(&module.command_argument()),
        module.within(&snapshot.namespace),
    );
    let kind = format!("{}.fleet.muster.dev", module.kind.as_str().to_lowercase());
    let name = shell_word(&module.name);
    let mut all = vec![
        ("explain", format!("muster why {argument}{at}")),
        ("follow", format!("muster rollout status {argument}{at}")),
    ];
    let is = |reason: Reason| view.cells.iter().any(|cell| cell.reason == reason.as_str());
    match (&view.paused, view.cells.iter().any(|cell| cell.shape.is_open())) {
        (Some(_), _) => all.push(("resume", format!("muster rollout resume {argument}{at}"))),
        (None, true) => all.push(("pause", format!("muster rollout pause {argument}{at}"))),
        (None, false) => {}
    }
    if let Some(stage) = &view.waits_at {
        let stage = shell_word(stage);
        if is(Reason::WaitingApproval) {
            all.push((
                "approve",
                format!("muster rollout approve {argument} --stage {stage}{at}"),
            ));
        }
        all.push((
            "skip soak and gates",
            format!("muster rollout promote {argument} --stage {stage}{at}"),
        ));
    }
    if is(Reason::Halted) || is(Reason::KnownBad) || is(Reason::Aborted) {
        let back = match rolling.kind {
            Kind::Module | Kind::BootstrapModule => Some("go back, in git"),
            Kind::NodeModule => Some("show the last good content"),
            // A version cannot be rolled back.
            Kind::ClusterUpgrade => None,
        };
        all.extend(back.map(|back| (back, format!("muster rollout undo {argument}{at}"))));
        all.push(("try again", format!("muster rollout retry {argument}{at}")));
    }
    let compare = match module.kind {
        Kind::Module | Kind::BootstrapModule => Some("compare with the clusters"),
        Kind::NodeModule => Some("compare with the nodes"),
        Kind::ClusterUpgrade => None,
    };
    if rolling.selector.is_some()
        && let Some(compare) = compare
    {
        all.push((
            compare,
            diff_command(&argument, &at, rolling.url().unwrap_or_default()),
        ));
    }
    if rolling.url().is_some() {
        all.push(("look now", format!("muster reconcile {argument}{at}")));
    }
    all.push(("as YAML", format!("kubectl get {kind} {name} -o yaml{at}")));
    let markup = html! {
        section #commands aria-labelledby="commands-title" {
            h2 #commands-title { "As commands" }
            (parts::commands(all))
        }
    };
    Part::unsplit("commands", markup)
}
