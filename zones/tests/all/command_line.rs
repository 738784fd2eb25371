//! Promise: `muster zones` accepts the command lines of rollout-operator, and rejects what it rejects; durations are
//! parsed as in Go and Prometheus.

use std::time::Duration;

use jiff::SignedDuration;
use muster_zones::{
    duration,
    flags::{Certificate, Error, FLAGS, Kind, Settings, parse_flags},
};

fn settings(arguments: &[&str]) -> Result<Settings, Error> {
    let mut all = vec!["-kubernetes.namespace=test"];
    all.extend(arguments);
    Settings::new(&parse_flags(&all)?)
}

#[test]
fn flags_are_written_as_in_go() {
    for arguments in [
        ["--server.port", "9"].as_slice(),
        &["-server.port=9"],
        &["-server.port=0x9"],
        &["-server.port=8", "--server.port=9", "--", "-nothing"],
        &["-server.port=9", "word", "-nothing"],
        &["-use-zone-tracker", "-server.port=9", "-use-zone-tracker=F"],
    ] {
        let settings = settings(arguments).unwrap();
        assert_eq!(
            (settings.port, settings.use_zone_tracker),
            (9, false),
            "{arguments:?}"
        );
    }
    let settings = settings(&["-mirror-kinds=A,B", "-mirror-kinds", "C", "-use-zone-tracker"]).unwrap();
    assert_eq!(settings.mirror_kinds, ["A", "B", "C"]);
    assert_eq!(
        Some(settings.zone_tracker.as_str()).filter(|_| settings.use_zone_tracker),
        Some("rollout-operator-zone-tracker")
    );
}

#[test]
fn what_is_refused_says_why() {
    for (arguments, expected) in [
        (["-nothing"].as_slice(), "flag provided but not defined: -nothing"),
        (&["---server.port=1"], "bad flag syntax: ---server.port=1"),
        (&["-=1"], "bad flag syntax: -=1"),
        (&["-server.port"], "flag needs an argument: -server.port"),
        (
            &["-server.port=x"],
            "invalid value \"x\" for flag -server.port: parse error",
        ),
        (
            &["-server.port=99999999999999999999"],
            "invalid value \"99999999999999999999\" for flag -server.port: value out of range",
        ),
        (&["-server.port=99999"], "-server.port must be a port, 0 to 65535"),
        (
            &["-use-zone-tracker=yes"],
            "invalid boolean value \"yes\" for -use-zone-tracker: parse error",
        ),
        (
            &["-reconcile.interval=1d"],
            "invalid value \"1d\" for flag -reconcile.interval: parse error",
        ),
        (&["-help"], "flag: help requested"),
        (
            &["-kubernetes.namespace="],
            "-kubernetes.namespace has not been specified",
        ),
        (
            &["-kubernetes.cluster-domain="],
            "-kubernetes.cluster-domain cannot be an empty string",
        ),
        (
            &["-kubernetes.api-url=https://x"],
            "either configure both -kubernetes.api-url and -kubernetes.config-file or neither",
        ),
        (
            &["-server-tls.request-timeout=0s"],
            "-server-tls.request-timeout must be positive",
        ),
        (
            &[
                "-server-tls.enabled",
                "-server-tls.self-signed-cert.enabled=false",
                "-server-tls.cert-file=a",
            ],
            "either self-signed certificate should be enabled or path to the certificate and key should be provided",
        ),
    ] {
        assert_eq!(
            settings(arguments).unwrap_err().to_string(),
            expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn defaults_are_those_of_rollout_operator() {
    let plain = settings(&[]).unwrap();
    assert_eq!(plain.interval, Duration::from_secs(5));
    assert_eq!((plain.port, plain.webhooks_port), (8001, None));
    assert_eq!(plain.cluster_domain, "cluster.local.");
    assert_eq!(plain.certificate, Certificate::None);
    let webhooks = settings(&["-server-tls.enabled"]).unwrap();
    assert_eq!(webhooks.webhooks_port, Some(8443));
    let Certificate::SelfSigned { dns_name, lasts, .. } = webhooks.certificate else {
        panic!("{:?}", webhooks.certificate)
    };
    assert_eq!(dns_name, "rollout-operator.test.svc");
    assert_eq!(lasts, Duration::from_hours(365 * 24));
    let files = [
        "-server-tls.cert-file=a",
        "-server-tls.key-file=b",
        "-webhooks.update-ca-bundle=false",
    ];
    let mut arguments = vec![
        "-server-tls.enabled",
        "-server-tls.self-signed-cert.enabled=false",
    ];
    arguments.extend(files);
    assert!(matches!(
        settings(&arguments).unwrap().certificate,
        Certificate::Files { .. }
    ));
}

#[test]
fn a_flag_without_effect_is_named() {
    let given = parse_flags(&["-log.level=info", "-kubernetes.client-qps=5", "-server.port=9"]).unwrap();
    let notes = given.without_effect();
    assert_eq!(notes.len(), 2);
    assert!(
        notes[0].starts_with("-kubernetes.client-qps has no effect: "),
        "{notes:?}"
    );
    assert!(notes[1].starts_with("-log.level has no effect: "), "{notes:?}");
}

#[test]
fn every_flag_has_a_readable_default_and_a_help() {
    let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    for flag in FLAGS {
        assert!(!flag.help.is_empty(), "{}", flag.name);
        parse_flags::<&str>(&[]).unwrap().value(flag).unwrap();
        if flag.kind == Kind::Duration {
            assert_eq!(
                duration::go_text(duration::go(flag.default).unwrap()),
                flag.default
            );
        }
        if let (Kind::Days, Some(text)) = (flag.kind, flag.effective) {
            assert_eq!(
                duration::prometheus_text(duration::prometheus(text).unwrap()),
                text
            );
        }
    }
}

#[test]
fn durations_of_go() {
    let nanoseconds = SignedDuration::from_nanos;
    for (text, expected, printed) in [
        ("0", 0, "0s"),
        ("5m", 300_000_000_000, "5m0s"),
        ("1h30m", 5_400_000_000_000, "1h30m0s"),
        ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
        (".5s", 500_000_000, "500ms"),
        ("+1s1ms", 1_001_000_000, "1.001s"),
        ("1µs", 1_000, "1µs"),
        ("1500ns", 1_500, "1.5µs"),
    ] {
        let duration = duration::go(text).unwrap();
        assert_eq!(duration, nanoseconds(expected), "{text}");
        assert_eq!(duration::go_text(duration), printed, "{text}");
    }
    for (text, error) in [
        ("", "time: invalid duration \"\""),
        ("s", "time: invalid duration \"s\""),
        ("1.2.3s", "time: invalid duration \"1.2.3s\""),
        ("10", "time: missing unit in duration \"10\""),
        ("1d", "time: unknown unit \"d\" in duration \"1d\""),
        ("9999999h", "time: invalid duration \"9999999h\""),
    ] {
        assert_eq!(duration::go(text).unwrap_err().to_string(), error);
    }
}

#[test]
fn durations_of_prometheus() {
    for (text, hours) in [
        ("0", 0),
        ("1h", 1),
        ("1d", 24),
        ("1w", 168),
        ("1y", 8_760),
        ("1d12h", 36),
    ] {
        assert_eq!(
            duration::prometheus(text),
            Some(SignedDuration::from_hours(hours)),
            "{text}"
        );
    }
    for text in ["", "1", "h", "1h1d", "1h1h", "-1h", "1.5h", "1M"] {
        assert_eq!(duration::prometheus(text), None, "{text}");
    }
}
