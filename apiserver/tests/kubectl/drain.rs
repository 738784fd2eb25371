//! `kubectl drain`: it finds the eviction subresource by discovery, and evicts.

use crate::case;

case!(evicts_the_pods_of_a_node, k, {
    let node = format!("{}-node", k.group.replace('.', "-"));
    let manifest = format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n");
    let file = k.file("node.yaml", &manifest);
    k.run(&format!("create -f {file}")).await.ok();
    let spec = format!(
        "{{nodeName: {node}, tolerations: [{{operator: Exists}}], containers: [{{name: c, image: i}}]}}"
    );
    let pod = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {spec}\n");
    let file = k.file("pod.yaml", &pod);
    k.run(&format!("create -f {file}")).await.ok();
    k.run(&format!(
        "drain {node} --force --ignore-daemonsets --grace-period=0 --timeout=60s"
    ))
    .await
    .shows(&format!("node/{node} drained"));
    k.run("get pod a").await.fails("pods \"a\" not found");
    k.run(&format!("get node {node} -o jsonpath={{.spec.unschedulable}}"))
        .await
        .prints("true");
    k.run(&format!("delete node {node}")).await.ok();
});
