//! `kubectl wait` and `kubectl rollout status`.

use crate::case;

case!(for_a_condition, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 4}");
    k.run(&format!("create -f {file}")).await.ok();
    let (waited, patched) = tokio::join!(
        k.run("wait --for=condition=Done --timeout=30s WIDGETS/a"),
        k.run(r#"patch WIDGETS a --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Done","status":"True"}]}}"#),
    );
    patched.ok();
    waited.prints(&format!("widget.{}/a condition met", k.group));
});

case!(for_a_value, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    let (waited, patched) = tokio::join!(
        k.run("wait --for=jsonpath={.data.k}=two --timeout=30s configmap/a"),
        k.run(r#"patch configmap a --type=merge -p {"data":{"k":"two"}}"#),
    );
    patched.ok();
    waited.prints("configmap/a condition met");
});

case!(for_a_deletion, k, {
    k.run("create configmap a").await.ok();
    let (waited, deleted) = tokio::join!(
        k.run("wait --for=delete --timeout=30s configmap/a"),
        k.run("delete configmap a"),
    );
    deleted.ok();
    waited.ok();
});

case!(for_a_creation, k, {
    let (waited, created) = tokio::join!(
        k.run("wait --for=create --timeout=30s configmap/a"),
        k.run("create configmap a"),
    );
    created.ok();
    waited.prints("configmap/a condition met");
});

case!(in_vain_it_ends_with_an_error, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    k.run("wait --for=jsonpath={.data.k}=two --timeout=1s configmap/a")
        .await
        .fails("timed out waiting for the condition on configmaps/a");
});

case!(for_the_rollout_of_a_deployment, k, {
    k.run("create deployment web --image=example.com/web:1 --replicas=2")
        .await
        .ok();
    k.run("rollout status deployment/web --timeout=60s")
        .await
        .shows("deployment \"web\" successfully rolled out");
    k.run("get deployment web -o jsonpath={.status.readyReplicas}")
        .await
        .prints("2");
    k.run("set image deployment/web web=example.com/web:2")
        .await
        .prints("deployment.apps/web image updated");
    k.run("rollout status deployment/web --timeout=60s")
        .await
        .shows("successfully rolled out");
    k.run("rollout history deployment/web").await.shows("2");
    k.run("rollout undo deployment/web")
        .await
        .prints("deployment.apps/web rolled back");
    k.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}")
        .await
        .prints("example.com/web:1");
});
