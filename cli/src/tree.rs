//! `muster tree`: the fleet, a module or a cluster as a tree, problems in full.

use std::ops::ControlFlow;

use clap::Args;
use muster_controllers::runtime::Clock;
use muster_dashboard::{Branch, Tree};
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    name::Top,
    top,
};

use crate::{
    exit::DONE,
    flags::View,
    output::{self, Out, When},
    show,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster tree                     all modules: what needs attention in full, the rest on one line
  muster tree module/podinfo      one module and its clusters
  muster tree cluster/eu-1        one cluster and its modules
  muster tree nodemodule/fabric   a NodeModule and the nodes of this cluster
  muster tree -w                  as it changes, until Ctrl-C
  muster tree -A                  of each namespace that has modules
  muster tree -o json | jq .root";

/// Titles of the columns beside the name.
const OTHERS: [&str; 3] = ["VERSION", "STATUS", "SINCE"];
/// Minimum width of the name column.
const NAME: usize = 12;
/// Below this width there are no columns.
const LEAST: usize = 40;
const MESSAGE: &str = "MESSAGE";
/// The most lines of a message that is printed below its branch.
const LINES_OF_A_MESSAGE: usize = 3;

/// Show the fleet, a module or a cluster as a tree: problems in full, clusters in the same state grouped
///
/// With -o json: `schema` (`tree/v1`) and `root`; each branch has kind, names, shape (the state), version, reason,
/// since, message and branches.
///
/// Exit codes: 0 printed, 2 could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct TreeFlags {
    /// The root of the tree: fleet, a module (module/NAME or NAME), bootstrapmodule/NAME, nodemodule/NAME or
    /// cluster/NAME
    #[arg(default_value_t = Top::Fleet)]
    pub top: Top,
    /// Show each change until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// The fleets of all namespaces that have modules
    #[arg(short = 'A', long, conflicts_with_all = ["top", "watch", "output"])]
    pub all_namespaces: bool,
    /// Output format: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Prints a tree once, or again at each change.
pub(crate) async fn run(cluster: &Target, flags: &TreeFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let now = || Clock::system().now();
    if flags.watch {
        let mut live = out.live();
        if flags.top.is_of_nodes() {
            return fleet::nodes::watch_nodes(&client, out, |_, fleet| {
                let tree = top::tree(fleet, &flags.top, &namespace)?;
                live.show(tree_lines(&tree.root, out.width(), out.when(now())))?;
                Ok(ControlFlow::Continue(()))
            })
            .await;
        }
        return show::watch(&client, &namespace, out, |snapshot| {
            let tree = top::tree(snapshot.fleet(), &flags.top, &namespace)?;
            live.show(tree_lines(&tree.root, out.width(), out.when(now())))?;
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    if flags.all_namespaces {
        for namespace in fleet::namespaces(&client).await? {
            let tree = Tree::fleet(&fleet::read(&client, &namespace).await?, &namespace);
            out.lines(&tree_lines(&tree.root, out.width(), When::Ago(now())))?;
        }
        return Ok(DONE);
    }
    let tree = top::tree(
        &top::read(&client, &namespace, &flags.top).await?,
        &flags.top,
        &namespace,
    )?;
    match flags.output {
        View::Json => out.json(&tree)?,
        View::Table => out.lines(&tree_lines(&tree.root, out.width(), When::Ago(now())))?,
    }
    Ok(DONE)
}

/// A branch with its guides.
struct Drawn<'a> {
    branch: &'a Branch,
    /// The guides before its title.
    before: String,
    /// The guides below its title.
    below: String,
}

/// The tree as lines of at most `width` characters. A message is printed beside its branch if all of it fits, else
/// below.
pub(crate) fn tree_lines(root: &Branch, width: usize, when: When) -> Vec<String> {
    let mut drawn = Vec::new();
    draw(root, String::new(), "", &mut drawn);
    if width < LEAST {
        return drawn.iter().flat_map(|drawn| narrow(drawn, width)).collect();
    }
    let columns = columns(&drawn, width, when);
    let used = columns.iter().map(|line| line.chars().count()).max().unwrap_or(0) + output::GAP;
    let fits = |message: &str| used + message.chars().count() <= width;
    let is_beside = |drawn: &Drawn<'_>| !drawn.branch.message.is_empty() && fits(&drawn.branch.message);
    let mut rows = columns.iter();
    let header = rows.next().map(|line| {
        if drawn.iter().any(is_beside) && fits(MESSAGE) {
            format!("{line:used$}{MESSAGE}")
        } else {
            output::cut(line, width)
        }
    });
    let rows = rows.zip(&drawn).flat_map(|(line, drawn)| {
        let message = &drawn.branch.message;
        if is_beside(drawn) {
            return vec![format!("{line:used$}{message}")];
        }
        let mut lines = vec![output::cut(line, width)];
        lines.extend(own_lines(drawn, width));
        lines
    });
    header.into_iter().chain(rows).collect()
}

/// Without room for columns: status first, then names, then the message.
fn narrow(drawn: &Drawn<'_>, width: usize) -> Vec<String> {
    let Drawn {
        branch,
        before,
        below,
    } = drawn;
    let room = width.saturating_sub(before.chars().count()).max(NAME);
    let text = format!(
        "{} {} {}",
        branch.shape.glyph(),
        branch.title_with(1),
        branch.reason
    );
    let margin = format!("{below}  ");
    let lines = output::wrapped(&text, room).into_iter().enumerate();
    lines
        .map(|(place, line)| format!("{}{line}", if place == 0 { before } else { &margin }))
        .map(|line| output::cut(&line, width))
        .collect()
}

/// The header, and a line per branch. Names get the width that the other columns leave.
fn columns(drawn: &[Drawn<'_>], width: usize, when: When) -> Vec<String> {
    let others: Vec<[String; 3]> = drawn
        .iter()
        .map(|Drawn { branch, .. }| {
            [
                branch.version.clone().unwrap_or_default(),
                format!("{} {}", branch.shape.glyph(), branch.reason),
                branch.since.map_or_else(String::new, |since| when.format(since)),
            ]
        })
        .collect();
    let widest = |column: usize| {
        let widths = others.iter().map(|cells| cells[column].chars().count());
        widths.max().unwrap_or(0).max(OTHERS[column].len()) + output::GAP
    };
    let room = width.saturating_sub((0..OTHERS.len()).map(widest).sum());
    let mut table = output::table(["NAME"].into_iter().chain(OTHERS));
    for (Drawn { branch, before, .. }, others) in drawn.iter().zip(others) {
        let name = format!(
            "{before}{}",
            title(branch, room.saturating_sub(before.chars().count()))
        );
        table.add_row([name].into_iter().chain(others));
    }
    output::lines(&table)
}

/// As many names as fit.
fn title(branch: &Branch, room: usize) -> String {
    let full = branch.title();
    let short = || (1..=2).rev().map(|shown| branch.title_with(shown));
    [full]
        .into_iter()
        .chain(short())
        .find(|title| title.chars().count() <= room)
        .unwrap_or_else(|| output::cut(&branch.title_with(1), room.max(NAME)))
}

fn draw<'a>(branch: &'a Branch, before: String, below: &str, drawn: &mut Vec<Drawn<'a>>) {
    let guide = if branch.branches.is_empty() { "  " } else { "│ " };
    drawn.push(Drawn {
        branch,
        before,
        below: format!("{below}{guide}"),
    });
    let last = branch.branches.len().saturating_sub(1);
    for (place, child) in branch.branches.iter().enumerate() {
        let (turn, guide) = if place == last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        draw(child, format!("{below}{turn}"), &format!("{below}{guide}"), drawn);
    }
}

/// A message below its branch.
fn own_lines(drawn: &Drawn<'_>, width: usize) -> Vec<String> {
    let margin = format!("{}  ", drawn.below);
    let room = width.saturating_sub(margin.chars().count()).max(NAME);
    let mut lines = output::wrapped(&drawn.branch.message, room);
    if lines.len() > LINES_OF_A_MESSAGE {
        lines.truncate(LINES_OF_A_MESSAGE);
        if let Some(last) = lines.last_mut() {
            *last = output::cut(&format!("{last} …"), room);
        }
    }
    lines.into_iter().map(|line| format!("{margin}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use muster_dashboard::Shape;

    use super::*;

    const FAILURE: &str = "Deployment web/podinfo status: 'Failed': Progress deadline exceeded: pod podinfo-6d5c8-x2x7k: ImagePullBackOff: \
                           example.com/podinfo:bad cannot be pulled; next: commit a fixed version under a new tag";

    fn branch(
        kind: &str,
        names: &[&str],
        shape: Shape,
        reason: &str,
        message: &str,
        branches: Vec<Branch>,
    ) -> Branch {
        Branch {
            kind: kind.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            shape,
            version: (kind != "Fleet" && kind != "Modules").then(|| "v1.2.0".to_owned()),
            reason: reason.to_owned(),
            since: (names.len() == 1).then(|| "2026-01-02T03:04:05Z".parse().unwrap()),
            message: message.to_owned(),
            branches,
        }
    }

    fn tree() -> Branch {
        let names: Vec<String> = (3..=40).map(|number| format!("eu-{number}")).collect();
        let waiting: Vec<&str> = names.iter().map(String::as_str).collect();
        let clusters = vec![
            branch(
                "Cluster",
                &["dev-1"],
                Shape::Failed,
                "Failed",
                FAILURE,
                Vec::new(),
            ),
            branch(
                "Cluster",
                &["eu-1"],
                Shape::Unreachable,
                "Unreachable",
                "the API server of eu-1 does not answer",
                Vec::new(),
            ),
            branch(
                "Clusters",
                &waiting,
                Shape::Waiting,
                "Halted",
                "v1.2.0 failed on dev-1",
                Vec::new(),
            ),
        ];
        let modules = vec![
            branch(
                "Module",
                &["podinfo"],
                Shape::Failed,
                "Failed",
                "v1.2.0 on 0/40 clusters: dev-1",
                clusters,
            ),
            branch(
                "Modules",
                &["backup", "base"],
                Shape::Ready,
                "Succeeded",
                "",
                Vec::new(),
            ),
        ];
        branch(
            "Fleet",
            &["default"],
            Shape::Failed,
            "NotReady",
            "1 of 3 modules needs attention",
            modules,
        )
    }

    fn drawn(width: usize) -> String {
        let lines = tree_lines(&tree(), width, When::Ago("2026-01-02T03:10:05Z".parse().unwrap()));
        for line in &lines {
            assert!(
                line.chars().count() <= width,
                "{} of {width}: {line}",
                line.chars().count()
            );
        }
        lines.join("\n")
    }

    #[test]
    fn at_80_columns() {
        insta::assert_snapshot!(drawn(80));
    }

    #[test]
    fn names_and_states_are_visible_at_20_columns() {
        let drawn = drawn(20);
        for expected in [
            "✗ Module/podinfo",
            "✗ Cluster/dev-1",
            "? Cluster/eu-1",
            "Unreachable",
            "● Modules",
        ] {
            assert!(drawn.contains(expected), "{expected}:\n{drawn}");
        }
    }

    #[test]
    fn at_160_columns() {
        insta::assert_snapshot!(drawn(160));
    }

    fn check(text: &str, expect: Result<&str, &str>) {
        let read = text.parse::<Top>().map(|top| top.to_string());
        assert_eq!(read.as_deref().map_err(String::as_str), expect, "{text}");
    }

    #[test]
    fn where_a_tree_begins() {
        check("fleet", Ok("fleet"));
        check("module/web", Ok("module/web"));
        check("bmod/base", Ok("bootstrapmodule/base"));
        check("cluster/eu-1", Ok("cluster/eu-1"));
        check("web", Ok("module/web"));
        check("cluster/", Err("the name is missing: write cluster/NAME"));
        check(
            "node/a",
            Err(
                "\"node\" is not a kind of module: write module/a, bootstrapmodule/a, nodemodule/a or clusterupgrade/a",
            ),
        );
    }
}
