//! Promise: `muster diff` prints what applying a directory would change, writes nothing, and shows no value of a
//! Secret.

use muster_apiserver::ApiServer;

use crate::{CommandOutput, Tree};

/// Values of Secrets, plain and base64-encoded.
const CANARIES: [&str; 6] = [
    "canary-old",
    "Y2FuYXJ5LW9sZA==",
    "canary-new",
    "Y2FuYXJ5LW5ldw==",
    "canary-same",
    "Y2FuYXJ5LXNhbWU=",
];

fn config(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: web}}\ndata: {{key: \"{value}\"}}\n"
    )
}

fn secret(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: web}}\nstringData: {{moved: {value}, same: canary-same}}\n"
    )
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {team: web}}\n";

/// A cluster and a directory.
struct Bed {
    api: ApiServer,
    tree: Tree,
}

impl Bed {
    async fn new(files: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = ApiServer::builder().seed(1).start().await.unwrap();
        let tree = Tree::new(files);
        tree.write("config", &api.kubeconfig().unwrap());
        Self { api, tree }
    }

    /// Applies the directory as the sync does, by kubectl.
    fn apply(&self) {
        let built = self.tree.muster(&["build", "app"]);
        assert_eq!(built.code, Some(0), "{built:?}");
        // kubectl validates a List by the OpenAPI v2 of a server, which this server does not have.
        let arguments = [
            "apply",
            "--server-side",
            "--field-manager=muster-sync",
            "--validate=false",
            "-f",
            "-",
        ];
        // The namespace must exist before its objects.
        self.tree.kubectl(&arguments, NAMESPACE);
        self.tree.kubectl(&arguments, &built.out);
    }

