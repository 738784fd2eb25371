//! The files deployed with muster match its metrics: each expression of the rules and of the dashboard is valid PromQL,
//! and each metric, label and value in it exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use muster_api::reasons::{ObjectReason, Reason};
use muster_zones::metrics::METRICS;
use promql_parser::{
    label::MatchOp,
    parser::{self, AggregateExpr, BinaryExpr, Expr, LabelModifier, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use serde::Deserialize;
use serde_json::Value;

use super::scrape::{Bed, parse};

/// Labels that Prometheus or its operator adds.
const OF_TARGETS: &[&str] = &["job", "namespace", "instance", "le"];
/// The prefix of each runbook URL: the page and its anchor follow.
const PAGES: &str = "https://muster.dev/";

/// A file of rules; an unknown field is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    for_: Option<String>,
    labels: RuleLabels,
    annotations: Annotations,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleLabels {
    severity: Severity,
    code: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Critical,
    Warning,
    Info,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
    runbook_url: String,
}

/// The fields of a dashboard that the test relies on.
#[derive(Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Panel {
    id: u32,
    title: String,
    #[serde(rename = "type")]
    type_: String,
    grid_pos: GridPosition,
    description: Option<String>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Clone, Copy, Deserialize)]
struct GridPosition {
    x: u32,
    y: u32,
    w: u32,
    h: u32,
}

#[derive(Deserialize)]
struct Target {
    expr: String,
}

/// The metrics of the processes: each by the name that is queried, with its labels and their values.
type ExportedMetrics = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

async fn exported_metrics() -> ExportedMetrics {
    let bed = Bed::new();
    bed.enrol("eu-1").await;
    bed.enrol("eu-2").await;
    bed.give_kubeconfig("eu-1").await;
    bed.create_module().await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    // As in a process with a receiver of notifications.
    bed.metrics["controller"].notifies("chat");
    let mut told = ExportedMetrics::new();
    for process in ["controller", "agent"] {
        let text = bed.scrape(process);
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').unwrap();
                for suffix in suffixes(kind) {
                    told.entry(format!("{name}{suffix}")).or_default();
                }
            }
        }
        for sample in parse(&text).samples {
            // A histogram is parsed as one sample without the suffix.
            let names = [sample.metric.clone(), format!("{}_bucket", sample.metric)];
            for name in names {
                if let Some(labels) = told.get_mut(&name) {
                    for (label, value) in sample.labels.iter() {
                        labels.entry(label.clone()).or_default().insert(value.clone());
                    }
                }
            }
        }
    }
    // The metrics of muster zones, which the bed does not run.
    for metric in METRICS {
        let labels = metric
            .labels
            .iter()
            .map(|label| ((*label).to_owned(), BTreeSet::new()));
        told.insert(metric.name.to_owned(), labels.collect());
    }
    told
}

/// What is appended to the name of a family of OpenMetrics.
fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_count", "_sum"],
        "info" => &["_info"],
        "gauge" => &[""],
        other => panic!("a family of type {other} is not expected"),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rules() -> Rules {
    let text = fs::read(root().join("deploy/prometheus/rules.yaml")).unwrap();
    serde_json::from_value(muster_sync::yaml::to_json(text).unwrap()).unwrap()
}

fn dashboard() -> (Dashboard, Value) {
    let text = fs::read(root().join("deploy/grafana/muster.json")).unwrap();
    (
        serde_json::from_slice(&text).unwrap(),
        serde_json::from_slice(&text).unwrap(),
    )
}

/// Checks what an expression queries against the exported metrics.
struct Asks<'a> {
    told: &'a ExportedMetrics,
    problems: Vec<String>,
}

