//! Promise: of a kubeconfig in a Secret only harmless fields are used; every other one is rejected by its name, and no
//! value is ever shown.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use muster_controllers::{hosts::Hosts, registry::kubeconfig::parse_kubeconfig};
use serde_json::{Value, json};

const TOKEN: &str = "hunter2-token";
const NOT_HTTP: &str =
    "is not an address of an HTTP proxy (http:// or https://); others, such as socks5, are not supported";

fn good() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "eu-1",
        "contexts": [{"name": "eu-1", "context": {"cluster": "c", "user": "u", "namespace": "x"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://eu-1.example.org:6443", "certificate-authority-data": "Q0E="}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    })
}

/// A valid kubeconfig with another value at a JSON pointer; null removes it.
fn with(pointer: &str, value: Value) -> Value {
    let mut config = good();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(field)
    } else {
        parent.insert(field.to_owned(), value)
    };
    config
}

fn check(config: &Value, expect: &str) {
    let error = parse_kubeconfig(config.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), expect, "{config}");
    assert!(!format!("{error:?}{error}").contains("hunter2"), "{error:?}");
}

#[test]
fn a_proxy_is_taken_where_its_host_is_allowed() {
    let proxy = |url: &str| with("/clusters/0/cluster/proxy-url", json!(url));
    let text = proxy("http://user:hunter2@Proxy.test:3128").to_string();
    let access = parse_kubeconfig(text.as_bytes()).unwrap();
    assert_eq!(
        access.proxy.as_ref().unwrap().url().as_str(),
        "http://user:hunter2@proxy.test:3128/"
    );
    assert!(!format!("{access:?}").contains("hunter2"), "{access:?}");
    let hosts = |hosts: &[&str]| hosts.iter().map(|host| host.parse().unwrap()).collect::<Hosts>();
    for others in [
        &[][..],
        &["proxy.test"],
        &["proxy.test:3129", "a.proxy.test:3128"],
    ] {
        let error = access.clone().admit(&hosts(others)).unwrap_err().to_string();
        assert_eq!(
            error,
            "field proxy-url: proxy proxy.test:3128 is not allowed; start the controller with --proxy-hosts proxy.test:3128, or remove the field"
        );
    }
    let admitted = access.clone().admit(&hosts(&["proxy.test:3128"])).unwrap();
    assert_eq!(admitted, access);
    for (url, problem) in [
        ("https://hunter2.test:3128", "must be http:// and a host"),
        ("socks5://hunter2.test", NOT_HTTP),
        ("http://proxy.test/hunter2", "has a path; set only host and port"),
    ] {
        check(
            &proxy(url),
            &format!("field clusters[c].cluster.proxy-url: {problem}"),
        );
    }
}

#[test]
fn the_current_context_is_taken() {
    let mut config = with("/clusters/0/cluster/tls-server-name", json!("kubernetes"));
    config["users"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "other", "user": {"exec": {"command": "sh"}}}));
    let access = parse_kubeconfig(config.to_string().as_bytes()).unwrap();
    assert_eq!(access.server, "https://eu-1.example.org:6443");
    assert_eq!(access.certificate_authority, b"CA");
    assert_eq!(access.tls_server_name.as_deref(), Some("kubernetes"));
    assert_eq!(
        access.token.as_ref().map(|token| token.expose().as_str()),
        Some(TOKEN)
    );
    assert!(!format!("{access:?}").contains("hunter2"), "{access:?}");
}

#[test]
fn yaml_and_client_certificates_are_taken() {
    let yaml = "\
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters:
- name: c
  cluster:
    server: https://[::1]:6443
    insecure-skip-tls-verify: false
    certificate-authority-data: |
      Q0
      E=
users:
- name: u
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: aHVudGVyMi1rZXk=
";
    let access = parse_kubeconfig(yaml.as_bytes()).unwrap();
    assert_eq!(access.certificate_authority, b"CA");
    let (certificate, key) = access.client_certificate.clone().unwrap();
    assert_eq!(
        (certificate.as_slice(), key.expose().as_slice()),
        (&b"CERT"[..], &b"hunter2-key"[..])
    );
    // As bytes it would be printed as numbers.
    assert!(!format!("{access:?}").contains(&format!("{:?}", b"hunter2-key")));
}

