//! Two Kustomizations that hold one object. As with Flux nobody refuses: the last writer wins, each takes it back at its
//! interval, and only the one whose labels it carries can take it away.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bed, config, config_yaml, kustomization};

#[tokio::test(start_paused = true)]
async fn the_last_writer_wins_and_the_other_can_take_nothing_away() {
    let bed = Bed::new().await;
    let commit = bed.commit(&[
        ("one/a.yaml", &config_yaml("a", "one")),
        ("two/a.yaml", &config_yaml("a", "two")),
    ]);
    bed.repository("src", json!({})).await;
    bed.kustomization("one", json!({"interval": "1h"})).await;
    bed.until_at("one", &commit).await;
    let uid = bed.read(&config("a")).await.unwrap()["metadata"]["uid"].clone();
    bed.kustomization("two", json!({"interval": "2h"})).await;
    bed.until_at("two", &commit).await;
    let holds = |name: &'static str| {
        bed.until(&config("a"), move |object| {
            object["data"]["key"] == name
                && object["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == name
        })
    };
    holds("two").await;
    holds("one").await;
    holds("two").await;
    // The object carries the labels of `two`: with `one` goes nothing.
    bed.delete(&kustomization("one")).await;
    bed.until_gone(&kustomization("one")).await;
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(bed.read(&config("a")).await.unwrap()["metadata"]["uid"], uid);
    bed.delete(&kustomization("two")).await;
    bed.until_gone(&kustomization("two")).await;
    assert!(bed.read(&config("a")).await.is_none());
}

/// What moves from one path to another is not lost on the way, whoever is first.
#[tokio::test(start_paused = true)]
async fn what_moves_to_another_is_there_in_the_end() {
    for (from, to) in [("one", "two"), ("two", "one")] {
        let bed = Bed::new().await;
        let keep = [
            ("one/k.yaml", config_yaml("k", "one")),
            ("two/l.yaml", config_yaml("l", "two")),
        ];
        let with = |folder: &str| {
            let moved = (format!("{folder}/a.yaml"), config_yaml("a", "x"));
            let [k, l] = &keep;
            bed.commit(&[(k.0, &k.1), (l.0, &l.1), (&moved.0, &moved.1)])
        };
        let first = with(from);
        bed.repository("src", json!({})).await;
        for name in ["one", "two"] {
            bed.kustomization(name, json!({})).await;
            bed.until_at(name, &first).await;
        }
        let second = with(to);
        bed.until_at("one", &second).await;
        bed.until_at("two", &second).await;
        bed.pass(Duration::from_secs(660)).await;
        let object = bed.read(&config("a")).await.expect("it is wanted");
        assert_eq!(
            object["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"],
            to
        );
    }
}
