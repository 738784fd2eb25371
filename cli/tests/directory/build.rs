//! Promise: `muster build` prints what would be applied, in order, byte for byte the same each time, and kubectl
//! accepts it; or it reports the errors with their position.

use std::process::Stdio;

use muster_apiserver::ApiServer;
use serde_json::Value;

use crate::{CommandOutput, Tree};

/// Strings that printers get wrong, and that must be preserved.
const HARD: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: hard, namespace: default}
data:
  no: "no"
  octal: "0644"
  thousand: '1_000'
  binary: "0b11"
  time: "1:30"
  empty: ""
  tilde: "~"
  script: |
    #!/bin/sh
    echo "a: b" # c
  colon: "a colon: and # more"
  strange: "ünï \u202eabc\u0007"
"#;

fn fleet() -> Tree {
    Tree::new(&[
        (
            "apps/web/b.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: default}\nstringData: {token: hunter2}\n",
        ),
        ("apps/web/a.yml", HARD),
        (
            "apps/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two, namespace: default}\ndata: {count: \"${COUNT:=1}\", who: \"${WHO}\"}\n---\n\
             kind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: one}}\n",
        ),
        ("apps/README.md", "no manifest"),
    ])
}

#[test]
fn one_list_in_the_order_of_path_and_document() {
    let tree = fleet();
    let yaml = tree.muster(&["build", "apps"]);
    assert_eq!((yaml.code, yaml.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(yaml.out);
    assert_eq!(
        tree.muster(&["build", "./apps/"]),
        yaml,
        "the same bytes each time"
    );
    let json = tree.muster(&[
        "build",
        "apps",
        "-o",
        "json",
        "--substitute",
        "WHO=a=b",
        "--substitute",
        "COUNT=3",
    ]);
    let list: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (list["apiVersion"].as_str(), list["kind"].as_str()),
        (Some("v1"), Some("List"))
    );
    let items = list["items"].as_array().unwrap();
    let names: Vec<&str> = items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["two", "one", "hard", "b"]);
    assert_eq!(
        (&items[0]["data"]["count"], &items[0]["data"]["who"]),
        (&"3".into(), &"a=b".into())
    );
}