    /// Runs the command and asserts that it writes nothing and shows no Secret.
    #[track_caller]
    fn diff(&self, arguments: &[&str]) -> CommandOutput {
        self.api.recorder().clear();
        let output = self.tree.muster(&[&["diff", "app"], arguments].concat());
        let requests = self.api.recorder().requests();
        assert!(!requests.is_empty());
        for request in requests {
            assert!(
                request.method == "GET" || request.query.contains("dryRun=All"),
                "{} {}?{}",
                request.method,
                request.path,
                request.query
            );
        }
        for canary in CANARIES {
            assert!(
                !output.out.contains(canary) && !output.err.contains(canary),
                "{canary}: {output:?}"
            );
        }
        assert!(!output.out.contains('\u{1b}'), "no colours in a pipe");
        output
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_created_changed_and_as_it_should_be() {
    let bed = Bed::new(&[
        ("app/a.yaml", &config("a", "1")),
        ("app/ns.yaml", NAMESPACE),
        ("app/s.yaml", &secret("canary-old")),
    ])
    .await;
    let output = bed.diff(&[]);
    assert_eq!(output.code, Some(1), "{output:?}");
    insta::assert_snapshot!("created", output.out);
    bed.apply();
    // kubectl applied `stringData`, the sync would apply `data`.
    let output = bed.diff(&[]);
    assert_eq!(
        (output.code, output.out.as_str(), output.err.as_str()),
        (
            Some(0),
            "1 to be owned by muster-sync, content unchanged, 2 unchanged\n",
            ""
        )
    );
    bed.tree.write("app/a.yaml", &config("a", "2"));
    bed.tree.write("app/b.yaml", &config("b", "1"));
    bed.tree.write("app/s.yaml", &secret("canary-new"));
    let output = bed.diff(&[]);
    assert_eq!(output.code, Some(1), "{output:?}");
    insta::assert_snapshot!("changed", output.out);
    let quiet = bed.diff(&["-q"]);
    assert_eq!(
        (quiet.code, quiet.out.as_str(), quiet.err.as_str()),
        (Some(1), "", "")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_a_kustomization_applies_it() {
    let bed = Bed::new(&[
        (
            "app/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: \"${FIRST} ${SECOND}\"}\n",
        ),
        ("app/ns.yaml", NAMESPACE),
    ])
    .await;
    let crds = bed.tree.muster(&["crds", "--downstream"]).out;
    bed.tree.kubectl(&["apply", "--server-side", "-f", "-"], &crds);
    bed.tree.kubectl(
        &[
            "wait",
            "--for=condition=Established",
            "--all",
            "--timeout=30s",
            "crd",
        ],
        "",
    );
    let objects = r#"
apiVersion: v1
kind: Namespace
metadata: {name: web, labels: {team: web, kustomize.toolkit.fluxcd.io/name: app, kustomize.toolkit.fluxcd.io/namespace: default}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: old, namespace: web, labels: {kustomize.toolkit.fluxcd.io/name: app, kustomize.toolkit.fluxcd.io/namespace: default}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: foreign, namespace: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: variables, namespace: default}
data: {SECOND: "2", FIRST: "0"}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: default}
spec:
  interval: 10m
  prune: true
  targetNamespace: web
  sourceRef: {kind: GitRepository, name: app}
  postBuild:
    substitute: {FIRST: "1"}
    substituteFrom: [{kind: ConfigMap, name: variables}, {kind: Secret, name: hidden}, {kind: ConfigMap, name: none, optional: true}]
"#;
    bed.tree.kubectl(
        &["apply", "--server-side", "--field-manager=muster-sync", "-f", "-"],
        objects,
    );
    let status = r#"{"status": {"inventory": {"entries": [{"id": "web_old__ConfigMap", "v": "v1"}, {"id": "web_foreign__ConfigMap", "v": "v1"}, {"id": "_web__Namespace", "v": "v1"}]}}}"#;
    bed.tree.kubectl(
        &[
            "patch",
            "kustomization",
            "app",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ],
        "",
    );
    let output = bed.diff(&["--kustomization", "app", "-n", "default"]);
    assert_eq!((output.code, output.err.as_str()), (Some(1), ""));
    insta::assert_snapshot!("kustomization", output.out);
    bed.tree.write("app/a.yaml", &config("a", "${HIDDEN}"));
    let output = bed.diff(&["--kustomization", "app", "-n", "default"]);
    assert_eq!(output.code, Some(2));
    assert!(
        output
            .err
            .ends_with("variables of Secret/hidden are not read for a diff; give them with --substitute\n"),
        "{output:?}"
    );
    let output = bed.diff(&[
        "--kustomization",
        "app",
        "-n",
        "default",
        "--substitute",
        "HIDDEN=x",
    ]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let output = bed.diff(&["--kustomization", "nobody", "-n", "default"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    std::fs::remove_file(bed.tree.path("app/a.yaml")).unwrap();
    std::fs::remove_file(bed.tree.path("app/ns.yaml")).unwrap();
    let output = bed.diff(&["--kustomization", "app", "-n", "default"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("fleet.muster.dev/allow-empty"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_come_with_the_directory_and_what_cannot_be_found_out() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.org}\nspec:\n  \
               group: example.org\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets}\n  versions:\n  - name: v1\n    served: \
               true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
    let widget = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
    let bed = Bed::new(&[("app/crd.yaml", crd), ("app/w.yaml", widget)]).await;
    let output = bed.diff(&[]);
    assert_eq!((output.code, output.err.as_str()), (Some(1), ""));
    assert!(
        output.out.ends_with("\n2 to create\n") && output.out.contains("+kind: Widget"),
        "{output:?}"
    );
    std::fs::remove_file(bed.tree.path("app/crd.yaml")).unwrap();
    let output = bed.diff(&[]);
    assert_eq!((output.code, output.out.as_str()), (Some(2), "1 unknown\n"));
    assert!(
        output.err.contains("no matches for kind \"Widget\""),
        "{output:?}"
    );
    bed.tree.write("app/w.yaml", &secret("[1]"));
    let output = bed.diff(&[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    bed.tree.write("app/w.yaml", "a: [\n");
    let output = CommandOutput {
        err: String::new(),
        ..bed.tree.muster(&["diff", "app"])
    };
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
}

#[test]
fn a_cluster_that_is_not_there_is_exit_code_2() {
    let tree = Tree::new(&[("app/a.yaml", &config("a", "1"))]);
    let output = tree.muster(&["diff", "app", "--kubeconfig", "nowhere"]);
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
    assert!(output.err.contains("kubeconfig nowhere"), "{output:?}");
}
