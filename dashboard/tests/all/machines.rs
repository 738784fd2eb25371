//! Promise: a Machine that is updated in place is shown with the state in its UpdatePlan, with the next command where a
//! person must decide; the page, `machines.json` and `why` agree.
use std::sync::Arc;

use crate::fixture::served;
use muster_api::UpdatePlan;
use muster_dashboard::{Objects, Shape, UpdateView, why_machine};
use serde_json::{Value, json};

fn plan(name: &str, machines: &Value) -> UpdatePlan {
    let steps = json!([
        {"updater": "kubelet", "acknowledgement": "Digest", "deadline": "10m"},
        {"node": "Drain", "deadline": "30m"},
        {"updater": "image", "acknowledgement": "Trust", "deadline": "20m"},
        {"node": "Uncordon", "deadline": "10m"},
    ]);
    let spec = json!({"level": "MachineSet", "source": "web-old", "target": "web-new", "from": "a", "to": "b",
                      "steps": steps, "current": "", "desired": ""});
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "fleet"}, "spec": spec, "status": {"machines": machines},
    }))
    .unwrap()
}

fn machine(name: &str, state: &str, step: u32, message: Option<&str>) -> Value {
    let since = (state != "Pending" && state != "Updated").then_some("2026-09-25T11:00:00Z");
    json!({"name": name, "uid": name, "state": state, "step": step, "since": since, "message": message})
}

fn mixed() -> UpdatePlan {
    plan(
        "web-1",
        &json!([
            machine("m1", "Updated", 4, None),
            machine("m2", "Failed", 2, Some("disk full")),
            machine(
                "m3",
                "Updating",
                1,
                Some("pods remaining on Node n3: 1: shop/web <b>")
            ),
            machine("m4", "Pending", 0, None),
        ]),
    )
}

#[test]
fn each_machine_as_the_plan_has_it() {
    let view = UpdateView::of(&mixed());
    assert_eq!((view.shape, view.updated), (Shape::Failed, 1));
    let rows: Vec<(&str, Shape, Option<&str>)> = view
        .machines
        .iter()
        .map(|machine| (machine.name.as_str(), machine.shape, machine.step.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("m1", Shape::Ready, None),
            ("m2", Shape::Failed, Some("3 of 4, updater image")),
            ("m3", Shape::Updating, Some("2 of 4, drain of the Node")),
            ("m4", Shape::Waiting, None),
        ]
    );
    // Without entries no machine is reported as updated.
    let unknown = UpdateView::of(&plan("web-2", &json!([])));
    assert_eq!((unknown.shape, unknown.updated), (Shape::Waiting, 0));
}

#[test]
fn why_says_which_step_and_what_next() {
    let plan = mixed();
    let why = why_machine(&plan, "m2").unwrap();
    assert_eq!(
        why.headline,
        "The update of Machine m2 by UpdatePlan web-1 has failed: step 3 of 4, updater image; its Node was cordoned for it"
    );
    assert_eq!(
        why.command.as_deref(),
        Some("muster machines retry m2 -n fleet --reason REASON")
    );
    let otherwise = why.otherwise.unwrap().command;
    assert_eq!(otherwise.as_deref(), Some("kubectl delete machine m2 -n fleet"));
    let steps: Vec<(&str, Shape, &str)> = why
        .steps
        .iter()
        .map(|step| (step.who.as_str(), step.shape, step.message.as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            ("updater kubelet", Shape::Ready, ""),
            ("drain of the Node", Shape::Ready, ""),
            ("updater image", Shape::Failed, "disk full (within 20m)"),
            ("uncordon of the Node", Shape::Waiting, ""),
        ]
    );
    for (machine, headline, is_ready) in [
        ("m1", "Machine m1 was updated in place by UpdatePlan web-1", true),
        (
            "m3",
            "Machine m3 is being updated in place by UpdatePlan web-1: step 2 of 4, drain of the Node",
            false,
        ),
        (
            "m4",
            "Machine m4 will be updated in place by UpdatePlan web-1: Cluster API has not requested it yet",
            false,
        ),
    ] {
        let why = why_machine(&plan, machine).unwrap();
        assert_eq!((why.headline.as_str(), why.command), (headline, None));
        assert_eq!(
            why.steps.iter().all(|step| step.shape == Shape::Ready),
            is_ready,
            "{machine}"
        );
    }
    assert_eq!(why_machine(&plan, "m5"), None);
}

#[tokio::test]
async fn the_page_has_each_plan_the_most_urgent_first() {
    let done = plan("a-done", &json!([machine("x1", "Updated", 4, None)]));
    let app = served(Objects {
        update_plans: vec![Arc::new(done), Arc::new(mixed())],
        ..Objects::default()
    });
    let page = app.text("/machines").await;
    assert!(page.contains("1 of 4 machines are updated"), "{page}");
    assert!(
        page.contains("muster machines retry m2 -n fleet --reason REASON"),
        "{page}"
    );
    assert!(
        page.contains("shop/web &lt;b&gt;"),
        "what an updater says is text"
    );
    assert!(page.find("m2") < page.find("x1"), "{page}");
    let json: Value = serde_json::from_str(&app.text("/api/v1/machines.json").await).unwrap();
    assert_eq!(json["schema"], "machines/v1");
    assert_eq!(json["updates"][0]["machines"][1]["message"], "disk full");
    assert!(app.text("/").await.contains("href=\"./machines\""));
    assert!(
        !served(Objects::default())
            .text("/")
            .await
            .contains("href=\"./machines\"")
    );
}
