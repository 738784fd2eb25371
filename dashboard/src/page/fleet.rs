//! The page of the fleet: one sentence, what needs attention, and the matrix.

use maud::{Markup, html};

use super::{Page, Part, Piece, Request, layout, node, parts};
use crate::{
    AttentionItem, Cell, Check, Column, Fleet, Kind, Matrix, ModuleRef, ModuleView, Overview, PageLocation,
    Row, Shape, Snapshot, Step, Why,
    words::{counted, shell_word},
};

/// Maximum number of modules that need attention shown in full; the others are in the matrix.
const SHOWN: usize = 12;

/// The fleet of clusters and their modules, or of the nodes of this cluster and their NodeModules.
pub(super) fn page(snapshot: &Snapshot, request: &Request, kind: Kind) -> Page {
    let fleet = snapshot.fleet_of(kind);
    let (shown, refused) = match request.filter.apply(fleet) {
        Ok(shown) => (shown, None),
        Err(refused) => (fleet.clone(), Some(refused.to_string())),
    };
    let overview = Overview::of(&shown);
    let matrix = Matrix::grouped(&shown, &request.group, request.fold_from());
    let mut parts = vec![
        layout::troubles(snapshot),
        hero(&overview, &shown),
        attention(&overview, request),
        form(fleet, request, refused.as_deref()),
        table(&matrix, fleet, request),
        legend(&matrix),
    ];
    match kind {
        Kind::NodeModule => parts.extend([listed(&shown, request), node::budgets(snapshot, request)]),
        _ if snapshot.has_nodes() => parts.push(listed(snapshot.fleet_of(Kind::NodeModule), request)),
        _ => {}
    }
    parts.push(commands(&snapshot.namespace, kind));
    Page {
        title: if kind == Kind::NodeModule {
            "Nodes"
        } else {
            "Fleet"
        }
        .to_owned(),
        is_found: true,
        parts,
    }
}

fn hero(overview: &Overview, fleet: &Fleet) -> Part {
    let size = format!(
        "{} on {}",
        counted(fleet.modules.len(), fleet.kind.word()),
        counted(fleet.clusters.len(), fleet.kind.unit())
    );
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(overview.shape)) { (parts::glyph(overview.shape)) " " (size) ": " (parts::text(&overview.sentence)) }
            ul.counts aria-label=(format!("{} on {}s", fleet.kind.group_title(), fleet.kind.unit())) {
                @for ((shape, word), count) in fleet.counts() {
                    li.(parts::class(shape)) { strong { (count) } " " (parts::badge(shape, word)) }
                }
            }
        }
    };
    Part::unsplit("hero", markup)
}

fn attention(overview: &Overview, request: &Request) -> Part {
    let list = |id: &str, title: &str, concerns: &[AttentionItem]| {
        html! {
            section id=(id) hidden[concerns.is_empty()] aria-labelledby=(format!("{id}-title")) {
                h2 id=(format!("{id}-title")) { (title) }
                ol.concerns { @for concern in concerns.iter().take(SHOWN) { li.(parts::class(concern.shape)) { (about(concern, request)) } } }
                @if concerns.len() > SHOWN { p { "and " (concerns.len() - SHOWN) " more: see the matrix" } }
            }
        }
    };
    let markup = html! {
        div #concerns {
            (list("attention", "Needs attention", &overview.attention))
            (list("moving", "On the way", &overview.moving))
            (list("held", "Held on purpose", &overview.held))
        }
    };
    Part::unsplit("concerns", markup)
}

/// Short description of a module or cluster; its page has the rest.
fn about(concern: &AttentionItem, request: &Request) -> Markup {
    let module = match &concern.about {
        PageLocation::Module(module) => Some(module),
        _ => None,
    };
    let is_held = concern.shape == Shape::Held;
    let steps = concern.why.steps.iter();
    // Held clusters have a card of their own; the waiting ones are explained by the failure.
    let open = steps.filter(|step| step.shape.is_open() && (is_held || step.shape != Shape::Held));
    let is_silent = |step: &Step| step.shape == Shape::Waiting && concern.shape == Shape::Failed;
    html! {
        h3 { (parts::glyph(concern.shape)) " " a.step href=(request.place.link(&concern.about)) { (parts::text(&concern.why.headline)) } }
        ul.steps { @for step in open { li { (self::step(step, module, request)) @if !is_silent(step) { (parts::message(&step.message)) } } } }
        (next_action_markup(&concern.why))
    }
}

