//! Every input is answered.

use jiff::Timestamp;
use muster_zones::admit::{
    Fact, Step, Webhook, WriteError, no_downscale::NoDownscale, prepare::Prepare, serve,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::{Cluster, settings};

/// Maximum number of steps of a review: each write may be retried a few times.
const STEPS: usize = 100;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop_oneof![
            "true",
            "StatefulSet",
            "Scale",
            "apps/v1",
            "autoscaling/v1",
            "-1",
            "99999999999999999999",
            "1h",
            "80",
            "/p"
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z/.-]{0,12}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// JSON pointers to the fields of a review that affect decisions.
const PLACES: [&str; 16] = [
    "",
    "/uid",
    "/name",
    "/namespace",
    "/dryRun",
    "/resource",
    "/resource/resource",
    "/object",
    "/oldObject",
    "/object/spec",
    "/object/spec/replicas",
    "/oldObject/spec/replicas",
    "/oldObject/metadata",
    "/oldObject/metadata/labels",
    "/oldObject/metadata/annotations",
    "/oldObject/spec/serviceName",
];

/// Answers the review with any results of its steps.
fn answered(webhook: &mut dyn Webhook, facts: &[u8]) -> bool {
    let mut cluster = Cluster::new();
    let mut facts = facts.iter();
    let mut fact = Fact::Begin;
    for _ in 0..STEPS {
        let step = webhook.advance(fact, Timestamp::UNIX_EPOCH);
        fact = match (step, facts.next()) {
            (Step::Answer(_), _) => return true,
            (_, Some(0)) => Fact::Begin,
            (_, Some(1)) => Fact::Answers(Vec::new()),
            (_, Some(2)) => Fact::Written(Err(WriteError::Conflict)),
            (_, Some(3)) => Fact::Written(Err(WriteError::Failed("no".to_owned()))),
            (_, Some(4)) => Fact::Parent(Ok(Value::Null)),
            (_, Some(5)) => Fact::Zones(Box::new(cluster.zones())),
            (step, _) => cluster.carry_out(step),
        };
    }
    false
}

proptest! {
    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let refused = serve::read(serve::JSON, &body);
        prop_assert!(refused.is_err_and(|refusal| refusal.status == 400));
    }

    #[test]
    fn any_values_in_a_review_and_any_facts(
        changes in prop::collection::vec((prop::sample::select(&PLACES[..]), any_value()), 0..4),
        facts in prop::collection::vec(0..12_u8, 0..12),
    ) {
        let set = super::cluster::set("a");
        let mut new = set.clone();
        new["spec"]["replicas"] = json!(1);
        let mut request = json!({"uid": "u", "name": "a", "namespace": "test", "resource": {"resource": "statefulsets"},
            "object": new, "oldObject": set});
        for (place, value) in changes {
            if let Some(at) = request.pointer_mut(place) {
                *at = value;
            }
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        if let Ok(review) = serve::read(serve::JSON, review.to_string().as_bytes()) {
            let request = review.request;
            prop_assert!(answered(&mut NoDownscale::new(request.clone()), &facts));
            prop_assert!(answered(&mut Prepare::new(request.clone(), settings(), true), &facts));
        }
    }
}
