//! Promise: views of a large fleet fit a terminal and show each kind of problem. Healthy clusters are never listed one
//! by one.

use muster_dashboard::{Cell, Fleet, Matrix, Member, ModuleView, Shape, Tree, why};

use crate::{explain, matrix, output::When, tree};

/// Number of modules in the fleet.
const MODULES: usize = 20;
/// The most lines that are readable: some for each module, however many clusters there are.
const READABLE: usize = 8 * MODULES;

/// A fleet during a rollout of its first module, with every kind of problem. Names have no consecutive numbers, so that
/// few of them fold.
fn fleet(clusters: usize) -> Fleet {
    let name = |place: usize| {
        format!(
            "shop-{:05x}-{}",
            place * 7919 % 99_991,
            ["eu", "us", "ap"][place % 3]
        )
    };
    let cell = |module: usize, place: usize| {
        let (shape, reason, version) = match (module, place % 50) {
            (0, 0) => (Shape::Failed, "Failed", "v2"),
            (0, 1..10) => (Shape::Ready, "UpToDate", "v2"),
            (0, 10) => (Shape::Updating, "Updating", "v2"),
            (_, 49) => (Shape::Unreachable, "Unreachable", "v1"),
            (0, 48) => (Shape::Held, "Held", "v1"),
            (0, _) => (Shape::Waiting, "Halted", "v1"),
            _ => (Shape::Ready, "UpToDate", "v1"),
        };
        Cell {
            cluster: name(place),
            shape,
            reason: reason.to_owned(),
            version: Some(version.to_owned()),
            since: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            message: match shape {
                Shape::Ready => String::new(),
                _ => format!(
                    "{reason}: the long text at {}, word by word, until it is truncated",
                    name(place)
                ),
            },
        }
    };
    let module = |module: usize| ModuleView {
        kind: muster_dashboard::Kind::Module,
        name: format!("module-{module}"),
        namespace: "default".to_owned(),
        version: if module == 0 { "v2" } else { "v1" }.to_owned(),
        ready: if module == 0 { "False" } else { "True" }.to_owned(),
        reason: if module == 0 { "Failed" } else { "Succeeded" }.to_owned(),
        message: String::new(),
        since: None,
        deleting: false,
        observed: true,
        stalled: module == 0,
        tag_moved: None,
        read_by_flux: false,
        paused: None,
        waits_at: None,
        summary: muster_api::module::Summary::default(),
        cells: (0..clusters).map(|place| cell(module, place)).collect(),
    };
    Fleet {
        kind: muster_dashboard::Kind::Module,
        clusters: (0..clusters)
            .map(|place| Member {
                name: name(place),
                labels: std::collections::BTreeMap::new(),
            })
            .collect(),
        modules: (0..MODULES).map(module).collect(),
    }
}

fn check(what: &str, width: usize, lines: &[String]) {
    let text = lines.join("\n");
    assert!(lines.len() <= READABLE, "{what}: {} lines\n{text}", lines.len());
    for line in lines {
        assert!(
            line.chars().count() <= width,
            "{what}: wider than {width}: {line}"
        );
    }
    for shape in [Shape::Failed, Shape::Unreachable, Shape::Held, Shape::Waiting] {
        assert!(
            text.contains(shape.glyph()),
            "{what}: {shape:?} is not shown\n{text}"
        );
    }
}

fn views_fit(clusters: usize, width: usize) {
    let fleet = fleet(clusters);
    let now = When::Ago("2026-01-02T03:10:05Z".parse().unwrap());
    let first = &fleet.modules[0];
    let matrix = matrix::matrix_lines(&Matrix::of(&fleet, Matrix::FOLD_FROM), width);
    check("matrix", width, &matrix);
    check(
        "tree",
        width,
        &tree::tree_lines(&Tree::fleet(&fleet, "default").root, width, now),
    );
    check(
        "tree of a module",
        width,
        &tree::tree_lines(&Tree::module(first).root, width, now),
    );
    check("why", width, &explain::why_lines(&why(first), width));
}

#[test]
fn at_2000_clusters_and_80_columns() {
    views_fit(2000, 80);
}

#[test]
fn at_2000_clusters_and_160_columns() {
    views_fit(2000, 160);
}

#[test]
fn at_5000_clusters_and_80_columns() {
    views_fit(5000, 80);
}

#[test]
fn at_5000_clusters_and_20_columns() {
    let fleet = fleet(5000);
    let now = When::Ago("2026-01-02T03:10:05Z".parse().unwrap());
    let matrix = matrix::matrix_lines(&Matrix::of(&fleet, Matrix::FOLD_FROM), 20);
    let tree = tree::tree_lines(&Tree::fleet(&fleet, "default").root, 20, now);
    for line in matrix.iter().chain(&tree) {
        assert!(line.chars().count() <= 20, "{line}");
    }
}
