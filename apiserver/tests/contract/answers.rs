//! Rejected requests, each with its response.

use serde_json::{Value, json};

use crate::harness::{APPLY, Cx, JSON_PATCH, MERGE, Reply, STRATEGIC, widgets};

/// Each case has its name; method, path and body; code, reason and a part of the message (the whole one after `=`, its
/// end after `…`); then the details, or all causes. A ConfigMap and a widget exist, both with the name `a`.
const CASES: &str = r#"
an object needs a name
POST $cm {"metadata": {}}
422 Invalid: name or generateName is required

names are DNS subdomains
POST $cm {"metadata": {"name": "Not_A_Name"}}
422 Invalid: a lowercase RFC 1123 subdomain must consist of

a name of RBAC is not the parent of its path
POST $roles {"metadata": {"name": ".."}}
422 Invalid: may not be '..'

a name of RBAC has no slash
POST $roles {"metadata": {"name": "a/b"}}
422 Invalid: may not contain '/'

a name of RBAC has no percent sign
POST $roles {"metadata": {"name": "a%2Fb"}}
422 Invalid: may not contain '%'

labels are checked
POST $cm {"metadata": {"name": "b", "labels": {"bad key!": "v"}}}
422 Invalid: metadata.labels: Invalid value: "bad key!"

a second create is already exists
POST $cm {"metadata": {"name": "a"}}
409 AlreadyExists: configmaps "a" already exists
details {"name": "a", "kind": "configmaps"}

an absent object is not found with details
GET $cm/nope
404 NotFound: configmaps "nope" not found
details {"name": "nope", "kind": "configmaps"}

an absent custom object has its group in the message
GET $widgets/nope
404 NotFound: widgets.$group "nope" not found
details {"name": "nope", "group": "$group", "kind": "widgets"}

a merge patch of an absent object names it
MERGE $cm/nope {}
404 NotFound: configmaps "nope" not found
details {"name": "nope", "kind": "configmaps"}

an apply to the status of an absent object is not found
APPLY $widgets/b/status?fieldManager=x {$b, "status": {"note": "hi"}}
404 NotFound: "b" not found

an apply into a missing namespace names the namespace
APPLY /api/v1/namespaces/nope/configmaps/b?fieldManager=x {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
404 NotFound: namespaces "nope" not found
details {"name": "nope", "kind": "namespaces"}

an apply of a custom resource into a missing namespace too
APPLY /apis/$group/v1/namespaces/nope/widgets/b?fieldManager=x {$b}
404 NotFound: namespaces "nope" not found
details {"name": "nope", "kind": "namespaces"}

a body for another namespace
POST $cm {"metadata": {"name": "b", "namespace": "other"}}
400 BadRequest: the namespace of the provided object does not match the namespace sent on the request

a PUT to another name
PUT $cm/b {"metadata": {"name": "a"}}
400 BadRequest: the name of the object (a) does not match the name on the URL (b)

an apply with another version
APPLY $cm/b?fieldManager=x {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "b"}}
400 BadRequest:

