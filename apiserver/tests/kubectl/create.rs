//! `kubectl create`, `scale`, `expose`, `replace`: commands for core kinds.

use crate::case;

case!(config_maps_and_secrets, k, {
    k.run("create configmap a --from-literal=k=one")
        .await
        .prints("configmap/a created");
    k.run("create configmap a")
        .await
        .fails("configmaps \"a\" already exists");
    k.run("create secret generic s --from-literal=k=one")
        .await
        .prints("secret/s created");
    k.run("get secret s -o jsonpath={.data.k}{.type}")
        .await
        .prints("b25lOpaque");
});

case!(rights, k, {
    k.run("create serviceaccount robot")
        .await
        .prints("serviceaccount/robot created");
    k.run("create role reader --verb=get --resource=pods")
        .await
        .prints("role.rbac.authorization.k8s.io/reader created");
    k.run(&format!(
        "create rolebinding reads --role=reader --serviceaccount={}:robot",
        k.ns
    ))
    .await
    .prints("rolebinding.rbac.authorization.k8s.io/reads created");
    k.run("get rolebinding reads -o jsonpath={.roleRef.name}")
        .await
        .prints("reader");
});

case!(deployments_are_scaled_and_exposed, k, {
    k.run("create deployment web --image=example.com/web:1 --replicas=0 --port=80")
        .await
        .prints("deployment.apps/web created");
    k.run("scale deployment web --replicas=3")
        .await
        .prints("deployment.apps/web scaled");
    k.run("get deployment web -o jsonpath={.spec.replicas}")
        .await
        .prints("3");
    k.run("scale deployment web --current-replicas=1 --replicas=2")
        .await
        .fails("Expected replicas to be 1, was 3");
    k.run("expose deployment web").await.prints("service/web exposed");
    k.run("get service web -o jsonpath={.spec.selector.app}")
        .await
        .prints("web");
});

case!(names_are_made_up_on_request, k, {
    k.file(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\n",
    );
    let (one, two) = (
        k.run("create -f a.yaml -o name").await.ok(),
        k.run("create -f a.yaml -o name").await.ok(),
    );
    assert!(
        one.starts_with("configmap/made-") && one.len() == two.len() && one != two,
        "{one} {two}"
    );
});

case!(a_namespace_that_is_not_there, k, {
    k.run("-n nowhere-at-all create configmap a")
        .await
        .fails("namespaces \"nowhere-at-all\" not found");
});

case!(a_replacement_of_what_changed_meanwhile, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    let text = k.run("get configmap a -o yaml").await.ok();
    k.run("label configmap a x=1").await.ok();
    k.file("a.yaml", &text.replace("k: one", "k: two"));
    k.run("replace -f a.yaml")
        .await
        .fails("the object has been modified");
    k.run("get configmap a -o jsonpath={.data.k}").await.prints("one");
});
