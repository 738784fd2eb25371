//! Promise: an ambiguous configuration of the node is rejected, with the field and the value.

use std::time::Duration;

use muster_node::{Config, DIAL_TRIES, duration};
use proptest::prelude::*;
use serde_json::{Value, json};

fn refused(value: &Value) -> String {
    Config::parse(value)
        .map(|config| panic!("{config:?}"))
        .unwrap_err()
        .to_string()
}

#[test]
fn all_of_it() {
    let config = Config::parse(&json!({
        "prefixes": ["/etc/netplan", "/etc/frr"],
        "reloaders": {"netplan": {"argv": ["/usr/sbin/netplan", "apply"], "timeout": "1m", "environment": {"LANG": "C"}}},
        "services": {"frr": {"argv": ["/usr/bin/vtysh", "-c", "show bgp"], "timeout": "500ms"}},
        "checkTargets": ["10.0.0.0/8:179", "fd00::/8:179", "192.0.2.1/32:6443"],
        "secrets": {"psk": "/etc/secrets/psk"},
        "server": "https://[fd00::1]:6443",
        "dialTimeout": "1s",
        "dialTries": 2,
    }))
    .unwrap();
    assert_eq!(config.reloaders["netplan"].timeout, Duration::from_mins(1));
    let server = config.server.as_ref().unwrap();
    assert_eq!((server.host.as_str(), server.port), ("fd00::1", 6443));
    assert_eq!(
        (config.dial.timeout, config.dial.tries),
        (Duration::from_secs(1), 2)
    );
    let table = [
        ("10.9.8.7:179", true),
        ("10.9.8.7:180", false),
        ("11.0.0.1:179", false),
        ("[fd00::7]:179", true),
        ("[::ffff:10.0.0.1]:179", false),
        ("192.0.2.1:6443", true),
        ("192.0.2.2:6443", false),
    ];
    for (target, allowed) in table {
        assert_eq!(config.allows_target(target.parse().unwrap()), allowed, "{target}");
    }
}

#[test]
fn none_allows_nothing() {
    for empty in [Value::Null, json!({})] {
        let config = Config::parse(&empty).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.dial.tries, DIAL_TRIES);
        assert!(config.allows_path("/etc/netplan/a").is_err());
    }
}

#[test]
fn by_field_and_value() {
    let program =
        |argv: Value, timeout: &str| json!({"reloaders": {"net": {"argv": argv, "timeout": timeout}}});
    let table = [
        (json!({"prefix": []}), "prefix: unknown field `prefix`"),
        (
            json!({"reloaders": {"net": {"argv": ["/x"], "timeout": "1s", "shell": true}}}),
            "reloaders.net.shell: unknown field `shell`",
        ),
        (
            json!({"prefixes": ["etc"]}),
            "prefixes[0]: \"etc\" is not absolute",
        ),
        (
            json!({"prefixes": ["/ok", "/etc/../root"]}),
            "prefixes[1]: \"/etc/../root\" contains an empty name",
        ),
        (
            json!({"prefixes": ["/"]}),
            "prefixes[0]: \"/\" contains an empty name",
        ),
        (
            json!({"prefixes": ["/etc/cron.d"]}),
            "prefixes[0]: \"/etc/cron.d\" is never allowed",
        ),
        (
            json!({"prefixes": ["/var/lib/muster/node/x"]}),
            "prefixes[0]: \"/var/lib/muster/node/x\" is never allowed",
        ),
        (program(json!([]), "1s"), "reloaders.net.argv: names no program"),
        (
            program(json!(["netplan"]), "1s"),
            "reloaders.net.argv[0]: \"netplan\" is not absolute",
        ),
        (program(json!(["/bin/x", "a\0b"]), "1s"), "reloaders.net.argv: "),
        (
            program(json!(["/bin/x"]), "soon"),
            "reloaders.net.timeout: \"soon\" is not a timeout",
        ),
        (program(json!(["/bin/x"]), "0s"), "reloaders.net.timeout: \"0s\""),
        (
            program(json!(["/bin/x"]), "-1s"),
            "reloaders.net.timeout: \"-1s\"",
        ),
        (
            program(json!(["/bin/x"]), "11m"),
            "reloaders.net.timeout: \"11m\"",
        ),
        (program(json!("x"), "1s"), "reloaders.net.argv: invalid type"),
        (
            json!({"services": {"a b": {"argv": ["/x"], "timeout": "1s"}}}),
            "services.a b: \"a b\" is not a name",
        ),
        (
            json!({"reloaders": {"n": {"argv": ["/x"], "timeout": "1s", "environment": {"A=B": "c"}}}}),
            "reloaders.n.environment: \"A=B\"",
        ),
        (
            json!({"checkTargets": ["10.0.0.1"]}),
            "checkTargets[0]: \"10.0.0.1\" is not a network and a port",
        ),
        (
            json!({"checkTargets": ["10.0.0.0/33:1"]}),
            "checkTargets[0]: \"10.0.0.0/33:1\"",
        ),
        (
            json!({"checkTargets": ["10.0.0.0/8:0"]}),
            "checkTargets[0]: \"10.0.0.0/8:0\"",
        ),
        (
            json!({"checkTargets": ["router/8:1"]}),
            "checkTargets[0]: \"router/8:1\"",
        ),
        (
            json!({"secrets": {"psk": "psk"}}),
            "secrets.psk: \"psk\" is not absolute",
        ),
        (
            json!({"server": "http://10.0.0.1"}),
            "server: \"http://10.0.0.1\" is not the address",
        ),
        (json!({"server": "https://user@10.0.0.1"}), "server: "),
        (json!({"server": "https://10.0.0.1/path"}), "server: "),
        (json!({"prefixes": vec!["/x"; 300]}), "prefixes: has 300 entries"),
    ];
    for (value, beginning) in table {
        let text = refused(&value);
        assert!(text.starts_with(beginning), "{value}: {text}");
    }
}

#[test]
fn a_check_always_has_a_deadline() {
    let table = [
        ("", 3000),
        ("5", 5000),
        ("500ms", 500),
        ("1m30s", 90_000),
        ("0", 3000),
        ("0s", 3000),
        ("-5", 3000),
        ("-5s", 3000),
        ("1.5", 3000),
        ("soon", 3000),
    ];
    for (text, milliseconds) in table {
        assert_eq!(
            duration::dial_timeout(text),
            Duration::from_millis(milliseconds),
            "{text:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_anywhere_is_read_without_a_panic(text in "\\PC{0,20}", field in 0_usize..8) {
        let value = [
            json!({"prefixes": [text]}),
            json!({"checkTargets": [text]}),
            json!({"server": text}),
            json!({"dialTimeout": text}),
            json!({"secrets": {"a": text}}),
            json!({"reloaders": {"a": {"argv": [text], "timeout": "1s"}}}),
            json!({"reloaders": {"a": {"argv": ["/a"], "timeout": text}}}),
            json!({"services": {&text: {"argv": ["/a"], "timeout": "1s"}}}),
        ];
        let _ = Config::parse(&value[field]);
    }
}
