//! Checks in-place updates of Machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::{DynamicObject, ObjectMeta},
};
use muster_api::{
    UpdatePlan,
    duration::Duration,
    labels::{annotation, label},
    selector::Matcher,
    update_plan::MachineUpdateState,
};
use serde_json::{Value, json};

use super::super::{
    code::Code,
    finding::{Finding, each},
    machines::{Machines, Updates},
};

/// The hook by which Cluster API updates a Machine in place.
const HOOK: &str = "UpdateMachine";
/// A Machine with this annotation is not remediated.
const SKIPPED: &str = "cluster.x-k8s.io/skip-remediation";
/// The most names on one line.
const SHOWN: usize = 3;

pub(crate) fn judge(machines: &Machines) -> Vec<Finding> {
    let mut findings = match &machines.extensions {
        Ok(extensions) => policies(extensions),
        Err(why) => vec![Finding::unknown(
            Code::FailurePolicy,
            "extensions of Cluster API",
            why,
        )],
    };
    findings.extend(match &machines.updates {
        Ok(updates) => remediations(updates),
        Err(why) => vec![Finding::unknown(
            Code::Remediation,
            "whether MachineHealthChecks give in-place updates enough time",
            why,
        )],
    });
    findings
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// No finding if no extension updates Machines.
fn policies(extensions: &[DynamicObject]) -> Vec<Finding> {
    let handlers = extensions.iter().flat_map(|extension| {
        let handlers = items(&extension.data, "/status/handlers");
        handlers.map(move |handler| (extension.name_any(), handler))
    });
    let updating: Vec<(String, &Value)> = handlers
        .filter(|(_, handler)| text(handler, "/requestHook/hook") == HOOK)
        .collect();
    if updating.is_empty() {
        return Vec::new();
    }
    let ignoring = updating
        .iter()
        .filter(|(_, handler)| text(handler, "/failurePolicy") == "Ignore");
    let ignoring = ignoring.map(|(extension, handler)| {
        Finding::warning(
            Code::FailurePolicy,
            format!("handler {} of {HOOK} has failurePolicy Ignore", text(handler, "/name")),
        )
        .about(format!("extensionconfig/{extension}"))
        .reason(
            "a connection error, a timeout, a status other than 200 or an invalid response counts as success: Cluster API considers the Machine updated although nothing was changed",
        )
        .remedy(
            "have the extension answer Discovery with failurePolicy Fail, or call it as an updater of muster machines (docs/machines.md); then: \
             kubectl get extensionconfigs -o yaml",
        )
    });
    each(
        Code::FailurePolicy,
        || format!("no failed call of {HOOK} counts as success"),
        ignoring.collect(),
    )
}

/// No finding if no update is in progress or pending.
fn remediations(updates: &Updates) -> Vec<Finding> {
    if updates.plans.is_empty() {
        return Vec::new();
    }
    let early = updates.checks.iter().filter_map(|check| early(check, updates));
    each(
        Code::Remediation,
        || "no MachineHealthCheck remediates before an in-place update can finish".to_owned(),
        early.collect(),
    )
}

/// The finding if a MachineHealthCheck would remediate before an update can finish.
fn early(check: &DynamicObject, updates: &Updates) -> Option<Finding> {
    if check.annotations().contains_key(annotation::CAPI_PAUSED) {
        return None;
    }
    let patience = patience(check)?;
    let longer = updates.plans.iter().filter_map(|plan| {
        let (takes, machines) = (length(plan), in_reach(check, plan, updates));
        (takes > patience && !machines.is_empty()).then_some((takes, plan, machines))
    });
    let (takes, plan, machines) = longer.max_by_key(|(takes, ..)| *takes)?;
    let (name, namespace) = (check.name_any(), check.namespace().unwrap_or_default());
    let machines = muster_dashboard::listed(machines, SHOWN);
    let finding = Finding::warning(
        Code::Remediation,
        format!("it remediates after {patience}, and an update in place may take {takes}"),
    );
    Some(
        finding
            .about(format!("machinehealthcheck/{name}"))
            .reason(format!(
                "the steps of UpdatePlan {} have {takes} together for each of {machines}: a Machine that is unhealthy for longer than {patience} \
                 meanwhile is remediated, which is to say replaced, during its update",
                plan.name_any()
            ))
            .remedy(format!(
                "set its timeouts to {} s or more; or until the update is over: kubectl annotate machinehealthcheck/{name} -n {namespace} {}=true",
                takes.as_millis().div_ceil(1_000),
                annotation::CAPI_PAUSED
            )),
    )
}

/// How long a Machine may be unhealthy: the shortest timeout of all conditions.
fn patience(check: &DynamicObject) -> Option<Duration> {
    let of = |conditions: &str| items(&check.data, &format!("/spec/checks/{conditions}"));
    let all = of("unhealthyNodeConditions").chain(of("unhealthyMachineConditions"));
    // As in Cluster API: a condition without a timeout is ignored.
    let seconds = all.map(|condition| {
        condition
            .get("timeoutSeconds")
            .and_then(Value::as_u64)
            .unwrap_or(0)
    });
    seconds.min().map(Duration::from_secs)
}

/// How long all steps of a plan may take with one Machine.
fn length(plan: &UpdatePlan) -> Duration {
    let steps = plan.spec.steps.iter().map(|step| step.deadline.as_millis());
    Duration::from_millis(steps.fold(0, u64::saturating_add))
}

/// The Machines that a plan has yet to update, and that a MachineHealthCheck may remediate.
fn in_reach<'a>(check: &DynamicObject, plan: &'a UpdatePlan, updates: &Updates) -> Vec<&'a str> {
    let selector = check.data.pointer("/spec/selector");
    let selector = selector.cloned().unwrap_or_else(|| json!({}));
    // Cluster API ignores a selector that cannot be parsed.
    let Ok(selector) = serde_json::from_value::<LabelSelector>(selector) else {
        return Vec::new();
    };
    let Ok(matcher) = Matcher::new(Some(&selector)) else {
        return Vec::new();
    };
    let is_reached = |machine: &ObjectMeta| {
        let annotations = machine.annotations.as_ref();
        let is_left = [annotation::CAPI_PAUSED, SKIPPED]
            .iter()
            .any(|key| annotations.is_some_and(|annotations| annotations.contains_key(*key)));
        let labels = machine.labels.clone().unwrap_or_default();
        let cluster = labels.get(label::CAPI_CLUSTER_NAME).map_or("", String::as_str);
        machine.namespace == check.metadata.namespace
            && cluster == text(&check.data, "/spec/clusterName")
            && matcher.matches(&labels)
            && !is_left
    };
    let entries = plan.status.iter().flat_map(|status| &status.machines);
    entries
        .filter(|entry| entry.state != MachineUpdateState::Updated)
        .filter(|entry| updates.machines.get(&entry.uid).is_some_and(is_reached))
        .map(|entry| entry.name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {

    use super::{super::super::finding::Level, *};

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn extension(name: &str, handlers: &Value) -> DynamicObject {
        object(json!({"metadata": {"name": name}, "status": {"handlers": handlers}}))
    }

    fn handler(hook: &str, policy: &str) -> Value {
        json!({"name": format!("h.{hook}"), "requestHook": {"hook": hook}, "failurePolicy": policy})
    }

    /// The object and text of each finding that is not healthy.
    fn unwell(findings: &[Finding]) -> Vec<String> {
        let unwell = findings.iter().filter(|finding| finding.level != Level::Ok);
        unwell
            .map(|finding| {
                format!(
                    "{}: {}",
                    finding.about.as_deref().unwrap_or_default(),
                    finding.text
                )
            })
            .collect()
    }

    #[test]
    fn only_update_machine_may_not_ignore() {
        let outcome = |handlers: Value| {
            let findings = policies(&[extension("os", &handlers)]);
            (findings.len(), unwell(&findings))
        };
        let warned = "extensionconfig/os: handler h.UpdateMachine of UpdateMachine has failurePolicy Ignore";
        // An extension that updates no Machine, or that was not discovered yet, has no finding.
        assert_eq!(
            outcome(json!([handler("GeneratePatches", "Ignore")])),
            (0, vec![])
        );
        assert_eq!(outcome(json!(null)), (0, vec![]));
        assert_eq!(outcome(json!([handler(HOOK, "Fail")])), (1, vec![]));
        // The default policy is Fail.
        assert_eq!(
            outcome(json!([{"name": "h", "requestHook": {"hook": HOOK}}])),
            (1, vec![])
        );
        assert_eq!(
            outcome(json!([
                handler("CanUpdateMachine", "Ignore"),
                handler(HOOK, "Fail")
            ])),
            (1, vec![])
        );
        assert_eq!(
            outcome(json!([handler(HOOK, "Ignore")])),
            (1, vec![warned.to_owned()])
        );
        let two = policies(&[
            extension("muster-machines", &json!([handler(HOOK, "Fail")])),
            extension("os", &json!([handler(HOOK, "Ignore")])),
        ]);
        assert_eq!(unwell(&two), [warned]);
    }

    fn plan(name: &str, deadlines: &[&str], machines: &[(&str, &str)]) -> UpdatePlan {
        let steps: Vec<Value> = deadlines
            .iter()
            .map(|deadline| json!({"updater": "os", "acknowledgement": "Digest", "deadline": deadline}))
            .collect();
        let machines: Vec<Value> = machines
            .iter()
            .map(|(machine, state)| json!({"name": machine, "uid": machine, "state": state}))
            .collect();
        let spec = json!({"level": "MachineSet", "source": "old", "from": "a", "to": "b", "steps": steps, "current": "{}", "desired": "{}"});
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": spec, "status": {"machines": machines}}),
        )
        .unwrap()
    }

    /// A MachineHealthCheck of Cluster c-1 for the Machines of a pool; timeouts of Nodes and of Machines, in seconds.
    fn check(nodes: &[u32], machines: &[u32]) -> Value {
        let of = |timeouts: &[u32]| -> Vec<Value> {
            let timeouts = timeouts.iter();
            timeouts
                .map(|timeout| json!({"type": "Ready", "status": "False", "timeoutSeconds": timeout}))
                .collect()
        };
        json!({
            "metadata": {"name": "workers", "namespace": "fleet"},
            "spec": {
                "clusterName": "c-1", "selector": {"matchLabels": {"pool": "a"}},
                "checks": {"nodeStartupTimeoutSeconds": 1, "unhealthyNodeConditions": of(nodes), "unhealthyMachineConditions": of(machines)},
            },
        })
    }

    fn machine(name: &str, labels: &Value, annotations: &Value) -> (String, ObjectMeta) {
        let machine = json!({"name": name, "namespace": "fleet", "uid": name, "labels": labels, "annotations": annotations});
        (name.to_owned(), serde_json::from_value(machine).unwrap())
    }

    /// m-1 and m-2 of the pool, and others that such a MachineHealthCheck does not select.
    fn updates(plans: Vec<UpdatePlan>, checks: Vec<Value>) -> Updates {
        let (cluster, paused) = (label::CAPI_CLUSTER_NAME, annotation::CAPI_PAUSED);
        let of_pool = json!({cluster: "c-1", "pool": "a"});
        let machines = [
            machine("m-1", &of_pool, &json!({})),
            machine("m-2", &of_pool, &json!({})),
            machine("other-pool", &json!({cluster: "c-1", "pool": "b"}), &json!({})),
            machine("other-cluster", &json!({cluster: "c-2", "pool": "a"}), &json!({})),
            machine("skipped", &of_pool, &json!({SKIPPED: ""})),
            machine("paused", &of_pool, &json!({paused: ""})),
        ];
        Updates {
            plans,
            checks: checks.into_iter().map(object).collect(),
            machines: machines.into(),
        }
    }

    #[test]
    fn a_machine_health_check_is_named_that_ends_before_an_update_may() {
        let warnings = |deadlines: &[&str], machines: &[(&str, &str)], check: Value| {
            unwell(&remediations(&updates(
                vec![plan("p", deadlines, machines)],
                vec![check],
            )))
        };
        let (steps, updating) = (["30m", "60m"], [("m-1", "Updating")]);
        let warned = |patience: &str| {
            vec![format!(
                "machinehealthcheck/workers: it remediates after {patience}, and an update in place may take 1h30m"
            )]
        };
        // The shortest timeout of Nodes and Machines counts, and the sum of the deadlines of all steps.
        assert_eq!(
            warnings(&steps, &updating, check(&[5_400, 300], &[])),
            warned("5m")
        );
        assert_eq!(
            warnings(&steps, &updating, check(&[5_400], &[3_600])),
            warned("1h")
        );
        assert_eq!(
            warnings(&steps, &updating, check(&[5_399], &[])),
            warned("1h29m59s")
        );
        let nothing: Vec<String> = Vec::new();
        assert_eq!(warnings(&steps, &updating, check(&[5_400], &[5_400])), nothing);
        assert_eq!(
            warnings(&steps, &updating, check(&[], &[])),
            nothing,
            "a Machine has its Node already"
        );
        // A Machine that is still to be updated is affected; one that is updated, gone, or not selected is not.
        for (machine, state, is_named) in [
            ("m-1", "Pending", true),
            ("m-1", "Failed", true),
            ("m-1", "Updated", false),
            ("gone", "Updating", false),
            ("other-pool", "Updating", false),
            ("other-cluster", "Updating", false),
            ("skipped", "Updating", false),
            ("paused", "Updating", false),
        ] {
            let expect = if is_named { warned("5m") } else { Vec::new() };
            assert_eq!(
                warnings(&steps, &[(machine, state)], check(&[300], &[])),
                expect,
                "{machine} {state}"
            );
        }
        let mut paused = check(&[300], &[]);
        paused["metadata"]["annotations"] = json!({annotation::CAPI_PAUSED: ""});
        assert_eq!(warnings(&steps, &updating, paused), nothing);
        let mut elsewhere = check(&[300], &[]);
        elsewhere["metadata"]["namespace"] = json!("other");
        assert_eq!(warnings(&steps, &updating, elsewhere), nothing);
    }

    #[test]
    fn the_longest_plan_is_reported_with_both_durations_and_the_fix() {
        let plans = vec![
            plan("short", &["10m"], &[("m-1", "Updating")]),
            plan(
                "long",
                &["30m", "15500ms"],
                &[("m-1", "Pending"), ("m-2", "Updating")],
            ),
            plan("longest-of-others", &["9h"], &[("other-pool", "Updating")]),
        ];
        let findings = remediations(&updates(plans, vec![check(&[300], &[])]));
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!(finding.code, "MST1702");
        let reason = finding.reason.as_deref().unwrap();
        assert!(
            reason.starts_with("the steps of UpdatePlan long have 30m15s500ms together for each of m-"),
            "{reason}"
        );
        assert!(
            reason.contains("longer than 5m") && reason.contains("replaced, during its update"),
            "{reason}"
        );
        let remedy = finding.remedy.as_deref().unwrap();
        assert_eq!(
            remedy,
            "set its timeouts to 1816 s or more; or until the update is over: kubectl annotate machinehealthcheck/workers -n fleet \
             cluster.x-k8s.io/paused=true"
        );
    }

    #[test]
    fn what_is_not_there_is_not_spoken_of_and_what_is_well_is_one_line() {
        let nothing = Machines {
            extensions: Ok(Vec::new()),
            updates: Ok(Updates::default()),
        };
        assert_eq!(judge(&nothing), []);
        let well = Machines {
            extensions: Ok(vec![extension(
                "muster-machines",
                &json!([handler(HOOK, "Fail")]),
            )]),
            updates: Ok(updates(
                vec![plan("p", &["30m"], &[("m-1", "Updating")])],
                vec![check(&[1_800], &[])],
            )),
        };
        let findings = judge(&well);
        assert_eq!((findings.len(), unwell(&findings)), (2, Vec::new()));
        let hidden = Machines {
            extensions: Err("403".to_owned()),
            updates: Err("403".to_owned()),
        };
        let levels: Vec<Level> = judge(&hidden).iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Unknown, Level::Unknown]);
    }
}