impl Asks<'_> {
    fn selector(&mut self, selector: &VectorSelector) {
        let name = selector.name.as_deref().unwrap_or_default();
        let Some(labels) = self.told.get(name) else {
            self.problems.push(format!("no process tells {name:?}"));
            return;
        };
        for matcher in &selector.matchers.matchers {
            // A variable of a dashboard may be anything.
            if matcher.value.starts_with('$') {
                continue;
            }
            let words: Vec<&str> = match &matcher.op {
                MatchOp::Equal | MatchOp::NotEqual => vec![&matcher.value],
                MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
            };
            for word in words {
                if !is_word(&matcher.name, word, labels) {
                    self.problems
                        .push(format!("{name} has no {}={word:?}", matcher.name));
                }
            }
        }
    }

    fn known(&self, label: &str) -> bool {
        OF_TARGETS.contains(&label) || self.told.values().any(|labels| labels.contains_key(label))
    }

    fn labels(&mut self, modifier: Option<&LabelModifier>) {
        let Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) = modifier else {
            return;
        };
        for label in &labels.labels {
            if !self.known(label) {
                self.problems.push(format!("no metric has a label {label}"));
            }
        }
    }
}

/// States of clusters and nodes, as operations.md lists them.
const STATES: [&str; 9] = [
    "total",
    "updated",
    "ready",
    "updating",
    "waiting",
    "failed",
    "skipped",
    "held",
    "withdrawing",
];

/// Whether a label may have that value: one from the tables, or an observed one.
fn is_word(label: &str, word: &str, seen: &BTreeMap<String, BTreeSet<String>>) -> bool {
    let was_seen = seen.get(label).is_some_and(|values| values.contains(word));
    was_seen
        || match label {
            "reason" => word.parse::<Reason>().is_ok() || word.parse::<ObjectReason>().is_ok(),
            "state" => STATES.contains(&word),
            "status" => ["True", "False", "Unknown"].contains(&word),
            "type" => ["Halted", "Stalled", "TagMoved", "Ready"].contains(&word),
            "kind" => [
                "Module",
                "BootstrapModule",
                "ClusterUpgrade",
                "NodeModule",
                "ProxyAssemblage",
                "ZoneRollout",
            ]
            .contains(&word),
            "outcome" => ["done", "refused", "unanswered", "withheld"].contains(&word),
            _ => false,
        }
}

impl ExprVisitor for Asks<'_> {
    type Error = Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Infallible> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(AggregateExpr { modifier, .. }) => self.labels(modifier.as_ref()),
            Expr::Binary(BinaryExpr {
                modifier: Some(modifier),
                ..
            }) => self.labels(modifier.matching.as_ref()),
            _ => {}
        }
        Ok(true)
    }
}

/// The problems of an expression.
fn problems(told: &ExportedMetrics, expr: &str) -> Vec<String> {
    // Grafana inserts a duration there.
    let expr = expr.replace("$__rate_interval", "5m");
    let parsed = match parser::parse(&expr) {
        Ok(parsed) => parsed,
        Err(error) => return vec![format!("{expr}: {error}")],
    };
    let mut asks = Asks {
        told,
        problems: Vec::new(),
    };
    walk_expr(&mut asks, &parsed).unwrap();
    let problems = asks.problems.into_iter();
    problems.map(|problem| format!("{expr}: {problem}")).collect()
}

#[tokio::test(start_paused = true)]
async fn rules_and_dashboard_query_only_exported_metrics() {
    let told = exported_metrics().await;
    let (dashboard, whole) = dashboard();
    let rules = rules();
    let of_rules = rules.groups.iter().flat_map(|group| &group.rules);
    let of_panels = dashboard.panels.iter().flat_map(|panel| &panel.targets);
    let exprs = of_rules
        .map(|rule| rule.expr.as_str())
        .chain(of_panels.map(|target| target.expr.as_str()));
    let found: Vec<String> = exprs.flat_map(|expr| problems(&told, expr)).collect();
    assert_eq!(found, Vec::<String>::new());
    // `label_values(selector, label)` of variables.
    for variable in whole["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let inner = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.strip_suffix(')'));
            let (selector, label) = inner.unwrap().rsplit_once(", ").unwrap();
            assert_eq!(problems(&told, selector), Vec::<String>::new());
            assert!(
                told["muster_module_info"].contains_key(label) || label == "job",
                "{query}"
            );
        }
    }
    // The check that found no problem does find errors.
    for wrong in [
        "sum by (controler) (muster_queue_depth)",
        "muster_clusters_up == 0",
        r#"muster_rollout_wait_seconds{reason="Overdu"} > 0"#,
        r#"muster_module_clusters{states="updated"}"#,
        "muster_reconciles > 0",
        "rate(muster_writes_total)",
        "sum(muster_queue_depth",
    ] {
        assert!(!problems(&told, wrong).is_empty(), "{wrong}");
    }
}