#[test]
fn every_other_field_is_refused_by_name() {
    let file = "it would read a file of this host; put the content into the field with the suffix -data, or into token";
    let program = "it would run a program on this host";
    let other = "impersonation is not supported";
    let basic =
        "basic authentication is no longer supported by API servers; use token or client-certificate-data";
    let unknown = "muster does not know it";
    let user = |field: &str, value: Value, why: &str| {
        check(
            &with(&format!("/users/0/user/{field}"), value),
            &format!("field users[u].user.{field} is not allowed: {why}"),
        );
    };
    user(
        "exec",
        json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "hunter2"}),
        program,
    );
    user(
        "auth-provider",
        json!({"name": "gcp", "config": {"cmd-path": "/bin/sh"}}),
        program,
    );
    user(
        "tokenFile",
        json!("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        file,
    );
    user("client-certificate", json!("/etc/cert"), file);
    user("client-key", json!("/etc/key"), file);
    user("as", json!("system:admin"), other);
    user("as-uid", json!("1"), other);
    user("as-groups", json!(["system:masters"]), other);
    user("as-user-extra", json!({"a": ["b"]}), other);
    user("username", json!("hunter2"), basic);
    user("password", json!("hunter2"), basic);
    user("impersonate-everyone", json!(true), unknown);
    let cluster = |field: &str, value: Value, why: &str| {
        check(
            &with(&format!("/clusters/0/cluster/{field}"), value),
            &format!("field clusters[c].cluster.{field} is not allowed: {why}"),
        );
    };
    cluster("certificate-authority", json!("/etc/ca"), file);
    let anybody = "any server could impersonate the API server; use certificate-authority-data";
    cluster("insecure-skip-tls-verify", json!(true), anybody);
    cluster("insecure-skip-tls-verify", json!("false"), anybody);
    cluster(
        "server",
        json!("http://eu-1:8080"),
        "http:// would send the credential in clear; use https://",
    );
    cluster("sni-override", json!("x"), unknown);
    check(
        &with("/contexts/0/context/as", json!("x")),
        "field contexts[eu-1].context.as is not allowed: muster does not know it",
    );
    check(
        &with("/contexts/0/exec", json!({})),
        "field contexts[eu-1].exec is not allowed: muster does not know it",
    );
    check(
        &with("/include", json!("other.yaml")),
        "field include is not allowed: muster does not know it",
    );
}

#[test]
fn what_must_be_there_is_missed_by_name() {
    for (pointer, missed) in [
        ("/current-context", "current-context"),
        ("/contexts", "contexts"),
        ("/contexts/0/context/cluster", "contexts[eu-1].context.cluster"),
        ("/contexts/0/context/user", "contexts[eu-1].context.user"),
        ("/clusters/0/cluster/server", "clusters[c].cluster.server"),
        (
            "/clusters/0/cluster/certificate-authority-data",
            "clusters[c].cluster.certificate-authority-data",
        ),
        (
            "/users/0/user/token",
            "users[u].user.token or client-certificate-data",
        ),
        ("/users/0/user", "users[u].user"),
    ] {
        check(&with(pointer, Value::Null), &format!("field {missed} is missing"));
    }
    check(
        &with("/current-context", json!("other")),
        "field contexts[other] is missing",
    );
    check(
        &with("/users/0/name", json!("other")),
        "field users[u] is missing",
    );
    check(
        &with("/users/0/user/client-certificate-data", json!("Q0E=")),
        "field users[u].user.client-key-data is missing",
    );
    check(
        &with("/users/0/user/client-key-data", json!("Q0E=")),
        "field users[u].user.client-certificate-data is missing",
    );
}

#[test]
fn a_name_writes_nothing_into_a_terminal() {
    let unknown = "is not allowed: muster does not know it";
    check(
        &with("/users/0/user/\u{1b}[2J\u{202e}", json!(1)),
        &format!("field users[u].user.\\u{{1b}}[2J\\u{{202e}} {unknown}"),
    );
    check(
        &with(&format!("/{}", "x".repeat(1000)), json!(1)),
        &format!("field {} {unknown}", "x".repeat(253)),
    );
}

