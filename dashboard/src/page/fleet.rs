//! The page of the fleet: one sentence, what needs attention, and the matrix.

use maud::{Markup, html};

use super::{Page, Part, Piece, Request, layout, parts};
use crate::{
    Cell, Concern, Filter, Fleet, Matrix, ModuleRef, Overview, Place, Row, Shape, Snapshot, Step, Why,
};

/// Modules that need attention and are shown in full; more are named in the matrix.
const SHOWN: usize = 12;

pub fn page(snapshot: &Snapshot, request: &Request) -> Page {
    let fleet = snapshot.fleet();
    let overview = Overview::of(fleet);
    let (shown, refused) = match request.filter.apply(fleet) {
        Ok(shown) => (shown, None),
        Err(refused) => (fleet.clone(), Some(refused.to_string())),
    };
    let fold_from = if request.unfolded {
        usize::MAX
    } else {
        Matrix::FOLD_FROM
    };
    let matrix = Matrix::of(&shown, fold_from);
    Page {
        title: "Fleet".to_owned(),
        is_found: true,
        parts: vec![
            layout::troubles(snapshot),
            hero(&overview),
            attention(&overview, request),
            form(&request.filter, request, refused.as_deref()),
            table(&matrix, fleet, request),
            legend(&matrix),
            commands(&snapshot.namespace),
        ],
    }
}

fn hero(overview: &Overview) -> Part {
    let markup = html! {
        section #hero aria-live="polite" {
            h1.(parts::class(overview.shape)) { (parts::glyph(overview.shape)) " " (parts::text(&overview.headline)) }
        }
    };
    Part::whole("hero", markup)
}

fn attention(overview: &Overview, request: &Request) -> Part {
    let list = |id: &str, title: &str, concerns: &[Concern]| {
        html! {
            section id=(id) hidden[concerns.is_empty()] aria-labelledby=(format!("{id}-title")) {
                h2 id=(format!("{id}-title")) { (title) }
                ol.concerns { @for concern in concerns.iter().take(SHOWN) { li { (about(concern, request)) } } }
                @if concerns.len() > SHOWN { p { "and " (concerns.len() - SHOWN) " more: see the matrix" } }
            }
        }
    };
    let markup = html! {
        div #concerns {
            (list("attention", "Needs attention", &overview.attention))
            (list("moving", "On the way", &overview.moving))
        }
    };
    Part::whole("concerns", markup)
}

fn about(concern: &Concern, request: &Request) -> Markup {
    let module = ModuleRef {
        kind: concern.kind,
        name: concern.module.clone(),
    };
    html! {
        h3.(parts::class(concern.shape)) {
            (parts::glyph(concern.shape)) " "
            a.step href=(request.place.link(&Place::Module(module.clone()))) { (parts::text(&concern.why.headline)) }
        }
        (steps(&concern.why.steps, &module, request))
        (next(&concern.why))
    }
}

/// What to do next, and the command for that.
pub fn next(why: &Why) -> Markup {
    html! {
        @if let Some(next) = &why.next { p.next { "Next: " (parts::text(next)) } }
        @if let Some(command) = why.command() { p { (parts::command(command)) } }
    }
}

/// The chain of `why`; a step about one cluster leads to it.
pub fn steps(steps: &[Step], module: &ModuleRef, request: &Request) -> Markup {
    html! {
        ul.steps {
            @for step in steps {
                li.(parts::class(step.shape)) {
                    (parts::shape(step.shape)) " "
                    @if let Some(cluster) = &step.cluster {
                        a.step href=(request.place.link(&Place::Assignment(module.clone(), cluster.clone()))) { (parts::text(&step.who)) }
                    } @else { strong { (parts::text(&step.who)) } }
                    " " span.reason { (parts::text(&step.reason)) }
                    (parts::since(step.since))
                    @if !step.message.is_empty() { p.message { (parts::text(&step.message)) } }
                }
            }
        }
    }
}

