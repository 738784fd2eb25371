//! Promise: durations and amounts are parsed in the notation of Go and Kubernetes, and round-trip.

use muster_api::{Amount, Duration, amount, duration};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn durations() {
    let check = |text: &str, millis: u64, shown: &str| {
        let duration: Duration = text.parse().unwrap();
        assert_eq!(
            (duration.as_millis(), duration.to_string().as_str()),
            (millis, shown),
            "{text}"
        );
        assert_eq!(serde_json::to_value(duration).unwrap(), json!(shown));
    };
    check("5m", 300_000, "5m");
    check("1h30m", 5_400_000, "1h30m");
    check("90s", 90_000, "1m30s");
    check("1.5h", 5_400_000, "1h30m");
    check("0.5s", 500, "500ms");
    check("1m0.25s", 60_250, "1m250ms");
    check("0s", 0, "0s");
    check("24h", 86_400_000, "24h");
    check("1s1s", 2_000, "2s");
    check("87600h", duration::MAX.as_millis(), "87600h");
}

#[test]
fn what_is_no_duration() {
    let no = |text: &str| text.parse::<Duration>().unwrap_err().to_string();
    let bad = [
        "",
        "5",
        "m",
        "5 m",
        "-5m",
        "5d",
        "1.m",
        ".5s",
        "5m3",
        "1e3s",
        "5M",
        "99999999999999999999h",
        "87600h1ms",
    ];
    let errors: Vec<String> = bad.into_iter().map(no).collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    "" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "5" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "m" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "5 m" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "-5m" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "5d" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "1.m" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    ".5s" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "5m3" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "1e3s" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "5M" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m
    "99999999999999999999h" is longer than ten years
    "87600h1ms" is longer than ten years
    "#);
    assert!(serde_json::from_value::<Duration>(json!(300)).is_err());
}

#[test]
fn amounts() {
    let check = |value: Value, expect: Amount| {
        let amount: Amount = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(amount, expect, "{value}");
    };
    check(json!(3), Amount::Count(3));
    check(json!("3"), Amount::Count(3));
    check(json!("25%"), Amount::Percent(25));
    check(json!(amount::MAX_COUNT), Amount::Count(amount::MAX_COUNT));
    assert_eq!(
        serde_json::to_value([Amount::Count(3), Amount::Percent(25)]).unwrap(),
        json!([3, "25%"])
    );
    for bad in [
        json!(-1),
        json!(1.5),
        json!("101%"),
        json!("-1%"),
        json!("%"),
        json!(""),
        json!("a"),
        json!(100_001),
        json!(null),
    ] {
        assert!(serde_json::from_value::<Amount>(bad.clone()).is_err(), "{bad}");
    }
}

/// Percentages are rounded down, and at least 1 when above 0.
#[test]
fn amounts_of_a_fleet() {
    let check = |amount: Amount, total, expect| assert_eq!(amount.of(total), expect, "{amount} of {total}");
    check(Amount::Count(0), 5, 0);
    check(Amount::Count(7), 5, 7);
    check(Amount::Percent(0), 5, 0);
    check(Amount::Percent(25), 8, 2);
    check(Amount::Percent(25), 7, 1);
    check(Amount::Percent(1), 5, 1);
    check(Amount::Percent(100), 5, 5);
    check(Amount::Percent(100), u32::MAX, u32::MAX);
}

proptest! {
    #[test]
    fn a_written_duration_reads_as_itself(millis in 0..=duration::MAX.as_millis()) {
        let duration = Duration::from_millis(millis);
        prop_assert!(duration.to_string().len() <= duration::MAX_LENGTH);
        prop_assert_eq!(duration.to_string().parse::<Duration>(), Ok(duration));
    }

    #[test]
    fn any_text_is_a_duration_or_an_error(text in "[0-9.hms]{0,34}|\\PC{0,8}") {
        // It is enough that the calls return: no overflow, no cut inside a character.
        prop_assert!(text.parse::<Duration>().is_ok_and(|duration| duration <= duration::MAX) || text.parse::<Duration>().is_err());
    }
}