#[test]
fn forms_are_checked() {
    for (server, problem) in [
        ("eu-1:6443", "must be https:// and a host"),
        ("ftp://eu-1", "must be https:// and a host"),
        ("https://user:hunter2@eu-1", "must have no user and no query"),
        ("https://eu-1?a=b", "must have no user and no query"),
        ("https://a b", "not a URL"),
    ] {
        check(
            &with("/clusters/0/cluster/server", json!(server)),
            &format!("field clusters[c].cluster.server: {problem}"),
        );
    }
    check(
        &with("/users/0/user/token", json!(["hunter2"])),
        "field users[u].user.token: must be a string",
    );
    check(
        &with(
            "/clusters/0/cluster/certificate-authority-data",
            json!("hunter2!"),
        ),
        "field clusters[c].cluster.certificate-authority-data: must be base64",
    );
    check(&with("/users", json!({})), "field users: must be a list");
    check(&json!("hunter2"), "field (document): must be a mapping");
    let mut twice = good();
    let user = twice["users"][0].clone();
    twice["users"].as_array_mut().unwrap().push(user);
    check(&twice, "field users: has two entries with the name that is used");
    assert_eq!(
        parse_kubeconfig(b"a: [hunter2")
            .unwrap_err()
            .to_string()
            .split(" (")
            .next(),
        Some("the kubeconfig is not YAML")
    );
    assert_eq!(
        parse_kubeconfig(b"token: a\ntoken: hunter2")
            .unwrap_err()
            .to_string(),
        "the kubeconfig is not YAML (line 2)"
    );
    assert_eq!(
        parse_kubeconfig(b"\xff\xfe").unwrap_err().to_string(),
        "the kubeconfig is not YAML"
    );
    assert_eq!(
        parse_kubeconfig(&vec![b' '; 300_000]).unwrap_err().to_string(),
        "the kubeconfig has 300000 bytes, at most 262144 are read"
    );
}

/// `token: |` and `--from-file` leave a trailing line feed.
#[test]
fn white_space_around_a_value_is_trimmed() {
    let mut config = with("/users/0/user/token", json!("\t hunter2-token\r\n"));
    config["clusters"][0]["cluster"]["server"] = json!(" https://eu-1.example.org:6443\n");
    config["clusters"][0]["cluster"]["tls-server-name"] = json!("kubernetes\n");
    let access = parse_kubeconfig(config.to_string().as_bytes()).unwrap();
    assert_eq!(
        access.token.as_ref().map(|token| token.expose().as_str()),
        Some(TOKEN)
    );
    assert_eq!(access.server, "https://eu-1.example.org:6443");
    assert_eq!(access.tls_server_name.as_deref(), Some("kubernetes"));
    check(
        &with("/users/0/user/token", json!(" \n")),
        "field users[u].user.token or client-certificate-data is missing",
    );
}

#[test]
fn what_cannot_be_sent_is_refused_by_name() {
    for token in ["hunter2\nhunter2", "hunter2\u{0}", "hunter2\u{1b}[2J"] {
        check(
            &with("/users/0/user/token", json!(token)),
            "field users[u].user.token: must be one line without control characters",
        );
    }
    let port = "must have a port from 1 to 65535, or none";
    let long = format!("https://eu-1/{}", "x".repeat(5_000));
    for (server, problem) in [
        ("https://eu-1:0", port),
        ("https://eu-1:65536", port),
        ("https://eu-1:99999999999999999999", port),
        ("https://eu-1:http", port),
        ("https://eu-1\n.example.org", "not a URL"),
        ("https://eu-1/\u{7}", "not a URL"),
        ("https://[::1", "not a URL"),
        (
            "https://[::x]:6443",
            "must name a host by its DNS name or IP address",
        ),
        (
            "https://eu_1..:6443",
            "must name a host by its DNS name or IP address",
        ),
        ("https://eu%201:6443", "not a URL"),
        (long.as_str(), "must not be longer than 4096 bytes"),
    ] {
        check(
            &with("/clusters/0/cluster/server", json!(server)),
            &format!("field clusters[c].cluster.server: {problem}"),
        );
    }
    for name in ["a b", "a\nb", "-", "a..b", "*.example.org"] {
        check(
            &with("/clusters/0/cluster/tls-server-name", json!(name)),
            "field clusters[c].cluster.tls-server-name: must be a DNS name or an IP address",
        );
    }
}
