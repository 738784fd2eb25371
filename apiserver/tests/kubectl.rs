//! Plain kubectl against the HTTPS door. Skipped, and said so, where there is no kubectl.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::used_underscore_binding,
    reason = "a helper that fails fails its test, and a table of cases is as long as its cases"
)]

use std::path::PathBuf;
use std::process::Command;

use muster_apiserver::ApiServer;
use tempfile::TempDir;

struct Kubectl {
    folder: TempDir,
    _api: ApiServer,
}

const CRD: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.t.example}
spec:
  group: t.example
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Num, type: integer, jsonPath: .spec.num}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              num: {type: integer, description: How many., x-kubernetes-validations: [{rule: 'self <= 10', message: num must be at most 10}]}
";

const WIDGET: &str = "apiVersion: t.example/v1\nkind: Widget\nmetadata: {name: a}\nspec: {num: 3}\n";

impl Kubectl {
    async fn new() -> Option<Self> {
        if Command::new("kubectl")
            .arg("version")
            .arg("--client")
            .output()
            .is_err()
        {
            eprintln!("skipped: there is no kubectl on the path");
            return None;
        }
        let api = ApiServer::start().await.unwrap();
        let kubectl = Self {
            folder: TempDir::new().unwrap(),
            _api: api,
        };
        std::fs::write(kubectl.path("kubeconfig"), kubectl._api.kubeconfig().unwrap()).unwrap();
        Some(kubectl)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// Runs kubectl off the runtime's threads, and answers what it printed.
    async fn run(&self, arguments: &str) -> String {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(self.path("kubeconfig"))
            .arg("--cache-dir")
            .arg(self.path("cache"));
        command
            .args(arguments.split(' '))
            .env("EDITOR", "sed -i s/num:.4/num:\\ 5/");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
            .trim()
            .to_owned()
    }

    async fn check(&self, arguments: &str, expect: &str) {
        let printed = self.run(arguments).await;
        assert!(
            printed.contains(expect),
            "kubectl {arguments}\nprinted {printed}\nwithout {expect}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_resources_from_definition_to_deletion() {
    let Some(kubectl) = Kubectl::new().await else {
        return;
    };
    let (crd, widget) = (kubectl.file("crd.yaml", CRD), kubectl.file("widget.yaml", WIDGET));
    kubectl.check(&format!("apply -f {crd}"), "created").await;
    kubectl
        .check(
            "wait --for=condition=Established crd/widgets.t.example",
            "condition met",
        )
        .await;
    kubectl
        .check(&format!("apply -f {widget}"), "widget.t.example/a created")
        .await;
    kubectl.check(&format!("apply -f {widget}"), "unchanged").await;
    kubectl.check(&format!("diff -f {widget}"), "").await;
    kubectl.check("get wd", "NAME   NUM\na      3").await;
    kubectl.check("explain widget.spec.num", "How many.").await;
    let changed = kubectl.file("widget.yaml", &WIDGET.replace("num: 3", "num: 4"));
    kubectl.check(&format!("apply -f {changed}"), "configured").await;
    kubectl
        .check(
            &format!("apply --server-side --force-conflicts -f {changed}"),
            "serverside-applied",
        )
        .await;
    kubectl.check("edit widget a", "edited").await;
    kubectl.check("get wd a -o jsonpath={.spec.num}", "5").await;
    let bad = kubectl.file(
        "bad.yaml",
        &WIDGET.replace("num: 3", "num: 11").replace("name: a", "name: b"),
    );
    kubectl
        .check(&format!("apply -f {bad}"), "num must be at most 10")
        .await;
    let unknown = kubectl.file(
        "unknown.yaml",
        &WIDGET.replace("num: 3", "bogus: 3").replace("name: a", "name: b"),
    );
    kubectl
        .check(&format!("create -f {unknown}"), "unknown field \"spec.bogus\"")
        .await;
    kubectl.check("describe widget a", "Num:").await;
    kubectl.check("delete widget a", "deleted").await;
    kubectl.check("delete crd widgets.t.example", "deleted").await;
    kubectl.check("get crd", "No resources found").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_kinds_by_their_commands() {
    let Some(kubectl) = Kubectl::new().await else {
        return;
    };
    kubectl
        .check("create namespace team", "namespace/team created")
        .await;
    kubectl
        .check(
            "-n team create configmap cm --from-literal=a=1",
            "configmap/cm created",
        )
        .await;
    kubectl
        .check("-n team get configmap cm -o jsonpath={.data.a}", "1")
        .await;
    kubectl
        .check(
            "-n team create secret generic s --from-literal=a=1",
            "secret/s created",
        )
        .await;
    kubectl
        .check("-n team get secret s -o jsonpath={.data.a}", "MQ==")
        .await;
    kubectl
        .check("-n team create serviceaccount robot", "created")
        .await;
    kubectl
        .check("-n team create role reader --verb=get --resource=pods", "created")
        .await;
    kubectl
        .check(
            "-n team create deployment web --image=nginx --replicas=2",
            "deployment.apps/web created",
        )
        .await;
    kubectl.check("-n team get deployment web", "0/2").await;
    kubectl
        .check("-n team scale deployment web --replicas=3", "scaled")
        .await;
    kubectl
        .check("-n team set image deployment/web nginx=nginx:2", "image updated")
        .await;
    kubectl
        .check(
            "-n team get deployment web -o jsonpath={.spec.template.spec.containers[0].image}",
            "nginx:2",
        )
        .await;
    kubectl
        .check("-n team expose deployment web --port=80", "exposed")
        .await;
    kubectl.check("-n team get services web", "ClusterIP").await;
    kubectl.check("-n team label configmap cm x=y", "labeled").await;
    kubectl
        .check("-n team get configmap -l x=y -o name", "configmap/cm")
        .await;
    kubectl
        .check("explain deployment.spec.replicas", "FIELD: replicas <integer>")
        .await;
    kubectl.check("delete namespace team", "deleted").await;
    kubectl.check("get namespace team", "not found").await;
}
