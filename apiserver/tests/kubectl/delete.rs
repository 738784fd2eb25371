//! `kubectl delete`, with each cascade.

use crate::{case, harness::Kubectl};

/// A ConfigMap `owner` and a Secret `mine`, its dependent that blocks its foreground deletion.
async fn family(k: &Kubectl) {
    k.run("create configmap owner").await.ok();
    let uid = k
        .run("get configmap owner -o jsonpath={.metadata.uid}")
        .await
        .ok();
    k.file(
        "mine.yaml",
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: mine\n  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}]\n"
        ),
    );
    k.run("create -f mine.yaml").await.ok();
}

case!(in_the_background_the_dependents_follow, k, {
    family(&k).await;
    k.run("delete configmap owner")
        .await
        .shows("configmap \"owner\" deleted");
    k.until("get secret mine", |output| output.err.contains("not found"))
        .await;
});

case!(in_the_foreground_the_dependents_go_first, k, {
    family(&k).await;
    k.run(r#"patch secret mine --type=merge -p {"metadata":{"finalizers":["example.com/hold"]}}"#)
        .await
        .ok();
    k.run("delete configmap owner --cascade=foreground --wait=false")
        .await
        .ok();
    k.until(
        "get secret mine -o jsonpath={.metadata.deletionTimestamp}",
        |output| !output.out.is_empty(),
    )
    .await;
    k.run("get configmap owner -o jsonpath={.metadata.finalizers}")
        .await
        .prints(r#"["foregroundDeletion"]"#);
    k.run(r#"patch secret mine --type=merge -p {"metadata":{"finalizers":null}}"#)
        .await
        .ok();
    k.until("get configmap owner", |output| output.err.contains("not found"))
        .await;
});

case!(orphans_stay_without_their_owner, k, {
    family(&k).await;
    k.run("delete configmap owner --cascade=orphan").await.ok();
    k.run("get secret mine -o jsonpath={.metadata.ownerReferences}")
        .await
        .prints("");
});

case!(a_finalizer_holds_and_a_wait_has_an_end, k, {
    k.run("create configmap a").await.ok();
    k.run(r#"patch configmap a --type=merge -p {"metadata":{"finalizers":["example.com/hold"]}}"#)
        .await
        .ok();
    k.run("delete configmap a --timeout=1s")
        .await
        .fails("timed out waiting for the condition on configmaps/a");
    k.run("get configmap a -o jsonpath={.metadata.finalizers}")
        .await
        .prints(r#"["example.com/hold"]"#);
    k.run(r#"patch configmap a --type=json -p [{"op":"remove","path":"/metadata/finalizers"}]"#)
        .await
        .ok();
    k.run("get configmap a").await.fails("not found");
});

case!(by_selector_and_by_file, k, {
    for name in ["a", "b", "c"] {
        k.run(&format!("create secret generic {name}")).await.ok();
    }
    k.run("label secret a b x=1").await.ok();
    k.run("delete secret -l x=1").await.ok();
    k.run("get secrets -o name").await.prints("secret/c");
    let file = k.config_map("d.yaml", "d", "{k: one}");
    k.run(&format!("create -f {file}")).await.ok();
    k.run(&format!("delete -f {file}")).await.ok();
    k.run("get configmap d").await.fails("not found");
});

case!(what_is_not_there_is_an_error_unless_it_is_as_well, k, {
    k.run("delete configmap a")
        .await
        .fails("configmaps \"a\" not found");
    k.run("delete configmap a --ignore-not-found").await.prints("");
});

case!(a_dry_run_deletes_nothing, k, {
    k.run("create configmap a").await.ok();
    k.run("delete configmap a --dry-run=server")
        .await
        .shows("configmap \"a\" deleted (server dry run)");
    k.run("get configmap a -o name").await.prints("configmap/a");
});

case!(a_namespace_takes_its_content_along, k, {
    let other = format!("{}-other", k.ns);
    k.run(&format!("create namespace {other}")).await.ok();
    k.run(&format!("-n {other} create configmap a")).await.ok();
    k.run(&format!("delete namespace {other}"))
        .await
        .prints(&format!("namespace \"{other}\" deleted"));
    k.run(&format!("get namespace {other}")).await.fails("not found");
});