#[test]
fn every_alert_has_a_code_and_a_page() {
    let page = fs::read_to_string(root().join("docs/alerts.md")).unwrap();
    let mut sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    sections.retain(|section| section.starts_with("MST"));
    let rules = rules();
    let mut codes = BTreeSet::new();
    for rule in rules.groups.iter().flat_map(|group| &group.rules) {
        let Rule {
            alert,
            expr: _,
            for_,
            labels,
            annotations,
        } = rule;
        assert!(alert.starts_with("Muster"), "{alert}");
        assert!(
            for_.as_ref().is_none_or(|wait| wait.ends_with('m')),
            "{alert}: {for_:?}"
        );
        assert!(codes.insert(labels.code.clone()), "{} appears twice", labels.code);
        // What has stopped pages the on-call; what waits for a user does not.
        let wakes = matches!(labels.severity, Severity::Critical);
        assert_eq!(
            wakes,
            alert.ends_with("Down") || alert.ends_with("Stopped"),
            "{alert}"
        );
        let anchor = format!("{PAGES}docs/alerts.md#{}", labels.code.to_lowercase());
        assert_eq!(annotations.runbook_url, anchor, "{alert}");
        let section = sections
            .iter()
            .find(|section| section.starts_with(&format!("{}\n", labels.code)));
        assert!(
            section.is_some_and(|section| section.contains(&format!("**{alert}**"))),
            "docs/alerts.md has no section {} about {alert}",
            labels.code
        );
        for text in [&annotations.summary, &annotations.description] {
            assert!(
                text.ends_with(['.', '}']) && !text.contains('\n'),
                "{alert}: {text}"
            );
        }
    }
    assert_eq!(
        sections.len(),
        codes.len(),
        "each section is about an alert that there is"
    );
    assert!(rules.groups.iter().all(|group| group.name.starts_with("muster")));
}

#[test]
fn every_alert_has_a_rule_test() {
    let text = fs::read(root().join("deploy/prometheus/rules_test.yaml")).unwrap();
    let tests = muster_sync::yaml::to_json(text).unwrap();
    let fires = |case: &Value| !case["exp_alerts"].as_array().unwrap().is_empty();
    let tests = tests["tests"].as_array().unwrap().iter();
    let played: BTreeSet<&str> = tests
        .flat_map(|test| test["alert_rule_test"].as_array().unwrap())
        .filter(|case| fires(case))
        .map(|case| case["alertname"].as_str().unwrap())
        .collect();
    let rules = rules();
    let all = rules.groups.iter().flat_map(|group| &group.rules);
    let all: BTreeSet<&str> = all.map(|rule| rule.alert.as_str()).collect();
    assert_eq!(played, all, "by cargo xtask monitoring");
}

#[test]
fn the_dashboard_hangs_together() {
    let (dashboard, whole) = dashboard();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in &dashboard.panels {
        let Panel { id, title, .. } = panel;
        assert!(ids.insert(*id), "{title}: the id {id} appears twice");
        let GridPosition { x, y, w, h } = panel.grid_pos;
        assert!(x + w <= 24, "{title}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{title}: covers another panel at {place:?}");
        }
        if panel.type_ != "row" {
            assert!(!panel.targets.is_empty(), "{title}: asks nothing");
            assert!(panel.description.is_some(), "{title}: has no description");
        }
    }
    // The data source is chosen at the import.
    let text = whole.to_string();
    assert_eq!(
        text.matches(r#""type":"prometheus""#).count(),
        text.matches(r#""uid":"${datasource}""#).count()
    );
}
