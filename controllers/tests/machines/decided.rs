//! Promise: a plan is stored in the API server before Cluster API gets a yes; an uncovered change is replaced or held
//! as the owner requests.

use muster_api::update_plan::MachineUpdateState;
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_machines::Hook;
use serde_json::{Value, json};

use crate::support::*;

/// R32: the plan is an object of its own; it records the identity and the progress of a Machine.
#[tokio::test(start_paused = true)]
async fn a_yes_has_a_plan_that_names_each_machine_of_the_old_set() {
    let mut bed = Bed::new();
    let (one, two) = (bed.machine("m1", "old").await, bed.machine("m2", "old").await);
    let other = bed.machine("m3", "another").await;
    bed.start().await;
    let response = bed.can(OLD, NEW, json!({})).await;
    assert_eq!(response["status"], "Success", "{response}");
    assert!(
        response["machineSetPatch"]["patch"].is_string()
            && response["infrastructureMachineTemplatePatch"]["patch"].is_string()
    );
    let [plan] = &bed.plans().await[..] else { panic!() };
    let steps: Vec<&str> = plan
        .spec
        .steps
        .iter()
        .map(|step| step.updater.as_deref().unwrap())
        .collect();
    assert_eq!(
        steps,
        ["kubelet", "image"],
        "by their order, not as the file has them"
    );
    assert_eq!(
        (plan.spec.source.as_str(), plan.spec.target.as_deref()),
        ("old", Some("new"))
    );
    let status = plan.status.clone().unwrap();
    let uids: Vec<&String> = status.machines.iter().map(|machine| &machine.uid).collect();
    assert_eq!(uids, [&one, &two]);
    assert!(!uids.contains(&&other));
    // A Machine that the old set gets later is in the plan, too.
    let late = bed.machine("m4", "old").await;
    pass(2).await;
    assert_eq!(bed.entry(&late).await.state, MachineUpdateState::Pending);
    // Queried again, as when the cache of a day has expired: the same plan.
    bed.can(OLD, NEW, json!({})).await;
    assert_eq!(bed.plans().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_is_no_yes() {
    let mut bed = Bed::new();
    bed.machine("m1", "old").await;
    bed.start().await;
    let matching = Match {
        client: Some("machines".to_owned()),
        verbs: vec![Verb::Create],
        path: Some("/updateplans".to_owned()),
        ..Match::default()
    };
    let fault = bed
        .api
        .faults()
        .add(Rule::always(matching, Fault::Status(Failure::Forbidden)));
    let response = bed.can(OLD, NEW, json!({})).await;
    assert_eq!(response["status"], "Failure");
    assert!(
        response["message"]
            .as_str()
            .unwrap()
            .starts_with("storing UpdatePlan fleet/old-"),
        "{response}"
    );
    bed.api.faults().remove(fault);
    assert_eq!(bed.can(OLD, NEW, json!({})).await["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn without_its_machines_there_is_no_yes() {
    let mut bed = Bed::new();
    bed.start().await;
    let response = bed.can(OLD, NEW, json!({})).await;
    assert_eq!(
        response["message"],
        "no Machine of MachineSet fleet/old is known here yet"
    );
    assert!(bed.plans().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn not_covered_is_replaced_or_held() {
    let mut bed = Bed::new();
    bed.machine("m1", "old").await;
    bed.updaters.covers.lock().remove("image");
    bed.start().await;
    let annotated = |value: &str| json!({"fleet.muster.dev/update-fallback": value});
    for (annotations, status) in [
        (json!({}), "Success"),
        (annotated("Replace"), "Success"),
        (annotated("Hold"), "Failure"),
    ] {
        let response = bed.can(OLD, NEW, annotations).await;
        assert_eq!(response["status"], status);
        assert_eq!(response.get("machineSetPatch"), None, "half a change is none");
        assert!(
            response["message"]
                .as_str()
                .unwrap()
                .contains("TestMachineTemplate cannot be updated in place: /hello"),
            "{response}"
        );
    }
    let response = bed.can(OLD, NEW, annotated("hold")).await;
    assert_eq!(
        response["message"],
        "annotation fleet.muster.dev/update-fallback is \"hold\": it must be Replace or Hold"
    );
    assert!(bed.plans().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_a_failure() {
    let mut bed = Bed::new();
    bed.machine("m1", "old").await;
    bed.start().await;
    for (hook, request, words) in [
        (
            Hook::CanUpdateMachineSet,
            json!({}),
            "current.machineSet is missing or is not an object",
        ),
        (
            Hook::CanUpdateMachine,
            json!([]),
            "current.machine is missing or is not an object",
        ),
        (
            Hook::UpdateMachine,
            Value::Null,
            "desired.machine is missing or is not an object",
        ),
    ] {
        let response = bed.call(hook, &request).await;
        assert_eq!(
            (&response["status"], &response["message"]),
            (&json!("Failure"), &json!(words))
        );
    }
    let long = json!({"desired": "x".repeat(muster_machines::MAX_BODY)});
    let response = bed.call(Hook::UpdateMachine, &long).await;
    assert_eq!(response["message"], "the request is longer than 4194304 bytes");
}

#[tokio::test(start_paused = true)]
async fn discovery_names_what_is_served() {
    let mut bed = Bed::new();
    bed.start().await;
    let post = |path: String, method: http::Method| {
        let hooks = bed.hooks();
        let request = muster_controllers::admission::server::WebhookRequest {
            method,
            path: format!("/{}/{path}", muster_machines::GROUP_VERSION),
            content_type: String::new(),
            body: "{}".into(),
        };
        async move { hooks.answer(request).await }
    };
    let found = post("discovery".to_owned(), http::Method::POST).await;
    let found: Value = serde_json::from_slice(&found.body).unwrap();
    let known = Hook::ALL.map(|hook| (muster_machines::GROUP_VERSION, hook.as_str()));
    let handlers = muster_machines::handlers(&found, &known).unwrap();
    assert_eq!(handlers.len(), 3);
    for handler in handlers {
        let path = format!("{}/{}", handler.hook.to_ascii_lowercase(), handler.name);
        assert_eq!(post(path.clone(), http::Method::POST).await.status, 200);
        assert_eq!(post(path, http::Method::GET).await.status, 405);
    }
    for path in ["updatemachine/another", "beforeclusterupgrade/x", ""] {
        assert_eq!(
            post(path.to_owned(), http::Method::POST).await.status,
            404,
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_is_held_by_its_own_annotation() {
    let mut bed = Bed::new();
    bed.updaters.covers.lock().clear();
    let group = "controlplane.cluster.x-k8s.io/v1beta2";
    let hold = json!({"fleet.muster.dev/update-fallback": "Hold"});
    bed.control_plane("held", &hold).await;
    bed.control_plane("plain", &json!({})).await;
    let owner = json!({"apiVersion": group, "kind": "OtherControlPlane", "name": "gone", "uid": "u"});
    bed.machine_of("orphan-0", owner).await;
    bed.start().await;
    for (machine, status, words) in [
        ("held-0", "Failure", "held: "),
        ("plain-0", "Success", "Machine cannot be updated in place"),
        // Without knowledge there is no decision: the Machine may be one to hold.
        ("orphan-0", "Failure", "reading OtherControlPlane fleet/gone"),
        (
            "unknown-0",
            "Failure",
            "Machine fleet/unknown-0 is not known here yet",
        ),
    ] {
        let request = json!({"current": objects(machine, OLD), "desired": objects(machine, NEW)});
        let response = bed.call(Hook::CanUpdateMachine, &request).await;
        assert_eq!(response["status"], status, "{response}");
        assert!(
            response["message"].as_str().unwrap().starts_with(words),
            "{response}"
        );
    }
}
