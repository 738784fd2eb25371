//! `kubectl get`: selectors, columns, chunks, watches, and forms of output.

use crate::{case, harness::Kubectl};

/// Secrets `a` to `e` with labels `at` and `even`.
async fn five(k: &Kubectl) {
    let documents: Vec<String> = ["a", "b", "c", "d", "e"]
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let even = if number % 2 == 0 { ", even: 'yes'" } else { "" };
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, labels: {{at: '{number}'{even}}}}}\n"
            )
        })
        .collect();
    k.file("five.yaml", &documents.join("---\n"));
    k.run("create -f five.yaml").await.ok();
}

case!(by_labels, k, {
    five(&k).await;
    for (selector, names) in [
        ("even=yes", "secret/a\nsecret/c\nsecret/e"),
        ("even!=yes", "secret/b\nsecret/d"),
        ("!even", "secret/b\nsecret/d"),
        ("at,even", "secret/a\nsecret/c\nsecret/e"),
        ("at=1", "secret/b"),
    ] {
        k.run(&format!("get secrets -l {selector} -o name"))
            .await
            .prints(names);
    }
});

case!(by_sets_of_labels, k, {
    five(&k).await;
    for (selector, names) in [
        ("at+in+(0,1)", "secret/a\nsecret/b"),
        ("at+notin+(0,1,2,3)", "secret/e"),
    ] {
        let path = format!("/api/v1/namespaces/{}/secrets?labelSelector={selector}", k.ns);
        let list: serde_json::Value =
            serde_json::from_str(&k.run(&format!("get --raw {path}")).await.ok()).unwrap();
        let found: Vec<String> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| format!("secret/{}", item["metadata"]["name"].as_str().unwrap()))
            .collect();
        assert_eq!(found.join("\n"), names);
    }
});

case!(by_fields, k, {
    five(&k).await;
    k.run("get secrets --field-selector=metadata.name=b -o name")
        .await
        .prints("secret/b");
    k.run("get secrets --field-selector=metadata.name!=b -o name")
        .await
        .prints("secret/a\nsecret/c\nsecret/d\nsecret/e");
    k.run("get secrets --field-selector=spec.bogus=b")
        .await
        .fails("field label not supported: spec.bogus");
});

case!(in_chunks_nothing_is_lost, k, {
    five(&k).await;
    k.run("get secrets --chunk-size=2 -o name")
        .await
        .prints("secret/a\nsecret/b\nsecret/c\nsecret/d\nsecret/e");
});

case!(columns_of_ones_own, k, {
    five(&k).await;
    k.run("get secrets -o custom-columns=NAME:.metadata.name,AT:.metadata.labels.at,EVEN:.metadata.labels.even")
        .await
        .prints("NAME   AT    EVEN\na      0     yes\nb      1     <none>\nc      2     yes\nd      3     <none>\ne      4     yes");
    k.run("get secrets -L even -l at=0 --no-headers")
        .await
        .shows("Opaque")
        .shows("yes");
});

case!(columns_of_a_definition, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 3, text: abc}");
    k.run(&format!("create -f {file}")).await.ok();
    let (short, toys) = (&k.ns, format!("{}-toys", k.ns));
    k.run(&format!("get {short}"))
        .await
        .prints("NAME   NUM\na      3");
    k.run(&format!("get {short} -o wide"))
        .await
        .prints("NAME   NUM   TEXT\na      3     abc");
    k.run(&format!("get {toys} -o name"))
        .await
        .prints(&format!("widget.{}/a", k.group));
});

case!(columns_of_the_core, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    k.run("get configmap a --no-headers").await.shows("a     1 ");
    k.run("create service clusterip s --tcp=80").await.ok();
    k.run("get service s")
        .await
        .shows("NAME   TYPE        CLUSTER-IP")
        .shows("80/TCP");
});

case!(in_an_order, k, {
    five(&k).await;
    k.run("get secrets --sort-by={.metadata.labels.even} -o name")
        .await
        .ok();
    let sorted = k
        .run("get secrets --sort-by={.metadata.name} -o jsonpath={.items[*].metadata.name}")
        .await;
    sorted.prints("a b c d e");
});

case!(several_kinds_and_namespaces, k, {
    five(&k).await;
    k.run("create configmap a").await.ok();
    k.run("get secret/a configmap/a -o name")
        .await
        .prints("secret/a\nconfigmap/a");
    let all = k.run("get secrets --all-namespaces -l at=4").await;
    all.shows(&k.ns);
});

case!(what_is_not_there, k, {
    k.run("get configmap nothing")
        .await
        .fails("Error from server (NotFound): configmaps \"nothing\" not found");
    k.run("get configmap nothing --ignore-not-found").await.prints("");
    k.run("get gizmos")
        .await
        .fails("the server doesn't have a resource type \"gizmos\"");
    let output = k.run("get secrets").await;
    assert!(
        output
            .err
            .contains(&format!("No resources found in {} namespace.", k.ns)),
        "{output:#?}"
    );
});

case!(a_watch_tells_of_each_change, k, {
    five(&k).await;
    let mut watch = k.follow("get secrets -l even=yes --watch --output-watch-events --no-headers");
    for name in ["a", "c", "e"] {
        assert!(watch.next().await.starts_with(&format!("ADDED {name} ")));
    }
    k.run("label secret b even=yes").await.ok();
    assert!(watch.next().await.starts_with("ADDED b "));
    k.run("label secret c other=yes").await.ok();
    assert!(watch.next().await.starts_with("MODIFIED c "));
    k.run("label secret b even-").await.ok();
    assert!(
        watch.next().await.starts_with("DELETED b "),
        "it left the selection"
    );
    k.run("delete secret a").await.ok();
    assert!(watch.next().await.starts_with("DELETED a "));
});

case!(what_is_written_out_can_be_read_in_again, k, {
    five(&k).await;
    let text = k.run("get secret a -o yaml").await.ok();
    k.run("delete secret a").await.ok();
    let without: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("resourceVersion") && !line.contains("uid"))
        .collect();
    k.file("again.yaml", &without.join("\n"));
    k.run("create -f again.yaml").await.prints("secret/a created");
    k.run("replace -f again.yaml").await.prints("secret/a replaced");
});