fn form(filter: &Filter, request: &Request, refused: Option<&str>) -> Part {
    let markup = html! {
        form #filter method="get" role="search" aria-label="What of the fleet is shown" {
            label { "Name " input #search type="search" name="q" value=(parts::text(&filter.text)) autocomplete="off" maxlength="200"; }
            label { "Labels " input type="text" name="label" value=(parts::text(&filter.labels)) placeholder="env=prod,region!=eu" autocomplete="off" maxlength="200"; }
            label { input type="checkbox" name="only" value="problems" checked[filter.only_problems]; " only problems" }
            label { input type="checkbox" name="fold" value="no" checked[request.unfolded]; " every cluster" }
            button { "Show" }
            @if !filter.is_empty() || request.unfolded { " " a href="?" { "show all" } }
            @if let Some(refused) = refused { p.trouble role="alert" { (parts::text(refused)) } }
        }
    };
    Part::whole("filter", markup)
}

/// The matrix: every cell is a piece of its own.
fn table(matrix: &Matrix, fleet: &Fleet, request: &Request) -> Part {
    // The caption counts: it changes with every cell, and the frame around the cells need not.
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
                    p #matrix-title { (nothing(fleet, request)) }
                } @else {
                    table {
                        @for caption in caption { (caption) }
                        thead {
                            tr {
                                th scope="col" { "Module" }
                                th scope="col" { "Target" }
                                @for column in &matrix.columns {
                                    @let names = column.clusters.join(" ");
                                    th scope="col" title=[(column.clusters.len() > 1).then(|| parts::text(&names))] {
                                        @match &column.clusters[..] {
                                            [only] => { (parts::link(request, &Place::Cluster(only.clone()), &column.title)) }
                                            _ => { (parts::text(&column.title)) }
                                        }
                                    }
                                }
                            }
                        }
                        tbody {
                            @for (row, cells) in matrix.rows.iter().zip(cells.chunks(width.max(1))) {
                                tr {
                                    th scope="row" {
                                        (parts::link(request, &Place::Module(ModuleRef { kind: row.kind, name: row.module.clone() }), &row.module))
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

fn nothing(fleet: &Fleet, request: &Request) -> &'static str {
    match (
        fleet.modules.is_empty(),
        fleet.clusters.is_empty(),
        request.filter.is_empty(),
    ) {
        (true, ..) => "There is no module yet.",
        (_, true, _) => "There is no cluster yet.",
        (.., true) => "There is nothing to show.",
        (.., false) => "Nothing of the fleet is as the filter asks.",
    }
}

fn cell(id: &str, row: &Row, cell: &Cell, request: &Request) -> Markup {
    let shape = cell.shape;
    let is_stale = cell
        .version
        .as_ref()
        .is_some_and(|version| *version != row.target);
    let place = Place::Assignment(
        ModuleRef {
            kind: row.kind,
            name: row.module.clone(),
        },
        cell.cluster.clone(),
    );
    html! {
        td id=(parts::text(id)) .cell.(parts::class(shape)).stale[is_stale] {
            @if shape == Shape::NotSelected && cell.version.is_none() {
                (parts::glyph(shape)) span.unseen { (shape.word()) }
            } @else {
                a href=(request.place.link(&place)) title=(parts::text(&cell.reason)) {
                    (parts::glyph(shape)) " "
                    span.version { (parts::text(cell.version.as_deref().unwrap_or("–"))) }
                    span.unseen { ", " (shape.word()) }
                }
            }
        }
    }
}

fn legend(matrix: &Matrix) -> Part {
    let used = |shape: &Shape| {
        matrix
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .any(|cell| cell.shape == *shape)
    };
    let markup = html! {
        ul #legend aria-label="Legend" {
            @for shape in Shape::ALL.into_iter().filter(used) { li { (parts::badge(shape, shape.word())) } }
        }
    };
    Part::whole("legend", markup)
}

fn commands(namespace: &str) -> Part {
    let at = format!("-n {}", parts::word(namespace));
    let markup = html! {
        section #commands {
            h2 { "As commands" }
            (parts::commands([
                ("the matrix", format!("muster matrix -w {at}")),
                ("what needs attention", format!("muster tree {at}")),
                ("by kubectl", format!("kubectl get modules.fleet.muster.dev {at}")),
            ]))
        }
    };
    Part::whole("commands", markup)
}
