//! Effect of webhook responses on a request: changes, denials, warnings; and of a webhook that does not respond.

use serde_json::{Value, json};

use crate::harness::{Cx, owners};
use crate::hooks::{Answer, HookServer, Kind, allow, deny, patch};

/// A server with one webhook at `/hook`, and the name of the webhook.
async fn one(cx: &Cx, kind: Kind, more: Value) -> (HookServer, String) {
    let server = HookServer::start().await;
    let hook = server.hook(cx, "/hook", more);
    server.configure(cx, kind, "one", &[hook]).await;
    (server, format!("hook.{}.example", cx.id))
}

fn body(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

#[tokio::test]
async fn a_refusal_has_the_webhooks_status_with_its_name_before_the_message() {
    let cx = Cx::new().await;
    let (server, name) = one(&cx, Kind::Validating, json!({})).await;
    let denied = format!("admission webhook \"{name}\" denied the request");
    let details = json!({"name": "a", "kind": "configmaps", "retryAfterSeconds": 7});
    for (status, code, reason, message) in [
        (json!(null), 400, "", " without explanation"),
        (json!({"message": "no"}), 400, "", ": no"),
        (json!({"reason": "Because"}), 400, "Because", ": Because"),
        (
            json!({"message": "no", "code": 200, "status": "Success"}),
            400,
            "",
            ": no",
        ),
        (
            json!({"message": "no", "code": 403, "reason": "Forbidden"}),
            403,
            "Forbidden",
            ": no",
        ),
        (
            json!({"message": "later", "code": 429, "reason": "TooManyRequests", "details": details}),
            429,
            "TooManyRequests",
            ": later",
        ),
        (json!({"message": "ill", "code": 500}), 500, "", ": ill"),
    ] {
        server.answers("/hook", deny(status.clone()));
        let reply = cx.post(&cx.cm(), &body("a")).await;
        assert_eq!((reply.code, reply.reason()), (code, reason), "{status}");
        assert_eq!(reply.message(), format!("{denied}{message}"), "{status}");
        assert_eq!(
            (&reply.body["kind"], &reply.body["status"], &reply.body["code"]),
            (&json!("Status"), &json!("Failure"), &json!(code)),
            "{status}"
        );
        let retry = status["details"]["retryAfterSeconds"]
            .as_u64()
            .map(|seconds| seconds.to_string());
        let header = reply
            .headers
            .get("retry-after")
            .map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header, retry, "{status}");
        assert_eq!(
            reply.body["details"].get("name"),
            status["details"].get("name"),
            "{status}"
        );
    }
    cx.get(&format!("{}/a", cx.cm()))
        .await
        .refuses(404, "NotFound", "");
}

#[tokio::test]
async fn what_a_webhook_refuses_does_not_happen() {
    let cx = Cx::new().await;
    let (server, _) = one(&cx, Kind::Validating, json!({})).await;
    let made = cx.new_cm("a").await;
    server.answers("/hook", deny(json!({"message": "no"})));
    let path = format!("{}/a", cx.cm());
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}});
    let mut changed = made.clone();
    changed["data"]["k"] = json!("w");
    for reply in [
        cx.put(&path, &changed).await,
        cx.merge(&path, &json!({"data": {"k": "w"}})).await,
        cx.apply("x", &format!("{path}?force=true"), &applied).await,
        cx.delete(&path).await,
        cx.delete(&cx.cm()).await,
    ] {
        reply.refuses(400, "", "denied the request: no");
    }
    assert_eq!(cx.get(&path).await.is(200), made);
}

