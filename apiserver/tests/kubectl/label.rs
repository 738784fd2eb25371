//! `kubectl label` and `kubectl annotate`.

use crate::case;

case!(labels_are_set_changed_and_taken_away, k, {
    k.run("create configmap a").await.ok();
    k.run("label configmap a x=1").await.prints("configmap/a labeled");
    k.run("label configmap a x=2")
        .await
        .fails("'x' already has a value (1), and --overwrite is false");
    k.run("label configmap a x=2 --overwrite")
        .await
        .prints("configmap/a labeled");
    k.run("label configmap a x=2")
        .await
        .prints("configmap/a not labeled");
    k.run("label configmap a --list").await.prints("x=2");
    k.run("label configmap a x-")
        .await
        .prints("configmap/a unlabeled");
    k.run("get configmap a -o jsonpath={.metadata.labels}")
        .await
        .prints("");
});

case!(labels_that_are_none_are_refused, k, {
    k.run("create configmap a").await.ok();
    k.run("label configmap a x=not/a/label")
        .await
        .fails("a valid label must be an empty string or consist of");
    k.run(r#"patch configmap a --type=merge -p {"metadata":{"labels":{"x":"not/a/label"}}}"#)
        .await
        .fails("metadata.labels: Invalid value: \"not/a/label\"");
});

case!(annotations_are_set_and_taken_away, k, {
    k.run("create configmap a").await.ok();
    k.run("annotate configmap a example.com/why=because")
        .await
        .prints("configmap/a annotated");
    k.run("get configmap a -o jsonpath={.metadata.annotations}")
        .await
        .prints(r#"{"example.com/why":"because"}"#);
    k.run("annotate configmap a example.com/why-")
        .await
        .prints("configmap/a annotated");
    k.run("get configmap a -o jsonpath={.metadata.annotations}")
        .await
        .prints("");
});

case!(all_that_a_selector_finds, k, {
    for name in ["a", "b", "c"] {
        k.run(&format!("create secret generic {name}")).await.ok();
    }
    k.run("label secret a b x=1")
        .await
        .prints("secret/a labeled\nsecret/b labeled");
    k.run("annotate secret -l x=1 y=2")
        .await
        .prints("secret/a annotated\nsecret/b annotated");
    k.run("get secret c -o jsonpath={.metadata.annotations}")
        .await
        .prints("");
});
