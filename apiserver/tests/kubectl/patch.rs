//! `kubectl patch`, of each type.

use crate::case;

case!(merge_sets_and_removes, k, {
    k.run("create configmap a --from-literal=k=one --from-literal=l=two")
        .await
        .ok();
    k.run(r#"patch configmap a --type=merge -p {"data":{"k":"three","l":null}}"#)
        .await
        .prints("configmap/a patched");
    k.run(r#"patch configmap a --type=merge -p {"data":{"k":"three"}}"#)
        .await
        .prints("configmap/a patched (no change)");
    k.run("get configmap a -o jsonpath={.data}")
        .await
        .prints(r#"{"k":"three"}"#);
});

case!(json_goes_step_by_step, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    k.run(r#"patch configmap a --type=json -p [{"op":"test","path":"/data/k","value":"one"},{"op":"add","path":"/data/l","value":"two"},{"op":"remove","path":"/data/k"}]"#)
        .await
        .prints("configmap/a patched");
    k.run("get configmap a -o jsonpath={.data}")
        .await
        .prints(r#"{"l":"two"}"#);
});

case!(json_whose_test_fails_changes_nothing, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    k.run(r#"patch configmap a --type=json -p [{"op":"test","path":"/data/k","value":"two"},{"op":"remove","path":"/data/k"}]"#)
        .await
        .fails("the server rejected our request due to an error in our request");
    k.run("get configmap a -o jsonpath={.data.k}").await.prints("one");
});

case!(strategic_merges_lists_by_their_keys, k, {
    k.run("create deployment web --image=example.com/web:1 --replicas=0")
        .await
        .ok();
    k.run(r#"patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example.com/side:1"}]}}}}"#)
        .await
        .prints("deployment.apps/web patched");
    k.run("get deployment web -o jsonpath={.spec.template.spec.containers[*].name}")
        .await
        .prints("side web");
    k.run(r#"patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}"#)
        .await
        .ok();
    k.run("get deployment web -o jsonpath={.spec.template.spec.containers[*].name}")
        .await
        .prints("web");
});

case!(strategic_is_not_for_custom_resources, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 3}");
    k.run(&format!("create -f {file}")).await.ok();
    k.run(r#"patch WIDGETS a --type=strategic -p {"spec":{"num":4}}"#)
        .await
        .fails("application/strategic-merge-patch+json is not supported by");
    k.run(r#"patch WIDGETS a --type=merge -p {"spec":{"num":4}}"#)
        .await
        .ok();
});

case!(of_a_status_is_of_nothing_else, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 3}");
    k.run(&format!("create -f {file}")).await.ok();
    k.run(
        r#"patch WIDGETS a --subresource=status --type=merge -p {"status":{"note":"hi"},"spec":{"num":9}}"#,
    )
    .await
    .ok();
    k.run("get WIDGETS a -o jsonpath={.spec.num}{.status.note}{.metadata.generation}")
        .await
        .prints("3hi1");
});