#[test]
fn an_empty_directory_prints_an_empty_list_and_quiet_prints_nothing() {
    let tree = fleet();
    std::fs::create_dir(tree.path("empty")).unwrap();
    let empty = tree.muster(&["build", "empty"]);
    assert_eq!(empty.code, Some(0));
    assert_eq!(empty.out, "apiVersion: v1\nitems: []\nkind: List\n");
    assert_eq!(empty.err, "empty contains no objects\n");
    let quiet = tree.muster(&["build", "apps", "-q"]);
    assert_eq!(
        quiet,
        CommandOutput {
            code: Some(0),
            out: String::new(),
            err: String::new()
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_takes_what_is_printed_as_it_is() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let api = ApiServer::start().await.unwrap();
    let tree = fleet();
    tree.write("config", &api.kubeconfig().unwrap());
    let built = tree.muster(&["build", "apps/web"]);
    // kubectl validates a List by the OpenAPI v2 of a server, which this server does not have.
    let arguments = [
        "apply",
        "--dry-run=server",
        "--validate=false",
        "-o",
        "json",
        "-f",
        "-",
    ];
    let taken = tree.kubectl(&arguments, &built.out);
    let taken: Value = serde_json::from_str(&taken).unwrap();
    let json = tree.muster(&["build", "apps/web", "-o", "json"]);
    let list: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(taken["items"][0]["data"], list["items"][0]["data"]);
    assert_eq!(list["items"][0]["data"]["octal"], "0644");
    assert_eq!(taken["items"][1]["data"]["token"], "aHVudGVyMg==");
}

#[test]
fn errors_have_file_line_and_column_and_all_errors_prints_every_one() {
    let tree = fleet();
    tree.write(
        "apps/web/c.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  name: d\n",
    );
    tree.write(
        "apps/web/d.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${MISSING}\"}\n",
    );
    tree.write("apps/web/kustomization.yaml", "resources: []\n");
    let first = "error: \"apps/web/kustomization.yaml\" needs kustomize, which the built-in sync does not have; remove the file, \
                 or run Flux in this cluster\n";
    let duplicate = "error: apps/web/c.yaml:5:3: duplicate key \"name\", first at 4:3\n";
    let output = tree.muster(&["build", "apps/web"]);
    assert_eq!(output.code, Some(1));
    assert_eq!(
        (output.out.as_str(), output.err),
        ("", format!("{first}and 2 more: --all-errors shows them\n"))
    );
    let all = tree.muster(&["build", "apps/web", "--all-errors", "--substitute", "COUNT=1"]);
    assert_eq!(all.code, Some(1));
    let missing = "error: apps/web/d.yaml:3:18: variable MISSING is not set and has no default (known: COUNT); write $${ for a literal ${\n";
    assert_eq!(all.err, format!("{first}{duplicate}{missing}"));
    std::fs::remove_file(tree.path("apps/web/kustomization.yaml")).unwrap();
    let output = tree.muster(&["build", "apps/web"]);
    // A name with a variable is invalid unless variables are substituted.
    let output = (output.code, output.err);
    assert_eq!(
        output,
        (
            Some(1),
            format!("{duplicate}and 1 more: --all-errors shows them\n")
        )
    );
}

#[test]
fn a_mistake_on_the_command_line_is_exit_code_2() {
    let tree = fleet();
    for (arguments, expected) in [
        (&["build"][..], "<DIRECTORY>"),
        (&["build", "nowhere"], "error: \"nowhere\" does not exist\n"),
        (
            &["build", "apps/a.yaml"],
            "it is a file; use the directory that contains it",
        ),
        (&["build", "apps", "--substitute", "N"], "write NAME=VALUE"),
        (
            &["build", "apps", "--substitute", "a-b=1"],
            "variable name \"a-b\" is invalid",
        ),
        (&["build", "apps", "-o", "table"], "possible values"),
    ] {
        let output = tree.muster(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(output.err.contains(expected), "{arguments:?}: {output:?}");
    }
}

#[test]
fn help_begins_with_examples() {
    let tree = fleet();
    for verb in ["build", "diff"] {
        let help = tree.muster(&[verb, "--help"]).out;
        assert!(
            help.starts_with(&format!("Examples:\n  muster {verb} apps/podinfo")),
            "{help}"
        );
        assert!(
            help.contains("Exit codes: 0") && help.contains("Secrets"),
            "{help}"
        );
    }
}

/// As with every verb: the output is incomplete, and must not pass for complete.
#[test]
fn a_closed_output_pipe_ends_the_command_silently() {
    let tree = fleet();
    let large = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: l}}\ndata: {{x: \"{}\"}}\n",
        "x".repeat(1 << 20)
    );
    tree.write("apps/z.yaml", &large);
    let mut child = tree
        .command(env!("CARGO_BIN_EXE_muster"), &["build", "apps"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = CommandOutput::of(&child.wait_with_output().unwrap());
    assert_eq!((output.code, output.err.as_str()), (Some(141), ""));
}

/// A module with health expressions for widgets.
fn widgets(expressions: &str) -> String {
    format!(
        "apiVersion: fleet.muster.dev/v1\nkind: Module\nmetadata: {{name: web, namespace: default}}\nspec:\n  sync:\n    package:\n      \
         healthExpressions:\n      - apiVersion: example.test/v1\n        kind: Widget\n{expressions}"
    )
}

const RECORDED: &str = "apiVersion: v1
kind: List
items:
- {apiVersion: example.test/v1, kind: Widget, metadata: {name: a, namespace: shop, generation: 2}, status: {phase: Running}}
- {apiVersion: example.test/v2, kind: Widget, metadata: {name: b, namespace: shop, generation: 2}, status: {phase: Broken}}
- {apiVersion: example.test/v1, kind: Widget, metadata: {name: c, namespace: shop, generation: 2}, status: {phase: Running, observedGeneration: 1}}
- {apiVersion: example.test/v1, kind: Widget, metadata: {name: d, deletionTimestamp: \"2026-01-01T00:00:00Z\"}, status: {phase: Running}}
- {apiVersion: example.test/v1, kind: Widget, metadata: {name: e}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: f, namespace: shop}}
";

#[test]
fn expressions_of_health_over_recorded_objects() {
    let expressions =
        "        current: status.phase == 'Running'\n        failed: status.phase == 'Broken'\n";
    let tree = Tree::new(&[
        ("modules/web.yaml", &widgets(expressions)),
        ("recorded.yaml", RECORDED),
    ]);
    let output = tree.muster(&["build", "modules", "--health", "recorded.yaml"]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(output.out);

    let two = "        current: status.phase\n      - {apiVersion: other.test/v1, kind: Other, current: \"status.phase ==\"}\n";
    tree.write("modules/web.yaml", &widgets(two));
    let output = tree.muster(&["build", "modules", "--health", "recorded.yaml"]);
    assert_eq!(output.code, Some(1));
    insta::assert_snapshot!(output.err);
    let output = tree.muster(&["build", "modules", "--health", "nowhere.yaml"]);
    assert_eq!(output.code, Some(1));
    assert!(output.err.contains("error: nowhere.yaml: "), "{}", output.err);
}

#[test]
fn the_table_of_health_over_recorded_objects() {
    let module = |more: &str| {
        format!(
            "apiVersion: fleet.muster.dev/v1\nkind: Module\nmetadata: {{name: web, namespace: default}}\nspec: {{sync: {{package: {{{more}}}}}}}\n"
        )
    };
    let recorded = "apiVersion: flagger.app/v1beta1\nkind: Canary\nmetadata: {name: a, namespace: shop}\nstatus: {phase: Progressing}\n";
    let tree = Tree::new(&[
        ("modules/web.yaml", &module("healthTable: v1")),
        ("live.yaml", recorded),
    ]);
    let arguments = ["build", "modules", "--health", "live.yaml"];
    let output = tree.muster(&arguments);
    assert_eq!(
        output.out,
        "Canary/shop/a: InProgress: current is not true (Module/web, healthTable)\n"
    );
    let own =
        "healthTable: v1, healthExpressions: [{apiVersion: flagger.app/v1, kind: Canary, current: 'true'}]";
    tree.write("modules/web.yaml", &module(own));
    let output = tree.muster(&arguments);
    assert_eq!(
        output.out,
        "Canary/shop/a: Current: current is true (Module/web)\n"
    );
    tree.write("modules/web.yaml", &module(""));
    let output = tree.muster(&arguments);
    assert_eq!(
        output.out,
        "Canary/shop/a: Current: Resource is current (the rules of its kind)\n"
    );
}

/// A suggestion to use the built-in health table is not a failure, not even with `--strict`; an expression that does
/// not parse is.
#[test]
fn lint_proposes_the_table_of_health_and_reads_expressions() {
    let module = |package: &str| {
        format!(
            "apiVersion: fleet.muster.dev/v1alpha1\nkind: Module\nmetadata: {{name: web, namespace: default}}\nspec:\n  selector: {{}}\n  \
             rollout: {{maxUnreadyClusters: 25%}}\n  sync:\n    source: {{git: {{url: https://example.com/fleet.git, version: {{tag: v1}}}}}}\n    \
             package: {{path: apps/web{package}}}\n"
        )
    };
    let canary = "apiVersion: flagger.app/v1beta1\nkind: Canary\nmetadata: {name: a}\n";
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: canaries.flagger.app}\nspec:\n  \
         group: flagger.app\n  names: {kind: Canary}\n  versions: [{name: v1beta1, schema: {openAPIV3Schema: {properties: {status: {properties: \
         {observedGeneration: {type: integer}}}}}}}]\n";
    let tree = Tree::new(&[
        ("modules/web.yaml", &module("")),
        ("apps/web/canary.yaml", canary),
        ("apps/web/definition.yaml", definition),
    ]);
    let output = tree.muster(&["lint", "--strict"]);
    assert_eq!(output.code, Some(0), "{}", output.out);
    insta::assert_snapshot!(output.out);
    let expression =
        ", healthExpressions: [{apiVersion: flagger.app/v1beta1, kind: Canary, current: 'status.phase =='}]";
    tree.write("modules/web.yaml", &module(expression));
    let output = tree.muster(&["lint"]);
    assert_eq!(output.code, Some(1), "{}", output.out);
    insta::assert_snapshot!(output.out);
}
