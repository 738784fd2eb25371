//! `kubectl explain` and `kubectl describe`.

use crate::case;

case!(a_custom_kind_field_by_field, k, {
    k.define_widgets().await;
    k.until("explain widget --api-version=GROUP/v1", |output| {
        output.out.contains("A widget is a part.")
    })
    .await;
    k.run("explain widget.spec.num --api-version=GROUP/v1")
        .await
        .shows("FIELD: num <integer>")
        .shows("How many.");
    k.run("explain widget --recursive --api-version=GROUP/v1")
        .await
        .shows("num\t<integer>")
        .shows("text\t<string>");
    k.run("explain widget.spec.bogus --api-version=GROUP/v1")
        .await
        .fails("field \"bogus\" does not exist");
});

case!(a_kind_of_the_core, k, {
    k.run("explain configmap.data")
        .await
        .shows("FIELD: data <map[string]string>");
    k.run("explain deployment.spec.replicas")
        .await
        .shows("FIELD: replicas <integer>");
    k.run("explain deployment.spec.template.spec.containers")
        .await
        .shows("<[]Container>");
});

case!(a_kind_that_is_not_there, k, {
    k.run("explain gizmos")
        .await
        .fails("the server doesn't have a resource type \"gizmos\"");
});

case!(described_with_all_that_it_says, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 3, text: abc}");
    k.run(&format!("create -f {file}")).await.ok();
    k.run("describe WIDGETS a")
        .await
        .shows("Name:         a")
        .shows("Num:   3")
        .shows("Text:  abc")
        .shows("Events:");
});

case!(described_with_their_events, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    let uid = k.run("get configmap a -o jsonpath={.metadata.uid}").await.ok();
    let (ns, at) = (&k.ns, "2026-01-01T00:00:00Z");
    k.file(
        "event.yaml",
        &format!(
            "apiVersion: v1\nkind: Event\nmetadata: {{name: a.1}}\ntype: Normal\nreason: Noticed\nmessage: it was noticed\ncount: 1\nfirstTimestamp: {at}\nlastTimestamp: {at}\nsource: {{component: someone}}\ninvolvedObject: {{apiVersion: v1, kind: ConfigMap, name: a, namespace: {ns}, uid: {uid}}}\n"
        ),
    );
    k.run("create -f event.yaml").await.ok();
    k.run("describe configmap a")
        .await
        .shows("Noticed")
        .shows("it was noticed");
    k.run("events --for configmap/a").await.shows("it was noticed");
});

case!(secrets_are_described_without_their_values, k, {
    k.run("create secret generic a --from-literal=k=hunter2")
        .await
        .ok();
    let output = k.run("describe secret a").await;
    output.shows("k:  7 bytes");
    assert!(!output.out.contains("hunter2"), "{output:#?}");
});