#[tokio::test]
async fn warnings_reach_the_client_with_and_without_a_refusal() {
    let cx = Cx::new().await;
    let (server, _) = one(&cx, Kind::Validating, json!({})).await;
    server.answers(
        "/hook",
        Answer::Response(json!({"allowed": true, "warnings": ["mind \"the\" gap"]})),
    );
    let reply = cx.post(&cx.cm(), &body("a")).await;
    assert_eq!(
        (reply.code, reply.warnings()),
        (201, vec![r#"299 - "mind \"the\" gap""#.to_owned()])
    );
    server.answers(
        "/hook",
        Answer::Response(json!({"allowed": false, "warnings": ["one", "two"]})),
    );
    let reply = cx.post(&cx.cm(), &body("b")).await;
    assert_eq!(
        (reply.code, reply.warnings()),
        (
            400,
            vec![r#"299 - "one""#.to_owned(), r#"299 - "two""#.to_owned()]
        )
    );
}

#[tokio::test]
async fn mutating_webhooks_change_the_object_one_after_the_other_by_name_of_the_configuration() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    for (name, path) in [("b", "/second"), ("a", "/first")] {
        let hook = server.hook(&cx, path, json!({}));
        server.configure(&cx, Kind::Mutating, name, &[hook]).await;
    }
    let last = server.hook(&cx, "/validating", json!({}));
    server.configure(&cx, Kind::Validating, "v", &[last]).await;
    let first = json!([{"op": "add", "path": "/data/x", "value": "1"}]);
    let second = json!([{"op": "test", "path": "/data/x", "value": "1"}, {"op": "add", "path": "/data/y", "value": "2"}]);
    server.answers("/first", patch(&first));
    server.answers("/second", patch(&second));
    let made = cx.post(&cx.cm(), &body("a")).await.is(201);
    let data = json!({"k": "v", "x": "1", "y": "2"});
    assert_eq!(made["data"], data);
    assert_eq!(server.review_requests("/validating")[0]["object"]["data"], data);
    assert_eq!(server.take_paths(), ["/first", "/second", "/validating"]);
    assert_eq!(cx.get(&format!("{}/a", cx.cm())).await.is(200), made);
}

#[tokio::test]
async fn what_a_webhook_changes_belongs_to_no_manager() {
    let cx = Cx::new().await;
    let (server, _) = one(&cx, Kind::Mutating, json!({})).await;
    server.answers(
        "/hook",
        patch(&json!([{"op": "add", "path": "/data/x", "value": "1"}])),
    );
    let path = format!("{}?fieldManager=m", cx.cm());
    let made = cx.post(&path, &body("a")).await.is(201);
    assert_eq!(made["data"]["x"], "1");
    assert_eq!(owners(&made), [r#"m Update - {"f:data":{".":{},"f:k":{}}}"#]);
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"k": "v"}});
    let made = cx.apply("x", &format!("{}/b", cx.cm()), &applied).await.is(201);
    assert_eq!(made["data"]["x"], "1");
    assert_eq!(owners(&made), [r#"x Apply - {"f:data":{"f:k":{}}}"#]);
    server.answers(
        "/hook",
        patch(&json!([{"op": "replace", "path": "/data/x", "value": "2"}])),
    );
    let path = format!("{}/a?fieldManager=n", cx.cm());
    let changed = cx.merge(&path, &json!({"data": {"k": "w"}})).await.is(200);
    assert_eq!(changed["data"], json!({"k": "w", "x": "2"}));
    let mut managers = owners(&changed);
    managers.sort();
    assert_eq!(
        managers,
        [
            r#"m Update - {"f:data":{}}"#,
            r#"n Update - {"f:data":{"f:k":{}}}"#
        ]
    );
}

#[tokio::test]
async fn the_result_of_a_change_is_defaulted_and_validated() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["statefulsets"]}]);
    let hook = server.hook(&cx, "/hook", json!({"rules": rules}));
    server.configure(&cx, Kind::Mutating, "m", &[hook]).await;
    let path = format!("/apis/apps/v1/namespaces/{}/statefulsets", cx.ns);
    let set = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "replicas": 0, "serviceName": "a", "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }})
    };
    let added = json!({"name": "d", "image": "j"});
    server.answers(
        "/hook",
        patch(&json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": added}])),
    );
    let made = cx.post(&path, &set("a")).await.is(201);
    let container = &made["spec"]["template"]["spec"]["containers"][1];
    assert_eq!(container["terminationMessagePolicy"], "File");
    server.answers(
        "/hook",
        patch(&json!([{"op": "replace", "path": "/spec/selector/matchLabels/app", "value": "b"}])),
    );
    cx.post(&path, &set("b")).await.refuses(
        422,
        "Invalid",
        "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
    );
}

#[tokio::test]
async fn a_webhook_is_asked_again_if_it_wants_to_and_another_one_changed_the_object_after_it() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = [
        server.hook(&cx, "/again", again.clone()),
        server.hook(&cx, "/once", json!({})),
        server.hook(&cx, "/changes", json!({})),
        server.hook(&cx, "/after", again),
    ];
    server.configure(&cx, Kind::Mutating, "m", &hooks).await;
    server.answers(
        "/changes",
        patch(&json!([{"op": "add", "path": "/data/x", "value": "1"}])),
    );
    cx.post(&cx.cm(), &body("a")).await.is(201);
    assert_eq!(
        server.take_paths(),
        ["/again", "/once", "/changes", "/after", "/again"]
    );
}

