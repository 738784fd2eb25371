//! `muster rollout history`: prints the result of each revision of a module.

use std::cmp::Reverse;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use muster_api::module::Summary;
use muster_controllers::runtime::Clock;
use muster_dashboard::{First, Past};
use muster_fleet::{history::read_history, name::ModuleName};
use muster_sync::build::print;

use super::histories;
use crate::{
    exit::DONE,
    flags::Output,
    output::{self, Age, Out},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout history                                         lists the modules
  muster rollout history module/podinfo
  muster rollout history module/podinfo --revision 1a2b3c4d      one of them in full, with what failed
  muster rollout history module/podinfo -o json | jq '.revisions[] | select(.verdict == \"Bad\")'";

/// Title of the last column.
const EVIDENCE: &str = "EVIDENCE";

/// Note in the row of the first rollout of a revision.
const AGAIN: &str = "rolled out again later";
/// Spaces between columns.
const BLANKS: usize = 2;
/// The most lines of evidence below a revision; --revision prints all of it.
const LINES: usize = 3;

/// List the revisions of a module: verdict, clusters, times, and what failed
///
/// CLUSTERS NOW counts the clusters that have the revision now, AT END those that had it when its rollout ended. For a
/// revision that was rolled out several times, the first and the last rollout are recorded, one line each.
///
/// With -o json: `schema` (`history/v1`), `module`, and `revisions`, newest first; each has revision, name, version,
/// wanted, commit, verdict (Good, Bad, Aborted, Superseded, Running, Pending), isTarget, first, started, finished,
/// counts, countsNow, evidence and differsByVersionOnly.
///
/// Exit codes: 0 printed, 2 could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct HistoryFlags {
    /// module/NAME, bootstrapmodule/NAME or nodemodule/NAME; omit it to list the modules
    pub module: Option<ModuleName>,
    /// Only this revision, in full, by at least 8 digits of its hash
    #[arg(long, requires = "module")]
    pub revision: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Prints the history.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &HistoryFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let HistoryFlags {
        module,
        revision,
        output,
    } = flags;
    let Some(module) = module else {
        return histories::list(client, namespace, *output, out).await;
    };
    let mut history = read_history(client, namespace, module).await?;
    let only = match revision {
        Some(requested) => Some(history.find(requested)?.clone()),
        None => None,
    };
    if let Some(only) = &only {
        history.revisions = vec![only.clone()];
    }
    let now = Clock::system().now();
    match output {
        Output::Json => out.json(&history)?,
        Output::Yaml => out.text(&print::yaml(&serde_json::to_value(&history)?))?,
        Output::Name => {
            let kind = if module.is_of_nodes() {
                "noderevision"
            } else {
                "modulerevision"
            };
            let name = |past: &Past| format!("{kind}.{}/{}", muster_api::kind::GROUP, past.name);
            out.lines(&history.revisions.iter().map(name).collect::<Vec<_>>())?;
        }
        Output::Table | Output::Wide if only.is_none() => {
            if history.revisions.is_empty() {
                complain!(out, "{module} has no revision yet: nothing was rolled out.");
            }
            let is_wide = *output == Output::Wide;
            let units = module.kind.unit();
            out.lines(&table(units, &history.revisions, is_wide, out.width(), now))?;
        }
        Output::Table | Output::Wide => {
            let whole: Vec<String> = history
                .revisions
                .iter()
                .flat_map(|past| revision_details(past, now))
                .collect();
            out.lines(&whole)?;
        }
    }
    Ok(DONE)
}