/// What to do next, and the command.
pub(super) fn next_action_markup(why: &Why) -> Markup {
    html! {
        @if let Some(next) = &why.next { p.next { strong { "Next: " } (parts::text(next)) @if why.command.is_some() { ":" } } }
        @if let Some(command) = &why.command { p { (parts::command(command)) } }
        @if let Some(choice) = &why.otherwise {
            p.next { strong { "Or: " } (parts::text(&choice.what)) @if choice.command.is_some() { ":" } }
            @if let Some(command) = &choice.command { p { (parts::command(command)) } }
        }
    }
}

/// The checks of the chain, up to the one that blocks.
pub(super) fn checks(checks: &[Check]) -> Markup {
    html! {
        ol.checks {
            @for check in checks {
                li.(parts::class(check.shape)) {
                    @if check.holds { span.glyph title="holds" { "✓" } } @else { (parts::shape(check.shape)) }
                    strong { (check.what) } span.found { (parts::text(&check.found)) }
                }
            }
        }
    }
}

/// The steps of `why`; a step about a single cluster links to its page.
pub(super) fn steps(steps: &[Step], module: &ModuleRef, request: &Request) -> Markup {
    html! { ul.steps { @for step in steps { li { (self::step(step, Some(module), request)) (parts::message(&step.message)) } } } }
}

fn step(step: &Step, module: Option<&ModuleRef>, request: &Request) -> Markup {
    html! {
        (parts::shape(step.shape)) " "
        @match (module, &step.cluster) {
            (Some(module), Some(cluster)) => {
                a.step href=(request.place.link(&PageLocation::Assignment(module.clone(), cluster.clone()))) { (parts::text(&step.who)) }
            }
            _ => { strong { (parts::text(&step.who)) } }
        }
        " " span.reason { (parts::text(&step.reason)) }
        (parts::since(step.since))
    }
}

fn form(fleet: &Fleet, request: &Request, refused: Option<&str>) -> Part {
    let filter = &request.filter;
    let is_plain = filter.is_empty() && !request.unfolded && request.group.is_empty();
    let markup = html! {
        form #filter method="get" role="search" aria-label="Filter" {
            label { "Name " input #search type="search" name="q" value=(parts::text(&filter.text)) autocomplete="off" maxlength="200"; }
            label { "Labels " input type="text" name="label" value=(parts::text(&filter.labels)) placeholder="env=prod,region!=eu" autocomplete="off" maxlength="200"; }
            label { "Group by "
                select name="group" {
                    option value="" { "–" }
                    @for key in Matrix::keys(fleet) { option value=(parts::text(key)) selected[key == request.group] { (parts::text(key)) } }
                }
            }
            label { input type="checkbox" name="only" value="problems" checked[filter.only_problems]; " only problems" }
            label { input type="checkbox" name="fold" value="no" checked[request.unfolded]; " a column for each " (fleet.kind.unit()) }
            button { "Show" }
            @if !is_plain { " " a href="?" { "show all" } }
            @if let Some(refused) = refused { p.trouble role="alert" { (parts::text(refused)) } }
        }
    };
    Part::unsplit("filter", markup)
}

