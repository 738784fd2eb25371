//! `kubectl diff`: what an apply would change, and the exit code.

use crate::case;

case!(of_what_is_the_same_is_nothing, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply -f {file}")).await.ok();
    k.run(&format!("diff -f {file}")).await.prints("");
    k.run(&format!(
        "diff --server-side --field-manager=kubectl-client-side-apply -f {file}"
    ))
    .await
    .prints("");
});

case!(shows_lines_and_ends_with_one, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    k.run(&format!("apply -f {file}")).await.ok();
    k.config_map("a.yaml", "a", "{k: two}");
    let output = k.run(&format!("diff -f {file}")).await;
    assert_eq!(output.code, 1, "{output:#?}");
    assert!(output.out.contains("-  k: one\n+  k: two"), "{output:#?}");
    k.run("get configmap a -o jsonpath={.data.k}").await.prints("one");
});

case!(of_what_is_not_there_is_all_of_it, k, {
    let file = k.config_map("a.yaml", "a", "{k: one}");
    let output = k.run(&format!("diff -f {file}")).await;
    assert_eq!(output.code, 1, "{output:#?}");
    assert!(output.out.contains("+  k: one"), "{output:#?}");
    k.run("get configmap a").await.fails("not found");
});

case!(of_what_is_not_valid_ends_with_more_than_one, k, {
    k.define_widgets().await;
    let file = k.widget("a.yaml", "a", "{num: 11}");
    let output = k.run(&format!("diff --server-side -f {file}")).await;
    output.fails("num must be at most 10");
    assert!(output.code > 1, "{output:#?}");
});
