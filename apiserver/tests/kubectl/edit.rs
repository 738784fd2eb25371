//! `kubectl edit`, with a non-interactive editor.

use crate::case;

case!(what_is_changed_is_patched, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 4}");
    k.run(&format!("create -f {file}")).await.ok();
    k.run_with("edit WIDGETS a", &[("EDITOR", "sed -i 's/num: 4/num: 5/'")])
        .await
        .prints(&format!("widget.{}/a edited", k.group));
    k.run("get WIDGETS a -o jsonpath={.spec.num}").await.prints("5");
});

case!(nothing_changed_is_nothing_written, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    let before = k
        .run("get configmap a -o jsonpath={.metadata.resourceVersion}")
        .await
        .ok();
    let output = k.run_with("edit configmap a", &[("EDITOR", "true")]).await;
    assert!(
        output.err.contains("Edit cancelled, no changes made"),
        "{output:#?}"
    );
    k.run("get configmap a -o jsonpath={.metadata.resourceVersion}")
        .await
        .prints(&before);
});

case!(what_is_refused_is_kept_in_a_file, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 4}");
    k.run(&format!("create -f {file}")).await.ok();
    // The second time the editor changes nothing, and kubectl gives up.
    k.run_with("edit WIDGETS a", &[("EDITOR", "sed -i 's/num: 4$/num: 40/'")])
        .await
        .fails("no valid changes were saved");
    k.run("get WIDGETS a -o jsonpath={.spec.num}").await.prints("4");
});

case!(a_status_by_its_subresource, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 4}");
    k.run(&format!("create -f {file}")).await.ok();
    k.run(r#"patch WIDGETS a --subresource=status --type=merge -p {"status":{"note":"old"}}"#)
        .await
        .ok();
    k.run_with(
        "edit WIDGETS a --subresource=status",
        &[("EDITOR", "sed -i 's/note: old/note: new/'")],
    )
    .await
    .shows("edited");
    k.run("get WIDGETS a -o jsonpath={.status.note}")
        .await
        .prints("new");
});