/// A line per rollout; the last rollout of the revision that the module asks for now is marked with a star. For a
/// revision that was rolled out several times, the first and the last rollout are recorded. Evidence that does not fit
/// beside its revision is printed below it.
fn table(unit: &str, revisions: &[Past], wide: bool, width: usize, now: Timestamp) -> Vec<String> {
    if revisions.is_empty() {
        return Vec::new();
    }
    let counted = format!("{}S NOW", unit.to_uppercase());
    let mut titles = vec![
        "REVISION",
        "VERSION",
        "VERDICT",
        counted.as_str(),
        "AT END",
        "STARTED",
        "TOOK",
    ];
    titles.extend(wide.then_some(["COMMIT", "NAME"]).into_iter().flatten());
    let mut rows: Vec<(Option<Timestamp>, Vec<String>, String)> = Vec::new();
    for past in revisions {
        let star = if past.is_target { "*" } else { "" };
        let mut cells = vec![
            format!("{}{star}", past.short_hash()),
            past.version.clone(),
            past.verdict.as_str().to_owned(),
            clusters(past.counts_now.as_ref()),
            clusters(past.counts.as_ref().filter(|_| past.finished.is_some())),
            ago(past.started, now),
            took(past.started, past.finished),
        ];
        if wide {
            cells.extend([past.commit.clone(), past.name.clone()]);
        }
        rows.push((past.started, cells, evidence(past)));
        rows.extend(past.first.as_ref().map(|first| {
            (
                Some(first.started),
                first_row(past, first, wide, now),
                AGAIN.to_owned(),
            )
        }));
    }
    // Newest first, as the revisions are; pending ones stay on top.
    rows.sort_by_key(|(started, ..)| Reverse(started.unwrap_or(Timestamp::MAX)));
    let mut table = output::table(titles);
    let mut evidence = Vec::new();
    for (_, cells, text) in rows {
        table.add_row(cells);
        evidence.push(text);
    }
    let rows = output::lines(&table);
    let used = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0) + BLANKS;
    let fits = |text: &str| wide || used.saturating_add(text.chars().count()) <= width;
    let is_below = |text: &String| !fits(text);
    let title = if evidence.iter().any(is_below) {
        ""
    } else {
        EVIDENCE
    };
    let texts = std::iter::once(title).chain(evidence.iter().map(String::as_str));
    let with_evidence = |(row, text): (&String, &str)| match text {
        "" => vec![row.clone()],
        text if !title.is_empty() => vec![format!("{row:used$}{text}")],
        text => std::iter::once(row.clone()).chain(below(text, width)).collect(),
    };
    rows.iter().zip(texts).flat_map(with_evidence).collect()
}

/// The cluster that failed first, with its message; empty if none failed.
fn evidence(past: &Past) -> String {
    past.evidence.first().map_or_else(String::new, |failure| {
        format!("{}: {}", failure.cluster, failure.message)
    })
}

/// Text wrapped to a few indented lines.
fn below(text: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(BLANKS);
    let mut lines = output::wrapped(text, room);
    if lines.len() > LINES {
        lines.truncate(LINES);
        if let Some(last) = lines.last_mut() {
            *last = output::cut(&format!("{last} …"), room);
        }
    }
    lines.into_iter().map(|line| format!("  {line}")).collect()
}

/// The row of the first rollout of a revision that was rolled out again.
fn first_row(past: &Past, first: &First, wide: bool, now: Timestamp) -> Vec<String> {
    let mut cells = vec![
        past.short_hash().to_owned(),
        past.version.clone(),
        first
            .verdict
            .map_or_else(String::new, |verdict| verdict.as_str().to_owned()),
        String::new(),
        first.clusters.clone().unwrap_or_default(),
        ago(Some(first.started), now),
        took(Some(first.started), first.finished),
    ];
    if wide {
        cells.extend([past.commit.clone(), past.name.clone()]);
    }
    cells
}

fn clusters(counts: Option<&Summary>) -> String {
    counts.map_or_else(String::new, |counts| counts.clusters.clone())
}

fn ago(started: Option<Timestamp>, now: Timestamp) -> String {
    started.map_or_else(String::new, |started| format!("{} ago", Age(started, now)))
}

fn took(started: Option<Timestamp>, finished: Option<Timestamp>) -> String {
    let both = started.zip(finished);
    both.map_or_else(String::new, |(started, finished)| {
        Age(started, finished).to_string()
    })
}