/// The matrix: every cell is a separate piece.
fn table(matrix: &Matrix, fleet: &Fleet, request: &Request) -> Part {
    // The caption has counts, which change with every cell; the frame around the cells does not have to change then.
    let caption = html! { caption #matrix-title { (matrix.total) } };
    let caption = std::iter::once(Piece::new("matrix-title".to_owned(), caption));
    let cells = matrix.rows.iter().flat_map(|row| {
        row.cells.iter().map(move |cell| {
            let id = format!("cell:{}:{}:{}", row.kind, row.module, cell.cluster);
            Piece::new(id.clone(), self::cell(&id, row, cell, request))
        })
    });
    let width = matrix.columns.len();
    Part::of("matrix", caption.chain(cells).collect(), |pieces| {
        let (caption, cells) = pieces.split_at(1);
        html! {
            section #matrix.scroll tabindex="0" role="region" aria-labelledby="matrix-title" {
                @if matrix.rows.is_empty() || matrix.columns.is_empty() {
                    p #matrix-title { (parts::text(&nothing(fleet, request))) }
                } @else {
                    table {
                        @for caption in caption { (caption) }
                        thead {
                            @if !matrix.groups.is_empty() {
                                tr.groups {
                                    th colspan="2" scope="col" { (parts::text(&request.group)) }
                                    @for group in &matrix.groups { th colspan=(group.columns) scope="colgroup" { (parts::text(&group.value)) } }
                                }
                            }
                            tr {
                                th scope="col" { (fleet.kind.title()) }
                                th scope="col" { "Target" }
                                @for column in &matrix.columns { (head(column, fleet.kind, request)) }
                            }
                        }
                        tbody {
                            @for (row, cells) in matrix.rows.iter().zip(cells.chunks(width.max(1))) {
                                tr {
                                    th scope="row" {
                                        (parts::link(request, &PageLocation::Module(ModuleRef { kind: row.kind, name: row.module.clone() }), &row.module))
                                    }
                                    td.version { (parts::text(&row.target)) }
                                    @for cell in cells { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// A single cluster links to its page, a folded column to the unfolded matrix.
fn head(column: &Column, kind: Kind, request: &Request) -> Markup {
    html! {
        @match &column.clusters[..] {
            [only] => { th scope="col" { (parts::link(request, &PageLocation::unit(kind, only.clone()), &column.title)) } }
            several => { th scope="col" title=(parts::text(&several.join(" "))) { a href="?fold=no" { (parts::text(&column.title)) } } }
        }
    }
}

fn nothing(fleet: &Fleet, request: &Request) -> String {
    match (
        fleet.modules.is_empty(),
        fleet.clusters.is_empty(),
        request.filter.is_empty(),
    ) {
        (true, ..) => format!("There is no {} yet.", fleet.kind.word()),
        (_, true, _) => format!("There is no {} yet.", fleet.kind.unit()),
        (.., true) => "There is nothing to show.".to_owned(),
        (.., false) => "Nothing matches the filter.".to_owned(),
    }
}

fn cell(id: &str, row: &Row, cell: &Cell, request: &Request) -> Markup {
    let shape = cell.shape;
    let is_stale = cell
        .version
        .as_ref()
        .is_some_and(|version| *version != row.target);
    let place = PageLocation::Assignment(
        ModuleRef {
            kind: row.kind,
            name: row.module.clone(),
        },
        cell.cluster.clone(),
    );
    html! {
        td id=(parts::text(id)) .cell.(parts::class(shape)).stale[is_stale] {
            a href=(request.place.link(&place)) title=(parts::text(&cell.reason)) {
                (parts::glyph(shape)) " "
                @if shape != Shape::NotSelected || cell.version.is_some() {
                    span.version { (parts::text(cell.version.as_deref().unwrap_or("–"))) }
                }
                span.unseen { ", " (cell.word()) }
            }
        }
    }
}

fn legend(matrix: &Matrix) -> Part {
    let markup = html! {
        ul #legend aria-label="Legend" {
            @for (shape, words) in matrix.legend() { li { (parts::badge(shape, &words)) } }
        }
    };
    Part::unsplit("legend", markup)
}

/// NodeModules with counts; every row is a separate piece.
fn listed(fleet: &Fleet, request: &Request) -> Part {
    let pieces = fleet.modules.iter().map(|view| {
        let id = format!("listed:{}", view.name);
        Piece::new(id.clone(), numbers(&id, view, request))
    });
    let titles = [
        "NodeModule",
        "Status",
        "Revision",
        "Confirmed",
        "In flight",
        "Waiting",
        "Failed",
        "Skipped",
        "Held",
    ];
    Part::of("listed", pieces.collect(), |rows| {
        html! {
            section #listed.scroll tabindex="0" role="region" aria-labelledby="listed-title" {
                table {
                    caption #listed-title { "NodeModules, in numbers of nodes" }
                    thead { tr { @for title in titles { th scope="col" { (title) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    })
}

fn numbers(id: &str, view: &ModuleView, request: &Request) -> Markup {
    let of = &view.summary;
    let place = PageLocation::Module(ModuleRef {
        kind: view.kind,
        name: view.name.clone(),
    });
    html! {
        tr.(parts::class(view.shape())) id=(parts::text(id)) {
            th scope="row" { (parts::link(request, &place, &view.name)) }
            td { (parts::badge(view.shape(), &view.reason)) @if view.paused.is_some() { " " (parts::badge(Shape::Held, "Paused")) } }
            td.version { (parts::text(&view.version)) }
            td { (of.updated) " of " (of.total) }
            @for number in [of.updating + of.withdrawing, of.waiting, of.failed, of.skipped, of.held] { td { (number) } }
        }
    }
}

fn commands(namespace: &str, kind: Kind) -> Part {
    let at = format!("-n {}", shell_word(namespace));
    let all = match kind {
        Kind::NodeModule => [
            ("the matrix", "muster matrix --nodes -w".to_owned()),
            ("in numbers", "muster get nodemodules".to_owned()),
            (
                "with kubectl",
                "kubectl get nodemodules,nodeassemblages,noderevisions".to_owned(),
            ),
        ],
        Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => [
            ("the matrix", format!("muster matrix -w {at}")),
            ("what needs attention", format!("muster tree {at}")),
            (
                "with kubectl",
                format!("kubectl get modules.fleet.muster.dev,bootstrapmodules.fleet.muster.dev {at}"),
            ),
        ],
    };
    let markup = html! {
        section #commands {
            h2 { "As commands" }
            (parts::commands(all))
        }
    };
    Part::unsplit("commands", markup)
}
