//! Invalid labels and annotations of a set. rollout-operator treats most of them as absent without a message; here each
//! is reported, with the value that is used instead.

use crate::{
    admit::no_downscale::NO_DOWNSCALE,
    duration,
    model::{
        Set,
        annotations::{MAX_UNAVAILABLE, PAUSED, Texts, limit},
    },
    scale::{
        delay, follower, mirror,
        preparation::{self, Preparation},
        times,
    },
};

/// The reason code for invalid values. It never changes.
pub const CODE: &str = "InvalidValue";

/// What is wrong with the labels and annotations of a set, each with the value that is used instead.
pub fn invalid(set: &Set) -> Vec<String> {
    let (labels, annotations) = (&set.labels, &set.annotations);
    let mut found = Vec::new();
    let mut check = |texts: &Texts, key: &str, problem: &dyn Fn(&str) -> Option<String>| {
        if let Some(text) = texts.get(key)
            && let Some(problem) = problem(text)
        {
            found.push(format!("{key} {text:?} {problem}"));
        }
    };
    check(annotations, MAX_UNAVAILABLE, &|text| {
        let problem = "is neither a number above 0 nor a percentage from 1% to 100%; using 1";
        limit(text, set.desired()).is_none().then(|| problem.to_owned())
    });
    for (texts, key) in [
        (annotations, PAUSED),
        (annotations, follower::WHEN_READY),
        (annotations, mirror::WRITE_BACK),
        (labels, preparation::PREPARE),
        (labels, NO_DOWNSCALE),
    ] {
        check(texts, key, &|text| not_a_bool(text, key == mirror::WRITE_BACK));
    }
    check(labels, times::MIN_TIME, &|text| {
        let error = duration::go(text).err()?;
        Some(format!(
            "is not a duration ({error}); other zones are not scaled down"
        ))
    });
    check(annotations, times::LAST_DOWNSCALE, &|text| {
        let error = times::parse_time(text).err()?;
        Some(format!(
            "is not a time ({error}); other zones are not scaled down"
        ))
    });
    check(annotations, follower::FORCE_REPLICAS, &|_text| {
        let problem = "is not a number from 0 to 2147483647; it is ignored";
        follower::forced(annotations)
            .is_none()
            .then(|| problem.to_owned())
    });
    check(annotations, follower::LEADER, &|text| {
        (text == set.name).then(|| "is the set itself; it follows no leader".to_owned())
    });
    check(annotations, preparation::PORT, &|text| {
        let is_port = text.parse::<u16>().is_ok_and(|port| port > 0);
        let matters = Preparation::is_asked_for(set) && !text.is_empty();
        (matters && !is_port).then(|| "is not a port; the set is not scaled down".to_owned())
    });
    if let Some(Err(missing)) = Preparation::of(labels, annotations, &set.service_name) {
        found.push(format!(
            "{}; the set is not scaled down",
            missing.trim_end_matches('.')
        ));
    }
    if let Err(error) = delay::parse_delay(annotations) {
        found.push(format!("{error}; its replicas do not follow the reference"));
    }
    let one_of_two =
        [mirror::NAME, mirror::KIND].map(|key| annotations.get(key).is_some_and(|text| !text.is_empty()));
    if one_of_two[0] != one_of_two[1] {
        found.push(format!(
            "of {} and {} only one is set; no reference is followed",
            mirror::NAME,
            mirror::KIND
        ));
    }
    found
}

/// Values that Go parses as a bool, where the label is parsed that way; elsewhere only `true` and `false`.
fn not_a_bool(text: &str, as_go: bool) -> Option<String> {
    const OF_GO: [&str; 10] = ["1", "t", "T", "TRUE", "True", "0", "f", "F", "FALSE", "False"];
    let is_bool = ["true", "false"].contains(&text) || as_go && OF_GO.contains(&text);
    (!is_bool).then(|| "is neither true nor false; using false".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_matters_where_pods_are_prepared() {
        let mut set = Set {
            service_name: "db".to_owned(),
            ..Set::default()
        };
        for (key, value) in [(preparation::PORT, "http"), (preparation::PATH, "prepare")] {
            set.annotations.insert(key.to_owned(), value.to_owned());
        }
        assert_eq!(invalid(&set), Vec::<String>::new());
        set.labels
            .insert(preparation::PREPARE.to_owned(), "true".to_owned());
        let words =
            "grafana.com/prepare-downscale-http-port \"http\" is not a port; the set is not scaled down";
        assert_eq!(invalid(&set), [words]);
    }
}
