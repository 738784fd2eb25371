//! Promise: `muster window bypass` adds a record with an end to the given window, and to nothing else; the windows of
//! the examples and of docs/windows.md are valid.

use kube::{
    Api,
    core::{ApiResource, DynamicObject},
};
use muster_api::RolloutWindow;
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_windows::Window;
use serde_json::{Value, json};

use crate::bed::{Bed, create};

const GROUP: &str = "fleet.muster.dev/v1alpha1";

/// Modules `web` and `base`, and a window that is closed for `web` alone.
async fn bed() -> Bed {
    let bed = Bed::new().await;
    let client = bed.management.client();
    let source = json!({"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}});
    for (name, tier) in [("web", "apps"), ("base", "base")] {
        create(
            &client,
            json!({"apiVersion": GROUP, "kind": "Module", "metadata": {"name": name, "namespace": "default", "labels": {"tier": tier}},
                "spec": {"selector": {}, "sync": {"source": source}}}),
        )
        .await;
    }
    create(
        &client,
        json!({"apiVersion": GROUP, "kind": "RolloutWindow", "metadata": {"name": "freeze-december", "namespace": "default"},
            "spec": {"selector": {}, "moduleSelector": {"matchLabels": {"tier": "apps"}}, "deny": [{}]}}),
    )
    .await;
    bed
}

async fn bypasses(bed: &Bed) -> Value {
    let kind = ApiResource::erase::<RolloutWindow>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(bed.management.client(), "default", &kind);
    api.get("freeze-december").await.unwrap().data["spec"]["bypasses"].clone()
}

/// The next `times` patches of the window fail.
fn contended(bed: &Bed, times: u32) {
    let patches = Match {
        verbs: vec![Verb::Patch],
        path: Some("/rolloutwindows/".to_owned()),
        ..Match::default()
    };
    let conflict = Rule::times(patches, Fault::Status(Failure::Conflict), times);
    bed.management.faults().add(conflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_bypass_is_written_once_with_user_reason_and_end() {
    let bed = bed().await;
    let words = "window bypass freeze-december --module web --reason CVE --until 2999-01-01T00:00:00Z";
    let output = bed.types(words, 2).await;
    assert!(output.contains("a year at most"), "{output}");
    let output = bed
        .types(
            "window bypass freeze-december --module web --reason CVE --for 1h --dry-run",
            0,
        )
        .await;
    assert!(output.contains("(dry run)"), "{output}");
    assert_eq!(bypasses(&bed).await, Value::Null);

    contended(&bed, 4);
    let output = bed
        .types(
            "window bypass freeze-december --module web --reason CVE --for 1h",
            0,
        )
        .await;
    assert!(
        output.contains("rolloutwindow.fleet.muster.dev/freeze-december is bypassed for module/web until "),
        "{output}"
    );
    assert!(!output.contains("warning"), "{output}");
    let written = bypasses(&bed).await;
    assert_eq!(written.as_array().unwrap().len(), 1, "{written}");
    assert_eq!(written[0]["module"], json!({"kind": "Module", "name": "web"}));
    assert_eq!(written[0]["reason"], "CVE");
    assert!(
        written[0]["by"].is_string() && written[0]["until"].is_string(),
        "{written}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_bypass_that_cannot_be_is_refused_and_one_without_effect_is_said() {
    let bed = bed().await;
    for (words, expect) in [
        (
            "freeze --module web",
            "there is no rolloutwindow/freeze in namespace default",
        ),
        ("freeze-decembre --module web", "freeze-december"),
        (
            "freeze-december --module wbe",
            "there is no module/wbe in namespace default",
        ),
        (
            "../modules/web --module web",
            "cannot be the name of a RolloutWindow",
        ),
    ] {
        let output = bed
            .types(&format!("window bypass {words} --reason CVE --for 1h"), 2)
            .await;
        assert!(output.contains(expect), "{words}: {output}");
    }
    contended(&bed, 5);
    let output = bed
        .types(
            "window bypass freeze-december --module web --reason CVE --for 1h",
            2,
        )
        .await;
    assert!(
        output.contains("modified concurrently 5 times in a row"),
        "{output}"
    );
    assert_eq!(bypasses(&bed).await, Value::Null);
    let output = bed
        .types(
            "window bypass freeze-december --module base --reason CVE --for 1h",
            0,
        )
        .await;
    assert!(
        output.contains("warning: the window does not select module/base: the bypass changes nothing"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_examples_and_the_page_have_windows_that_can_be_read() {
    let bed = Bed::new().await;
    let client = bed.management.client();
    create(
        &client,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}),
    )
    .await;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |file: &str| std::fs::read_to_string(format!("{root}/{file}")).unwrap();
    let page = read("docs/windows.md");
    let on_page = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let examples = ["freeze", "nights", "stop"].map(|name| read(&format!("examples/windows/{name}.yaml")));
    for (place, text) in examples.iter().map(String::as_str).chain([on_page]).enumerate() {
        let documents = muster_sync::yaml::documents("window", text.as_bytes()).unwrap();
        let mut window = documents[0].value().unwrap();
        assert_eq!(Window::read(&window).errors(), [], "{window}");
        window["metadata"]["name"] = json!(format!("window-{place}"));
        create(&client, window).await;
    }
}
