//! Windows from JSON, and a cluster and a module to evaluate them for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::module::ModuleKind;
use muster_windows::{Answer, Closed, Cluster, Module, State, Window, evaluate};
use serde_json::{Value, json};

/// A window of this name with this spec, selecting every cluster unless the spec says otherwise.
pub(crate) fn window(name: &str, spec: &Value) -> Window {
    let mut spec = spec.clone();
    let fields = spec.as_object_mut().unwrap();
    fields.entry("selector").or_insert(json!({}));
    Window::read(&json!({ "metadata": { "name": name }, "spec": spec }))
}

/// The same window; it must have no errors.
pub(crate) fn valid(name: &str, spec: &Value) -> Window {
    let window = window(name, spec);
    assert_eq!(window.errors(), [], "{spec}");
    window
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(pair).collect()
}

/// The answer for module `web` in a cluster with these labels and annotations.
pub(crate) fn ask_of(
    windows: &[Window],
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
    now: &str,
) -> Answer {
    let (labels, annotations, none) = (map(labels), map(annotations), map(&[]));
    let cluster = Cluster {
        labels: &labels,
        annotations: &annotations,
    };
    let module = Module {
        kind: ModuleKind::Module,
        name: "web",
        labels: &none,
    };
    evaluate(windows, &cluster, &module, at(now))
}

/// The answer for module `web` in a production cluster.
pub(crate) fn answer_at(windows: &[Window], now: &str) -> Answer {
    ask_of(windows, &[("env", "prod")], &[], now)
}

/// `open until …` or `closed until …`, with `-` for never.
pub(crate) fn words(answer: &Answer) -> String {
    let (word, until) = match &answer.state {
        State::Open { until } => ("open", until),
        State::Closed(closed) => ("closed", &closed.until),
    };
    let until = until.map_or_else(|| "-".to_owned(), |until| until.to_string());
    format!("{word} until {until}")
}

pub(crate) fn closed(answer: &Answer) -> &Closed {
    match &answer.state {
        State::Closed(closed) => closed,
        State::Open { .. } => panic!("open: {answer:?}"),
    }
}