/// One revision in full.
fn revision_details(past: &Past, now: Timestamp) -> Vec<String> {
    let at = |time: Option<Timestamp>| time.map(|time| format!("{time} ({} ago)", Age(time, now)));
    let target = if past.is_target {
        "yes: it is the revision that the module now specifies"
    } else {
        "no"
    };
    let numbers = |counts: &Summary| {
        let others = [
            ("updating", counts.updating),
            ("waiting", counts.waiting),
            ("failed", counts.failed),
            ("skipped", counts.skipped),
            ("held", counts.held),
            ("withdrawing", counts.withdrawing),
        ];
        let others = others.into_iter().filter(|(_, count)| *count > 0);
        let others: Vec<String> = others.map(|(word, count)| format!(", {count} {word}")).collect();
        // These are counted in the states above as well, so they are listed separately.
        let ready = format!("; {} of all are ready at their current version", counts.ready);
        let ready = Some(ready).filter(|_| counts.ready != counts.updated);
        format!(
            "{} updated{}{}",
            counts.clusters,
            others.concat(),
            ready.unwrap_or_default()
        )
    };
    let first = past.first.as_ref().map(|first| {
        let took = Some(took(Some(first.started), first.finished)).filter(|took| !took.is_empty());
        [
            Some(format!(
                "started {} ({} ago)",
                first.started,
                Age(first.started, now)
            )),
            took.map(|took| format!("took {took}")),
            first.verdict.map(|verdict| verdict.as_str().to_owned()),
            first
                .clusters
                .as_ref()
                .map(|clusters| format!("{clusters} updated")),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
    });
    let fields = [
        ("Revision", Some(past.revision.clone())),
        ("Name", Some(past.name.clone())),
        ("Version", Some(past.version.clone())),
        (
            "Commit",
            Some(past.commit.clone()).filter(|commit| !commit.is_empty()),
        ),
        ("Verdict", Some(past.verdict.as_str().to_owned())),
        ("Target", Some(target.to_owned())),
        ("First", first),
        ("Started", at(past.started)),
        ("Finished", at(past.finished)),
        (
            "Took",
            Some(took(past.started, past.finished)).filter(|took| !took.is_empty()),
        ),
        ("Now", past.counts_now.as_ref().map(numbers)),
        (
            "At end",
            past.counts
                .as_ref()
                .filter(|_| past.finished.is_some())
                .map(numbers),
        ),
    ];
    let mut lines: Vec<String> = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{:10}{}", format!("{name}:"), value?)))
        .collect();
    if !past.evidence.is_empty() {
        lines.push("Evidence:".to_owned());
    }
    for failure in &past.evidence {
        let at = failure.at.map_or_else(String::new, |at| format!(" at {at}"));
        lines.push(format!("  {}{at}: {}", failure.cluster, failure.message));
    }
    lines
}

#[cfg(test)]
mod tests {
    use muster_api::{ModuleRevision, module::ModuleSpec};
    use muster_dashboard::History;
    use serde_json::{Value, json};

    use super::*;

    fn revision(digit: char, tag: &str, status: &Value) -> ModuleRevision {
        let name = format!("web-{digit}");
        serde_json::from_value(json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ModuleRevision",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "moduleRef": {"kind": "Module", "name": "web"}, "revision": digit.to_string().repeat(64), "commit": digit.to_string().repeat(40),
                "sync": {"source": {"git": {"url": "https://git.test/fleet", "version": {"tag": tag}}}},
            },
            "status": status,
        }))
        .unwrap()
    }

    /// A good version, a bad one, one in progress, and a pending one. The module asks for the third.
    fn sample() -> History {
        let all: Value =
            serde_json::from_str(include_str!("../../../fleet/tests/fixtures/revisions.json")).unwrap();
        let revisions: Vec<ModuleRevision> = serde_json::from_value(all["revisions"].clone()).unwrap();
        let spec: ModuleSpec = serde_json::from_value(all["spec"].clone()).unwrap();
        let status = serde_json::from_value(all["status"].clone()).unwrap();
        History::of("module/web", &spec, Some(&status), &revisions)
    }

    fn now() -> Timestamp {
        "2026-01-03T02:00:00Z".parse().unwrap()
    }

    #[test]
    fn as_a_table() {
        insta::assert_snapshot!(table("cluster", &sample().revisions, false, 80, now()).join("\n"));
    }

    #[test]
    fn as_a_wide_table() {
        insta::assert_snapshot!(table("cluster", &sample().revisions, true, 80, now()).join("\n"));
    }

    /// A version that was rolled back to when 4 of 5 clusters had it, and that all 5 have now.
    fn twice() -> History {
        let counts = |clusters: &str| {
            json!({"total": 5, "updated": 4, "ready": 5, "updating": 0, "waiting": 0, "failed": 0, "skipped": 0, "held": 0,
                "withdrawing": 0, "clusters": clusters})
        };
        let all = [
            revision(
                'a',
                "v1",
                &json!({
                    "first": {"started": "2026-01-01T01:00:00Z", "finished": "2026-01-01T01:04:00Z", "verdict": "Good", "clusters": "5/5"},
                    "started": "2026-01-03T01:00:00Z", "finished": "2026-01-03T01:00:00Z", "verdict": "Good", "counts": counts("4/5"),
                }),
            ),
            revision(
                'b',
                "v2",
                &json!({"started": "2026-01-02T01:00:00Z", "finished": "2026-01-02T01:00:30Z", "verdict": "Aborted", "counts": counts("1/5")}),
            ),
        ];
        let spec: ModuleSpec = serde_json::from_value(json!({
            "sync": {"source": {"git": {"url": "https://git.test/fleet", "version": {"tag": "v1"}}}},
        }))
        .unwrap();
        let status =
            serde_json::from_value(json!({"revision": "a".repeat(64), "summary": counts("5/5")})).unwrap();
        History::of("module/web", &spec, Some(&status), &all)
    }

    #[test]
    fn a_version_that_was_rolled_out_twice() {
        let history = twice();
        insta::assert_snapshot!(table("cluster", &history.revisions, false, 80, now()).join("\n"));
        insta::assert_snapshot!(revision_details(history.find("aaaaaaaa").unwrap(), now()).join("\n"));
    }

    #[test]
    fn one_in_full() {
        let history = sample();
        let past = history.find("bbbbbbbb").unwrap();
        insta::assert_snapshot!(revision_details(past, now()).join("\n"));
    }

    #[test]
    fn as_json() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&sample()).unwrap());
    }
}