#[tokio::test]
async fn a_scale_can_be_changed_by_a_webhook() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    let rules = json!([{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}]);
    let hook = server.hook(&cx, "/hook", json!({"rules": rules}));
    server.configure(&cx, Kind::Mutating, "m", &[hook]).await;
    server.answers(
        "/hook",
        patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 3}])),
    );
    let deployment = json!({"metadata": {"name": "a"}, "spec": {
        "replicas": 0, "paused": true, "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    cx.post(&cx.deployments(), &deployment).await.is(201);
    let path = format!("{}/a/scale", cx.deployments());
    let scaled = cx.merge(&path, &json!({"spec": {"replicas": 9}})).await.is(200);
    assert_eq!(scaled["spec"]["replicas"], 3);
    let deployment = cx.get(&format!("{}/a", cx.deployments())).await.is(200);
    assert_eq!(deployment["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_change_of_what_is_deleted_is_an_error() {
    let cx = Cx::new().await;
    let (server, name) = one(&cx, Kind::Mutating, json!({})).await;
    cx.new_cm("a").await;
    server.answers(
        "/hook",
        patch(&json!([{"op": "add", "path": "/data/x", "value": "1"}])),
    );
    cx.delete(&format!("{}/a", cx.cm())).await.refuses(
        500,
        "InternalError",
        &format!("Internal error occurred: admission webhook \"{name}\" attempted to modify the object, which is not supported for this operation"),
    );
}

#[tokio::test]
async fn a_webhook_that_cannot_be_asked_refuses_or_not_by_its_failure_policy() {
    let cx = Cx::new().await;
    let server = HookServer::start().await;
    for (index, (kind, policy)) in [
        (Kind::Mutating, "Fail"),
        (Kind::Mutating, "Ignore"),
        (Kind::Validating, "Fail"),
        (Kind::Validating, "Ignore"),
    ]
    .into_iter()
    .enumerate()
    {
        let label = format!("l{index}");
        let more = json!({"failurePolicy": policy, "timeoutSeconds": 1,
            "objectSelector": {"matchLabels": {"l": label}}, "name": format!("h{index}.{}.example", cx.id)});
        let path = format!("/h{index}");
        let hook = server.hook(&cx, &path, more);
        server.configure(&cx, kind, &label, &[hook]).await;
        server.answers(&path, Answer::Silence);
        let body = json!({"metadata": {"name": label, "labels": {"l": label}}});
        let reply = cx.post(&cx.cm(), &body).await;
        if policy == "Ignore" {
            reply.is(201);
            continue;
        }
        let url = format!("https://{}{path}?timeout=1s", server.address);
        let message = format!(
            "failed calling webhook \"h{index}.{}.example\": failed to call webhook: Post \"{url}\": context deadline exceeded",
            cx.id
        );
        reply.refuses(
            500,
            "InternalError",
            &format!("Internal error occurred: {message}"),
        );
        assert_eq!(reply.body["details"]["causes"], json!([{"message": message}]));
    }
}

#[tokio::test]
async fn what_is_no_answer_is_a_failure() {
    let cx = Cx::new().await;
    let (server, name) = one(&cx, Kind::Validating, json!({})).await;
    let review = |response: Value| {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
            .to_string()
    };
    for (answer, why) in [
        (
            Answer::Raw(500, "oh no".to_owned()),
            "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (
            Answer::Raw(404, String::new()),
            "failed to call webhook: the server could not find the requested resource",
        ),
        (Answer::Raw(200, "{".to_owned()), "failed to call webhook: "),
        (
            Answer::Raw(200, review(Value::Null)),
            "received invalid webhook response: webhook response was absent",
        ),
        (
            Answer::Response(json!({"allowed": true, "uid": "other"})),
            "received invalid webhook response: expected response.uid=\"",
        ),
        (
            patch(&json!([])),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            Answer::Response(json!({"allowed": true, "patchType": "JSONPatch"})),
            "received invalid webhook response: validating webhook may not return response.patchType",
        ),
    ] {
        server.answers("/hook", answer);
        let message = format!("Internal error occurred: failed calling webhook \"{name}\": {why}");
        cx.post(&cx.cm(), &body("a"))
            .await
            .refuses(500, "InternalError", &message);
    }
    server.answers("/hook", allow());
    cx.post(&cx.cm(), &body("a")).await.is(201);
}

#[tokio::test]
async fn a_patch_without_its_type_is_a_failure() {
    let cx = Cx::new().await;
    let (server, name) = one(&cx, Kind::Mutating, json!({})).await;
    let failed = format!("Internal error occurred: failed calling webhook \"{name}\": ");
    for (response, why) in [
        (
            json!({"patch": "W10="}),
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            json!({"patchType": "JSONPatch"}),
            "received invalid webhook response: webhook returned response.patchType but not response.patch",
        ),
        (
            json!({"patch": "W10=", "patchType": ""}),
            "received invalid webhook response: webhook returned invalid response.patchType of \"\"",
        ),
        (
            json!({"patch": "W3sib3AiOiJyZW1vdmUifV0=", "patchType": "MergePatch"}),
            "unsupported patch type \"MergePatch\"",
        ),
        (
            json!({"patch": "eA==", "patchType": "JSONPatch"}),
            "received undecodable patch in webhook response: ",
        ),
    ] {
        let mut response = response;
        response["allowed"] = json!(true);
        server.answers("/hook", Answer::Response(response));
        cx.post(&cx.cm(), &body("a"))
            .await
            .refuses(500, "InternalError", &format!("{failed}{why}"));
    }
    // A patch that cannot be applied is an error regardless of the failure policy.
    server.answers(
        "/hook",
        patch(&json!([{"op": "remove", "path": "/data/nothing"}])),
    );
    cx.post(&cx.cm(), &body("a"))
        .await
        .refuses(500, "InternalError", "Internal error occurred: ");
}

#[tokio::test]
async fn a_webhook_is_trusted_by_the_authority_of_its_configuration_alone() {
    let cx = Cx::new().await;
    let (server, other) = (HookServer::start().await, HookServer::start().await);
    let old = HookServer::with_names(&["localhost"], 400).await;
    let hook = |name: &str, config: Value| {
        server.hook(
            &cx,
            "/hook",
            json!({"name": format!("{name}.{}.example", cx.id), "clientConfig": config, "objectSelector": {"matchLabels": {"l": name}}}),
        )
    };
    let mut foreign = server.config("/hook");
    foreign["caBundle"] = json!(other.authority);
    let mut closed = server.config("/hook");
    closed["url"] = json!("https://127.0.0.1:1/hook");
    let hooks = [
        hook("foreign", foreign),
        hook("old", old.config("/hook")),
        hook("closed", closed),
        hook("good", server.config("/hook")),
    ];
    server.configure(&cx, Kind::Validating, "v", &hooks).await;
    for (name, address, why) in [
        (
            "foreign",
            server.address.to_string(),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ),
        (
            "old",
            old.address.to_string(),
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
        ),
        (
            "closed",
            "127.0.0.1:1".to_owned(),
            "dial tcp 127.0.0.1:1: connect: connection refused",
        ),
    ] {
        let body = json!({"metadata": {"name": name, "labels": {"l": name}}});
        let message = format!(
            "Internal error occurred: failed calling webhook \"{name}.{}.example\": failed to call webhook: Post \"https://{address}/hook?timeout=5s\": {why}",
            cx.id
        );
        cx.post(&cx.cm(), &body)
            .await
            .refuses(500, "InternalError", &message);
    }
    let body = json!({"metadata": {"name": "good", "labels": {"l": "good"}}});
    cx.post(&cx.cm(), &body).await.is(201);
}

#[tokio::test]
async fn a_service_is_found_by_its_external_name_and_checked_by_its_cluster_name() {
    let cx = Cx::new().await;
    let server = HookServer::with_names(&[&format!("hooks.{}.svc", cx.ns)], 0).await;
    let service =
        json!({"metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    cx.post(&cx.core("services"), &service).await.is(201);
    let port = server.address.port();
    let config = |name: &str| json!({"service": {"namespace": cx.ns, "name": name, "path": "/hook", "port": port}, "caBundle": server.authority});
    let hook = |name: &str| {
        server.hook(
            &cx,
            "/hook",
            json!({"name": format!("{name}.{}.example", cx.id), "clientConfig": config(name), "objectSelector": {"matchLabels": {"l": name}}}),
        )
    };
    server
        .configure(&cx, Kind::Validating, "v", &[hook("hooks"), hook("absent")])
        .await;
    let body = |name: &str| json!({"metadata": {"name": name, "labels": {"l": name}}});
    cx.post(&cx.cm(), &body("hooks")).await.is(201);
    assert_eq!(server.review_requests("/hook").len(), 1);
    let message = format!(
        "Internal error occurred: failed calling webhook \"absent.{0}.example\": failed to call webhook: Post \"https://absent.{1}.svc:{port}/hook?timeout=5s\": service \"absent\" not found",
        cx.id, cx.ns
    );
    cx.post(&cx.cm(), &body("absent"))
        .await
        .refuses(500, "InternalError", &message);
}
