//! The page of a node: its NodeModules with their explanations, its agent, and the agent's reports.

use maud::{Markup, html};

use super::{Page, Part, Request, cluster, layout, lists, parts};
use crate::{
    AgentView, BudgetView, Carried, FleetEvent, Kind, ModuleRef, NodeView, PageLocation, ReportView, Shape,
    Snapshot, shell_word, why,
};

/// Maximum number of events shown.
const EVENTS: usize = 50;

pub(super) fn page(snapshot: &Snapshot, request: &Request, name: &str) -> Option<Page> {
    let view = NodeView::of(snapshot, name)?;
    let is_meant = |event: &FleetEvent| event.is_about_unit(Kind::NodeModule, name);
    let fleet = snapshot.fleet_of(Kind::NodeModule);
    let next = |carried: &Carried| {
        let module = fleet.module(carried.kind, &carried.module);
        let next = module.and_then(|module| why::next_action(module, &carried.cell));
        html! { @if let Some((words, command)) = next { (then(&words, command.as_deref())) } }
    };
    Some(Page {
        title: format!("node {name}"),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            cluster::hero(name, &view.tree),
            facts(&view),
            lists::module_list(&view.modules, Kind::NodeModule, name, request, next),
            conflicts(&view, request),
            reports(&view, request),
            Part::unsplit(
                "events",
                lists::events(&snapshot.objects.events, is_meant, EVENTS, request),
            ),
            commands(&view),
        ],
    })
}

/// What to do about a NodeModule on this node.
fn then(words: &str, command: Option<&str>) -> Markup {
    html! {
        p.next { strong { "Next: " } (parts::text(words)) @if command.is_some() { ":" } }
        @if let Some(command) = command { p { (parts::command(command)) } }
    }
}

fn facts(view: &NodeView) -> Part {
    let markup = html! {
        section #facts {
            dl.facts {
                dt { "Node" } dd { (parts::text(&view.ready)) }
                dt { "agent" } dd { (agent(&view.agent)) }
                @if let Some(configured) = &view.configured { dt { "NodeConfigured" } dd { (parts::text(configured)) } }
                dt { "labels" }
                dd { @for (key, value) in &view.labels { code { (parts::text(key)) "=" (parts::text(value)) } " " } }
                @for (what, description) in &view.controls { dt { (parts::text(what)) } dd { (parts::text(description)) } }
            }
        }
    };
    Part::unsplit("facts", markup)
}

fn agent(agent: &AgentView) -> Markup {
    let AgentView {
        lives,
        version,
        renewed,
        held,
    } = agent;
    let (shape, word) = match lives {
        Some(true) => (Shape::Ready, "lives"),
        Some(false) => (Shape::Unreachable, "AgentMissing"),
        None => (Shape::Unknown, "not known"),
    };
    html! {
        (parts::badge(shape, word))
        @match version {
            Some(version) => { ", version " (parts::text(version)) }
            None => { ", it has not reported yet" }
        }
        @if let Some(renewed) = renewed { ", its Lease was renewed " (parts::time(*renewed)) }
        @if let Some((until, reason)) = held { ", held on the node until " (parts::time(*until)) ": " (parts::text(reason)) }
    }
}

fn conflicts(view: &NodeView, request: &Request) -> Part {
    let markup = html! {
        section #conflicts hidden[view.conflicts.is_empty()] aria-labelledby="conflicts-title" {
            h2 #conflicts-title { "PathConflict" }
            ul.steps {
                @for (module, message) in &view.conflicts {
                    li.failed { (parts::link(request, &PageLocation::Module(of_nodes(module)), module)) (parts::message(message)) }
                }
            }
        }
    };
    Part::unsplit("conflicts", markup)
}

fn of_nodes(name: &str) -> ModuleRef {
    ModuleRef {
        kind: Kind::NodeModule,
        name: name.to_owned(),
    }
}

fn reports(view: &NodeView, request: &Request) -> Part {
    let titles = [
        "NodeModule",
        "State",
        "Reason",
        "Confirmed last",
        "Drift",
        "Message",
    ];
    let markup = html! {
        section #reports.scroll hidden[view.reports.is_empty()] tabindex="0" role="region" aria-labelledby="reports-title" {
            table {
                caption #reports-title { "Last reports of the agent" }
                thead { tr { @for title in titles { th scope="col" { (title) } } } }
                tbody { @for (module, report) in &view.reports { (reported(module, report, &view.name, request)) } }
            }
        }
    };
    Part::unsplit("reports", markup)
}

fn reported(module: &str, report: &ReportView, node: &str, request: &Request) -> Markup {
    let place = PageLocation::Assignment(of_nodes(module), node.to_owned());
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    html! {
        tr {
            th scope="row" { (parts::link(request, &place, module)) }
            td { (report.state) @if !report.is_current { " (about an earlier assignment)" } }
            td { (parts::text(&text(&report.reason))) }
            td.version { (parts::text(&text(&report.carries))) }
            td { (parts::text(&report.drift.join(", "))) }
            td { (parts::text(&text(&report.message))) }
        }
    }
}

fn commands(view: &NodeView) -> Part {
    let name = shell_word(&view.name);
    let is_held = view
        .modules
        .iter()
        .any(|carried| carried.cell.shape == Shape::Held);
    let hold = if is_held {
        ("release", format!("muster release --node {name}"))
    } else {
        ("hold", format!("muster hold --node {name}"))
    };
    let explain = view.modules.first().map(|carried| {
        let argument = shell_word(&carried.kind.address(&carried.module));
        ("explain", format!("muster why {argument} --node {name}"))
    });
    let rest = [
        hold,
        ("with kubectl", format!("kubectl describe node {name}")),
        (
            "rows and reports",
            format!("kubectl get nodeassemblages.fleet.muster.dev {name} -o yaml"),
        ),
        ("on the node itself", "muster node-agent status".to_owned()),
    ];
    let markup = html! {
        section #commands aria-labelledby="commands-title" {
            h2 #commands-title { "As commands" }
            (parts::commands(explain.into_iter().chain(rest)))
        }
    };
    Part::unsplit("commands", markup)
}

/// How many nodes may change at once across all NodeModules, and which are changing.
pub(super) fn budgets(snapshot: &Snapshot, request: &Request) -> Part {
    let objects = &snapshot.objects.nodes;
    let mut budgets = objects.budgets.iter();
    let view = budgets.next().map(|budget| BudgetView::of(budget, objects));
    let markup = html! {
        section #budget hidden[view.is_none()] aria-labelledby="budget-title" {
            h2 #budget-title { "NodeBudget" }
            @if let Some(BudgetView { control_plane, workers, claims }) = &view {
                p.faint {
                    "Changing or not ready at once, across all NodeModules: at most " (control_plane) " of the control plane, "
                    @match workers {
                        Some(workers) => { (workers) " of the others." }
                        None => { "no limit for the others." }
                    }
                }
                @if claims.is_empty() { p { "No node is being changed." } }
                ul { @for (node, module) in claims { li { (claim(node, module.as_deref(), request)) } } }
            }
        }
    };
    Part::unsplit("budget", markup)
}

fn claim(node: &str, module: Option<&str>, request: &Request) -> Markup {
    html! {
        (parts::link(request, &PageLocation::Node(node.to_owned()), node))
        @match module {
            Some(module) => { " by " (parts::link(request, &PageLocation::Module(of_nodes(module)), module)) }
            None => { " by a deleted NodeModule" }
        }
    }
}