a body that is no JSON
POST $cm {
400 BadRequest:

a key that appears twice, where that is strict
POST $widgets?fieldValidation=Strict {$b, "spec": {"num": 1, "num": 2}}
400 BadRequest: strict decoding error: duplicate field "spec.num"

a create with a resourceVersion
POST $cm {"metadata": {"name": "b", "resourceVersion": "1"}}
500 : resourceVersion should not be set on objects to be created

a PUT of a custom resource needs a version
PUT $widgets/a {$a, "spec": {"num": 2}}
422 Invalid: metadata.resourceVersion: Invalid value
cause FieldValueInvalid metadata.resourceVersion: Invalid value: 0: must be specified for an update

a bad continue token
GET $cm?limit=1&continue=odd
400 BadRequest:

a strategic patch of a custom resource is not supported
STRATEGIC $widgets/a {"spec": {"num": 2}}
415 UnsupportedMediaType:

an unknown type of a patch is not supported
ODD $cm/a {}
415 UnsupportedMediaType:

a JSON patch that adds an item of a list map twice is a duplicate
JSON $widgets/a [{"op": "add", "path": "/spec/items/-", "value": {"name": "i"}}]
422 Invalid: Duplicate value
cause FieldValueDuplicate spec.items[1]: Duplicate value: {"name":"i"}

an apply needs a field manager
APPLY $widgets/b {$b, "spec": {}}
422 Invalid: fieldManager: Required value: is required for apply patch

a wrong type in an apply is a 500
APPLY $widgets/b?fieldManager=x {$b, "spec": {"num": "1"}}
500 := failed to create typed patch object (/b; $group/v1, Kind=Widget): .spec.num: expected numeric (int or float), got string

an unknown field in an apply is a 500
APPLY $widgets/b?fieldManager=x {$b, "spec": {"bogus": 1}}
500 :… : .spec.bogus: field not declared in schema

an unknown field in a strict apply is a 500
APPLY $widgets/b?fieldManager=x&fieldValidation=Strict {$b, "spec": {"bogus": 1}}
500 :… : .spec.bogus: field not declared in schema

an unknown field in an apply that asks for warnings is a 500
APPLY $widgets/b?fieldManager=x&fieldValidation=Warn {$b, "spec": {"bogus": 1}}
500 :… : .spec.bogus: field not declared in schema

an unknown field in an apply that ignores them is a 500
APPLY $widgets/b?fieldManager=x&fieldValidation=Ignore {$b, "spec": {"bogus": 1}}
500 :… : .spec.bogus: field not declared in schema

items with the same key may not be applied
APPLY $widgets/b?fieldManager=x {$b, "spec": {"items": [{"name": "i"}, {"name": "i"}]}}
500 :… : .spec.items: duplicate entries for key [name="i"]

an item without its key may not be applied
APPLY $widgets/b?fieldManager=x {$b, "spec": {"items": [{"a": 1}]}}
500 : associative list with keys has an element that omits all key fields ["name"]

a broken rule is reported at its node
POST $widgets {$b, "spec": {"num": 11}}
422 Invalid: spec: Invalid value: num must be at most 10
cause FieldValueInvalid spec: Invalid value: num must be at most 10

a wrong type keeps rules from running
POST $widgets {$b, "spec": {"num": "1"}}
422 Invalid:
cause FieldValueTypeInvalid spec.num: Invalid value: "string": spec.num in body must be of type integer: "string"
cause FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation

sets and list maps have each item once
POST $widgets {$b, "spec": {"tags": ["a", "b", "a"], "items": [{"name": "i"}, {"name": "i"}]}}
422 Invalid:
cause FieldValueDuplicate spec.tags[2]: Duplicate value: "a"
cause FieldValueDuplicate spec.items[1]: Duplicate value: {"name":"i"}

several causes stand in one status
POST $widgets {$b, "spec": {"num": 11, "text": "ABC"}}
422 Invalid: is invalid: [
cause FieldValueInvalid spec.text: Invalid value: "ABC": spec.text in body should match '^[a-z]+$'
cause FieldValueInvalid spec: Invalid value: num must be at most 10

initial events of a watch need a version match
GET $widgets?watch=1&sendInitialEvents=true&allowWatchBookmarks=true
422 Invalid: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan

a watch from a version that is no number
GET $widgets?watch=1&resourceVersion=odd
500 :

names of ports are unique
POST $services {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}, "spec": {"ports": [{"name": "http", "port": 80}, {"name": "http", "port": 8080}]}}
422 Invalid:
cause FieldValueDuplicate spec.ports[1].name: Duplicate value: "http"
"#;

async fn send_text_request(cx: &Cx, request: &str) -> Reply {
    let (method, rest) = request.split_once(' ').unwrap();
    let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let (method, kind) = match method {
        "APPLY" => ("PATCH", APPLY),
        "MERGE" => ("PATCH", MERGE),
        "JSON" => ("PATCH", JSON_PATCH),
        "STRATEGIC" => ("PATCH", STRATEGIC),
        "ODD" => ("PATCH", "application/x-odd"),
        other => (other, "application/json"),
    };
    let body = (!body.is_empty()).then(|| body.to_owned());
    let headers = [("content-type", kind)];
    let headers = if body.is_some() { &headers[..] } else { &[] };
    cx.send(method.parse().unwrap(), path, headers, body).await
}

/// Whether a response matches the lines after the request; if not, why.
fn check(reply: &Reply, lines: &[&str]) -> Result<(), String> {
    let (code, rest) = lines[0].split_once(' ').unwrap();
    let (reason, message) = rest.split_once(':').unwrap();
    let actual = (reply.code.to_string(), reply.reason());
    let message_matches = match (message.strip_prefix("= "), message.strip_prefix("… ")) {
        (Some(whole), _) => reply.message() == whole,
        (_, Some(end)) => reply.message().ends_with(end),
        _ => reply.message().contains(message.trim()),
    };
    if (actual.0.as_str(), actual.1) != (code, reason.trim()) || !message_matches {
        return Err(lines[0].to_owned());
    }
    let details = lines.iter().find_map(|line| line.strip_prefix("details "));
    if let Some(details) = details
        && reply.body["details"] != serde_json::from_str::<Value>(details).unwrap()
    {
        return Err(format!("details {details}"));
    }
    let mut causes: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("cause "))
        .collect();
    causes.sort_unstable();
    if causes.is_empty() || reply.all_causes() == causes {
        return Ok(());
    }
    Err(format!("{causes:#?}"))
}

#[tokio::test]
async fn each_refusal_has_its_code_its_reason_and_its_message() {
    let (cx, widgets) = widgets().await;
    cx.new_cm("a").await;
    widgets
        .post("a", &json!({"items": [{"name": "i"}]}))
        .await
        .is(201);
    let object = |name: &str| {
        let api_version = &widgets.api_version;
        format!(r#""apiVersion": "{api_version}", "kind": "Widget", "metadata": {{"name": "{name}"}}"#)
    };
    let cases = CASES
        .replace("$cm", &cx.cm())
        .replace("$services", &cx.core("services"))
        .replace("$roles", "/apis/rbac.authorization.k8s.io/v1/clusterroles")
        .replace("$widgets", &widgets.path)
        .replace("$group", &widgets.group)
        .replace("{$a", &format!("{{{}", object("a")))
        .replace("{$b", &format!("{{{}", object("b")));
    let mut wrong = Vec::new();
    for case in cases.trim().split("\n\n") {
        let lines: Vec<&str> = case.lines().collect();
        let reply = send_text_request(&cx, lines[1]).await;
        if let Err(expected) = check(&reply, &lines[2..]) {
            wrong.push(format!(
                "{}: expected {expected}\n{} {}",
                lines[0], reply.code, reply.text
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
