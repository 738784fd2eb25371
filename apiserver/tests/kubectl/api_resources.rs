//! `kubectl api-resources`, `api-versions`, `version`, `auth`.

use crate::case;

case!(of_a_group, k, {
    k.define_widgets().await;
    let line = format!("api-resources --api-group={} -o wide --no-headers", k.group);
    let output = k.run(&line).await;
    let words: Vec<&str> = output.out.split_whitespace().collect();
    let version = format!("{}/v1", k.group);
    let toys = format!("{}-toys", k.ns);
    let verbs = "delete,deletecollection,get,list,patch,create,update,watch";
    assert_eq!(
        words,
        ["widgets", &k.ns, &version, "true", "Widget", verbs, &toys],
        "{output:#?}"
    );
});

case!(of_the_core, k, {
    let output = k.run("api-resources --namespaced=false -o name").await;
    for name in [
        "namespaces",
        "nodes",
        "customresourcedefinitions.apiextensions.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
    ] {
        assert!(output.out.lines().any(|line| line == name), "{name}: {output:#?}");
    }
    let output = k
        .run("api-resources --namespaced=true --verbs=list,watch -o name")
        .await;
    for name in [
        "configmaps",
        "secrets",
        "deployments.apps",
        "leases.coordination.k8s.io",
    ] {
        assert!(output.out.lines().any(|line| line == name), "{name}: {output:#?}");
    }
});

case!(versions_of_groups, k, {
    k.define_widgets().await;
    let output = k.run("api-versions").await;
    for version in [
        "v1",
        "apps/v1",
        "apiextensions.k8s.io/v1",
        &format!("{}/v1", k.group),
    ] {
        assert!(
            output.out.lines().any(|line| line == version),
            "{version}: {output:#?}"
        );
    }
});

case!(the_version_of_the_server, k, {
    k.run("version").await.shows("Server Version: v1.36");
});

case!(a_kind_that_was_removed_is_gone_from_discovery, k, {
    k.define_widgets().await;
    k.run("delete crd WIDGETS").await.shows("deleted");
    k.until(
        &format!("api-resources --cached=false --api-group={} -o name", k.group),
        |output| output.out.is_empty(),
    )
    .await;
});
