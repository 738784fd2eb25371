//! The individual rules: annotations, labels and times.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_zones::{
    model::Set,
    scale::{
        delay, follower, mirror,
        pods::{Answer, Answered, Method, UrlPattern, fqdn, prepare_url},
        times::{self, LAST_DOWNSCALE, MIN_TIME, Times, Tracker},
    },
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn texts(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn set(name: &str, replicas: u32, annotations: &[(&str, &str)]) -> Set {
    let mut set = Set {
        name: name.to_owned(),
        replicas: Some(replicas),
        annotations: texts(annotations),
        ..Set::default()
    };
    set.status.ready_replicas = replicas;
    set
}

fn with<T>(tracker: &Tracker, evaluate: impl FnOnce(Times<'_>) -> T) -> T {
    let record = BTreeMap::new();
    evaluate(Times {
        record: &record,
        tracker,
    })
}

#[test]
fn forced_replicas_are_a_count() {
    for (text, expect) in [
        ("0", Some(0)),
        ("05", Some(5)),
        ("2147483647", Some(2_147_483_647)),
        ("2147483648", None),
        ("-1", None),
        (" 5", None),
        ("5%", None),
        ("", None),
    ] {
        assert_eq!(
            follower::forced(&texts(&[(follower::FORCE_REPLICAS, text)])),
            expect,
            "{text}"
        );
    }
    assert_eq!(follower::forced(&BTreeMap::new()), None);
}

#[test]
fn a_follower_has_what_its_leader_has() {
    let follows = (follower::LEADER, "a");
    let when_ready = (follower::WHEN_READY, "true");
    for (leader, ready, present, annotations, expect) in [
        (5, 0, 3, vec![follows], Ok(5)),
        (5, 4, 3, vec![follows, when_ready], Ok(3)),
        (5, 6, 3, vec![follows, when_ready], Ok(3)),
        (5, 5, 3, vec![follows, when_ready], Ok(5)),
        (5, 4, 3, vec![follows, (follower::WHEN_READY, "True")], Ok(5)),
        (2, 0, 3, vec![follows], Ok(2)),
        (5, 5, 3, vec![], Ok(3)),
        (
            5,
            0,
            3,
            vec![follows, when_ready, (follower::FORCE_REPLICAS, "9")],
            Ok(9),
        ),
        (5, 5, 3, vec![(follower::FORCE_REPLICAS, "9")], Ok(3)),
        (
            5,
            5,
            3,
            vec![(follower::LEADER, "z")],
            Err("could not find leader for b using grafana.com/rollout-downscale-leader".to_owned()),
        ),
    ] {
        let mut sets = vec![set("a", leader, &[]), set("b", present, &annotations)];
        sets[0].status.ready_replicas = ready;
        let found = with(&Tracker::default(), |times| {
            follower::desired(&sets[1], &sets, times, at("2026-01-01T00:00:00Z"))
        });
        assert_eq!(found, expect, "{leader} {ready} {present} {annotations:?}");
    }
}

#[test]
fn a_follower_falls_strictly_after_its_own_time() {
    let missing = Err("missing label grafana.com/min-time-between-zones-downscale on follower".to_owned());
    let day = Err(
        "unable to parse label grafana.com/min-time-between-zones-downscale value on follower: time: unknown unit \"d\" in duration \"1d\""
            .to_owned(),
    );
    for (label, last, expect) in [
        (Some("12h"), Some("2025-12-31T12:00:00Z"), Ok(false)),
        (Some("12h"), Some("2025-12-31T11:59:59Z"), Ok(true)),
        (Some("12h"), Some("2026-06-01T00:00:00Z"), Ok(false)),
        (Some("12h"), None, Ok(true)),
        (Some("1d"), None, Ok(true)),
        (Some("1d"), Some("2025-12-01T00:00:00Z"), day),
        (None, Some("2025-12-01T00:00:00Z"), missing),
        (None, None, Ok(true)),
    ] {
        let mut sets = vec![set("a", 3, &[]), set("b", 3, &[])];
        sets[0].annotations = last
            .map(|last| (LAST_DOWNSCALE.to_owned(), last.to_owned()))
            .into_iter()
            .collect();
        sets[1].annotations = texts(&[(LAST_DOWNSCALE, "2025-12-31T23:59:59Z")]); // the set's own time does not count
        sets[1].labels = label
            .map(|label| (MIN_TIME.to_owned(), label.to_owned()))
            .into_iter()
            .collect();
        let found = with(&Tracker::default(), |times| {
            times::min_time_elapsed(&sets[1], &sets, times, at("2026-01-01T00:00:00Z"))
        });
        assert_eq!(found, expect, "{label:?} {last:?}");
    }
}

#[test]
fn a_group_without_the_label_goes_on_after_a_downscale_that_muster_recorded() {
    let sets = [set("a", 3, &[]), set("b", 3, &[])];
    let now = at("2026-01-01T00:00:00Z");
    let record = [("a".to_owned(), Time(now))].into();
    let times = Times {
        record: &record,
        tracker: &Tracker::default(),
    };
    assert_eq!(times::min_time_elapsed(&sets[1], &sets, times, now), Ok(true));
}

#[test]
fn the_newest_time_of_the_others() {
    let tracker = Tracker::parse(&texts(&[("c", r#"{"lastDownscaled":"2025-12-31T12:00:00Z"}"#)])).unwrap();
    let sets = [
        set("a", 3, &[(LAST_DOWNSCALE, "2025-12-31T23:00:00Z")]),
        set("b", 3, &[(LAST_DOWNSCALE, "2025-12-31T11:00:00Z")]),
        set("c", 3, &[]),
    ];
    let newest = |except: &str| with(&tracker, |times| times::most_recent(&sets, except, times)).unwrap();
    assert_eq!(newest("a"), Some(at("2025-12-31T12:00:00Z")));
    assert_eq!(newest("b"), Some(at("2025-12-31T23:00:00Z")));
    for text in [
        "",
        "yesterday",
        "2025-12-31",
        "2025-12-31 12:00:00Z",
        "2025-12-31t12:00:00Z",
        "2025-12-31T12:00:00",
        "2025-12-31T12:00Z",
    ] {
        let sets = [set("a", 3, &[(LAST_DOWNSCALE, text)]), set("b", 3, &[])];
        assert!(
            with(&tracker, |times| times::most_recent(&sets, "b", times)).is_err(),
            "{text}"
        );
    }
    for text in ["2025-12-31T12:00:00+02:00", "2025-12-31T12:00:00.5Z"] {
        let sets = [set("a", 3, &[(LAST_DOWNSCALE, text)]), set("b", 3, &[])];
        assert!(
            with(&tracker, |times| times::most_recent(&sets, "b", times))
                .unwrap()
                .is_some(),
            "{text}"
        );
    }
}

#[test]
fn entries_of_the_zone_tracker_that_are_not_ours_stay_as_they_are() {
    let data = texts(&[("other", r#"{"LastDownscaled":"2020-01-01T00:00:00Z"}"#)]);
    let written = Tracker::written(
        &data,
        &[("a".to_owned(), Time(at("2026-01-01T00:00:00.7Z")))].into(),
    );
    assert_eq!(
        written,
        texts(&[
            ("a", r#"{"lastDownscaled":"2026-01-01T00:00:00Z"}"#),
            ("other", r#"{"LastDownscaled":"2020-01-01T00:00:00Z"}"#),
        ])
    );
    assert_eq!(
        Tracker::parse(&written).unwrap().get("other"),
        Some("2020-01-01T00:00:00Z")
    );
    assert!(Tracker::parse(&texts(&[("a", "yesterday")])).is_err());
}

#[test]
fn a_delay_is_a_duration_of_prometheus_with_a_url() {
    let seconds = |delay: &str, url: &str| {
        let parsed = delay::parse_delay(&texts(&[(delay::DELAY, delay), (delay::URL, url)]));
        parsed.map(|parsed| parsed.map(|parsed| parsed.delay.as_millis()))
    };
    let no_duration = |why: &str| {
        Err(format!(
            "failed to parse grafana.com/rollout-delayed-downscale annotation value as duration: {why}"
        ))
    };
    let no_url = |why: &str| {
        Err(format!(
            "failed to parse grafana.com/rollout-prepare-delayed-downscale-url annotation value as URL: {why}"
        ))
    };
    for (delay, url, expect) in [
        ("1d12h", "http://p/", Ok(Some(129_600_000))),
        ("500ms", "http://p/", Ok(Some(500))),
        ("0", "http://p/", Ok(Some(0))),
        ("", "http://p/", Ok(None)),
        ("1h", "", Ok(None)),
        (
            "30m1h",
            "http://p/",
            no_duration("not a valid duration string: \"30m1h\""),
        ),
        (
            "3600",
            "http://p/",
            no_duration("not a valid duration string: \"3600\""),
        ),
        (
            "1.5h",
            "http://p/",
            no_duration("unknown unit \".\" in duration \"1.5h\""),
        ),
        ("300y", "http://p/", no_duration("duration out of range")),
        (
            "1h",
            "http://[::1",
            no_url("parse \"http://[::1\": missing ']' in host"),
        ),
        (
            "1h",
            "http://a b/",
            no_url("parse \"http://a b/\": invalid character \" \" in host name"),
        ),
        ("1h", ":p", no_url("parse \":p\": missing protocol scheme")),
        (
            "1h",
            "http://p:x/",
            no_url("parse \"http://p:x/\": invalid port \":x\" after host"),
        ),
        (
            "1h",
            "http://p/%zz",
            no_url("parse \"http://p/%zz\": invalid URL escape \"%zz\""),
        ),
    ] {
        assert_eq!(seconds(delay, url), expect, "{delay} {url}");
    }
}

#[test]
fn each_pod_is_asked_under_its_own_name() {
    let set = Set {
        name: "db".to_owned(),
        service_name: "svc".to_owned(),
        start: 7,
        ..Set::default()
    };
    let urls = |pattern: &str| -> Vec<String> {
        let pattern = UrlPattern::parse(pattern).unwrap();
        let asks = delay::asks(&set, 1..3, Method::Post, &pattern, ("ns", "cluster.local."));
        asks.into_iter().map(|ask| ask.url).collect()
    };
    assert_eq!(
        urls("https://u:p@elsewhere:8080/a?b=c#d"),
        [
            "https://u:p@db-8.svc.ns.svc.cluster.local.:8080/a?b=c#d",
            "https://u:p@db-9.svc.ns.svc.cluster.local.:8080/a?b=c#d",
        ]
    );
    assert_eq!(
        urls("http://elsewhere")[0],
        "http://db-8.svc.ns.svc.cluster.local."
    );
    assert_eq!(
        fqdn("db", 10, "svc", "ns", "example.org"),
        "db-10.svc.ns.svc.example.org"
    );
}

#[test]
fn no_port_and_no_path_lead_to_another_host() {
    for (port, path, expect) in [
        ("80", "p", Some("http://pod:80/p")),
        ("80", "//p?q=1", Some("http://pod:80/p?q=1")),
        ("80", "", Some("http://pod:80/")),
        ("80@elsewhere", "p", None),
        ("0", "p", None),
        ("65536", "p", None),
        ("+80", "p", None),
        ("http", "p", None),
        ("80", "a b", None),
        ("80", "a\r\nHost: elsewhere", None),
    ] {
        assert_eq!(
            prepare_url("pod", port, path).ok().as_deref(),
            expect,
            "{port:?} {path:?}"
        );
    }
    assert!(prepare_url("pod@elsewhere", "80", "p").is_err());
}

#[test]
fn pods_go_from_the_top_once_they_were_prepared_for_long_enough() {
    let now = at("2026-01-01T00:00:00Z");
    let hour = SignedDuration::from_hours(1);
    let since = |ago: i64| -> Answered {
        let body = format!(r#"{{"timestamp": {}}}"#, now.as_second() - ago);
        Ok(Answer { status: 200, body })
    };
    let answer = |status: u16, body: &str| -> Answered {
        Ok(Answer {
            status,
            body: body.to_owned(),
        })
    };
    for (answers, expect) in [
        (vec![(3, since(3600)), (4, since(3600))], Some(3)),
        (vec![(3, since(3599)), (4, since(3600))], Some(4)),
        (vec![(3, since(3600)), (4, since(3599))], None),
        (vec![(3, since(3600))], Some(3)), // a pod that never started needs no preparation
        (vec![], Some(3)),
        (
            vec![(3, since(9999)), (4, answer(500, r#"{"timestamp": 1}"#))],
            None,
        ),
        (
            vec![(3, answer(301, r#"{"timestamp": 1}"#)), (4, since(9999))],
            None,
        ),
        (vec![(4, answer(200, r#"{"timestamp": 0}"#))], None),
        (vec![(4, answer(200, r#"{"timestamp": "1"}"#))], None),
        (vec![(4, answer(204, ""))], None),
        (vec![(4, Err("no such host".to_owned()))], None),
    ] {
        let answers: BTreeMap<u32, &Answered> = answers
            .iter()
            .map(|(replica, answer)| (*replica, answer))
            .collect();
        assert_eq!(
            delay::reached(5, 3, hour, &answers, now).ok(),
            expect,
            "{answers:?}"
        );
    }
}

#[test]
fn a_reference_has_a_name_and_a_kind_and_is_written_unless_that_is_switched_off() {
    let named = texts(&[(mirror::NAME, "r"), (mirror::KIND, "K")]);
    let reference = mirror::reference(&named).unwrap();
    assert_eq!(
        (
            reference.api_version.as_str(),
            reference.kind.as_str(),
            reference.name.as_str()
        ),
        ("", "K", "r")
    );
    assert_eq!(mirror::reference(&texts(&[(mirror::NAME, "r")])), None);
    assert_eq!(mirror::reference(&texts(&[(mirror::KIND, "K")])), None);
    assert!(mirror::writes_back(&BTreeMap::new()));
    for (value, expect) in [
        ("true", true),
        ("1", true),
        ("false", false),
        ("bad value", false),
        ("", false),
    ] {
        assert_eq!(
            mirror::writes_back(&texts(&[(mirror::WRITE_BACK, value)])),
            expect,
            "{value}"
        );
    }
}
