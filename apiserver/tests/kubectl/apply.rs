//! `kubectl apply`, client-side and server-side.

use crate::case;

case!(creates_then_leaves_then_configures, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply -f {file}"))
        .await
        .prints("configmap/a created");
    k.run(&format!("apply -f {file}"))
        .await
        .prints("configmap/a unchanged");
    k.config_map("a.yaml", "a", "{k: two}");
    k.run(&format!("apply -f {file}"))
        .await
        .prints("configmap/a configured");
    k.run("get configmap a -o jsonpath={.data.k}").await.prints("two");
});

case!(takes_away_what_left_the_file, k, {
    let file = k.config_map("a.yaml", "a", "{k: one, l: two}");
    k.run(&format!("apply -f {file}")).await.ok();
    k.run("patch configmap a --type=merge -p {\"data\":{\"theirs\":\"3\"}}")
        .await
        .ok();
    k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply -f {file}"))
        .await
        .prints("configmap/a configured");
    k.run("get configmap a -o jsonpath={.data}")
        .await
        .prints(r#"{"k":"one","theirs":"3"}"#);
});

case!(remembers_what_it_applied_in_an_annotation, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply -f {file}")).await.ok();
    k.run("apply view-last-applied configmap a -o json")
        .await
        .shows(r#""k": "one""#);
    k.run(&format!("apply set-last-applied -f {file}"))
        .await
        .shows("configmap/a");
});

case!(what_was_created_otherwise_is_warned_about, k, {
    k.run("create configmap a --from-literal=k=one").await.ok();
    let file = k.config_map("a.yaml", "a", "{k: two}");
    let output = k.run(&format!("apply -f {file}")).await;
    assert!(
        output.err.contains("last-applied-configuration annotation"),
        "{output:#?}"
    );
    output.prints("configmap/a configured");
});

case!(server_side_names_who_owns_a_field, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply --server-side --field-manager=first -f {file}"))
        .await
        .prints("configmap/a serverside-applied");
    k.config_map("a.yaml", "a", "{k: two}");
    k.run(&format!("apply --server-side --field-manager=second -f {file}"))
        .await
        .fails("Apply failed with 1 conflict: conflict with \"first\": .data.k");
    k.run("get configmap a -o jsonpath={.data.k}").await.prints("one");
});

case!(server_side_takes_a_field_by_force, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply --server-side --field-manager=first -f {file}"))
        .await
        .ok();
    k.config_map("a.yaml", "a", "{k: two}");
    k.run(&format!(
        "apply --server-side --force-conflicts --field-manager=second -f {file}"
    ))
    .await
    .prints("configmap/a serverside-applied");
    k.run("get configmap a -o jsonpath={.metadata.managedFields[*].manager} --show-managed-fields")
        .await
        .prints("second");
});

case!(server_side_after_client_side_owns_what_that_owned, k, {
    let file = k.config_map("a.yaml", "a", "{k: one, l: two}");
    k.run(&format!("apply -f {file}")).await.ok();
    k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply --server-side -f {file}"))
        .await
        .prints("configmap/a serverside-applied");
    k.run("get configmap a -o jsonpath={.data}")
        .await
        .prints(r#"{"k":"one"}"#);
});

case!(a_dry_run_changes_nothing, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply --dry-run=server -f {file}"))
        .await
        .prints("configmap/a created (server dry run)");
    k.run("get configmap a").await.fails("configmaps \"a\" not found");
    k.run(&format!("apply -f {file}")).await.ok();
    k.config_map("a.yaml", "a", "{k: two}");
    k.run(&format!(
        "apply --server-side --force-conflicts --dry-run=server -f {file}"
    ))
    .await
    .prints("configmap/a serverside-applied (server dry run)");
    k.run("get configmap a -o jsonpath={.data.k}").await.prints("one");
});

case!(prunes_what_a_selector_finds_and_the_files_lack, k, {
    k.file(
        "both.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {app: x}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, labels: {app: x}}\n",
    );
    k.file(
        "one.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {app: x}}\n",
    );
    k.run("apply -f both.yaml")
        .await
        .prints("configmap/a created\nconfigmap/b created");
    k.run("apply -f one.yaml --prune -l app=x --prune-allowlist=core/v1/ConfigMap")
        .await
        .prints("configmap/a unchanged\nconfigmap/b pruned");
    k.run("get configmaps -l app=x -o name")
        .await
        .prints("configmap/a");
});

case!(takes_lists_directories_and_kustomizations, k, {
    k.file(
        "list.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n",
    );
    k.run("apply -f list.yaml")
        .await
        .prints("configmap/a created\nsecret/b created");
    k.config_map("base/a.yaml", "a", "{k: one}");
    k.run("apply -f base").await.prints("configmap/a configured");
    k.file(
        "base/kustomization.yaml",
        "resources: [a.yaml]\nnamePrefix: my-\n",
    );
    k.run("apply -k base").await.prints("configmap/my-a created");
});

case!(what_is_not_valid_is_said_with_its_field, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 11, text: UP}");
    k.run(&format!("apply -f {file}"))
        .await
        .fails("spec.num: Invalid value: 11: num must be at most 10")
        .fails("spec.text in body should match '^[a-z]+$'");
    k.widget("a.yaml", "a", "{bogus: 1}");
    k.run(&format!("apply -f {file}"))
        .await
        .fails("unknown field \"spec.bogus\"");
    k.run(&format!("apply --server-side -f {file}"))
        .await
        .fails(".spec.bogus: field not declared in schema");
    k.run(&format!("apply --validate=false -f {file}")).await.ok();
    k.run("get WIDGETS a -o jsonpath={.spec}").await.prints("{}");
});

case!(a_custom_resource_is_applied_like_any_other, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 3, text: abc}");
    let name = format!("widget.{}/a", k.group);
    k.run(&format!("apply -f {file}"))
        .await
        .prints(&format!("{name} created"));
    k.run(&format!("apply -f {file}"))
        .await
        .prints(&format!("{name} unchanged"));
    k.widget("a.yaml", "a", "{num: 4}");
    k.run(&format!("apply -f {file}"))
        .await
        .prints(&format!("{name} configured"));
    k.run("get WIDGETS a -o jsonpath={.spec}")
        .await
        .prints(r#"{"num":4}"#);
});
