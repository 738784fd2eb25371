//! Unmodified kubectl against the server under test, in a namespace and an API group of the case.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use muster_apiserver::{ApiServer, player::Speeds};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};

/// Timeout for the server's controllers. A real garbage collector discovers new kinds every 30 s.
const PATIENCE: Duration = Duration::from_mins(1);

/// kubectl in its own namespace.
pub(crate) struct Kubectl {
    directory: TempDir,
    kubeconfig: PathBuf,
    /// Keeps an embedded server alive.
    _api: Option<ApiServer>,
    /// The namespace of the case.
    pub ns: String,
    /// API group of the custom kinds of the case.
    pub group: String,
}

/// A kubectl that keeps running, such as a watch.
pub(crate) struct Following {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// The next line, with its words separated by one space each.
    pub(crate) async fn next(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line())
            .await
            .expect("kubectl is silent");
        let line = line.unwrap().expect("kubectl goes on");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Output and exit code of kubectl.
#[derive(Debug)]
pub(crate) struct KubectlOutput {
    #[expect(dead_code, reason = "a failed check shows it")]
    line: String,
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl KubectlOutput {
    /// Asserts that it succeeded and printed exactly this.
    #[track_caller]
    pub(crate) fn prints(&self, expect: &str) {
        assert_eq!((self.code, self.out.as_str()), (0, expect), "{self:?}");
    }

    /// Asserts that it succeeded and that its output contains this.
    #[track_caller]
    pub(crate) fn shows(&self, expect: &str) -> &Self {
        assert!(
            self.code == 0 && self.out.contains(expect),
            "{self:#?}\nlacks {expect:?}"
        );
        self
    }

    /// Asserts that it failed with this message.
    #[track_caller]
    pub(crate) fn fails(&self, message: &str) -> &Self {
        assert!(
            self.code != 0 && self.err.contains(message),
            "{self:#?}\nlacks {message:?}"
        );
        self
    }

    /// Asserts that it succeeded and returns its output.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }
}

impl Kubectl {
    /// `None`, with a message, if kubectl is not installed.
    pub(crate) async fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if Command::new("kubectl")
            .args(["version", "--client"])
            .output()
            .await
            .is_err()
        {
            eprintln!("skipped: there is no kubectl on the path");
            return None;
        }
        let directory = TempDir::new().unwrap();
        let (api, kubeconfig) = if let Ok(path) = std::env::var("MUSTER_CONTRACT_KUBECONFIG") {
            (None, PathBuf::from(path))
        } else {
            let api = ApiServer::builder()
                .workloads(Speeds::default())
                .start()
                .await
                .unwrap();
            let path = directory.path().join("kubeconfig");
            std::fs::write(&path, api.kubeconfig().unwrap()).unwrap();
            (Some(api), path)
        };
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .subsec_nanos();
        let ns = format!(
            "k{:x}x{nanos:x}x{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let kubectl = Self {
            directory,
            kubeconfig,
            _api: api,
            group: format!("{ns}.example"),
            ns,
        };
        kubectl
            .run(&format!("create namespace {}", kubectl.ns))
            .await
            .ok();
        Some(kubectl)
    }

    /// Runs kubectl in the namespace of the case. Words are separated by spaces; `WIDGETS` and `GROUP` stand for the
    /// kind and the group of the case.
    pub(crate) async fn run(&self, line: &str) -> KubectlOutput {
        self.run_with(line, &[]).await
    }

    /// Runs kubectl with environment variables.
    pub(crate) async fn run_with(&self, line: &str, environment: &[(&str, &str)]) -> KubectlOutput {
        let output = self
            .command(line)
            .envs(environment.iter().copied())
            .output()
            .await
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end().to_owned();
        KubectlOutput {
            line: format!("kubectl {line}"),
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// A kubectl that runs until it is dropped: its lines, one by one.
    pub(crate) fn follow(&self, line: &str) -> Following {
        let mut child = self.command(line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Following { _child: child, lines }
    }

    fn command(&self, line: &str) -> Command {
        let widgets = format!("widgets.{}", self.group);
        let line = line.replace("WIDGETS", &widgets).replace("GROUP", &self.group);
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.directory.path().join("cache"))
            .args(["--namespace", &self.ns])
            .args(line.split(' '))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Writes a file to the working directory of kubectl. Returns its name.
    pub(crate) fn file<'a>(&self, name: &'a str, text: &str) -> &'a str {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        name
    }

    /// A file with a ConfigMap.
    pub(crate) fn config_map<'a>(&self, file: &'a str, name: &str, data: &str) -> &'a str {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {data}\n");
        self.file(file, &text)
    }

    /// A file with a widget.
    pub(crate) fn widget<'a>(&self, file: &'a str, name: &str, spec: &str) -> &'a str {
        let group = &self.group;
        let text =
            format!("apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        self.file(file, &text)
    }

    /// Defines the kind Widget in the group of the case.
    pub(crate) async fn define_widgets(&self) {
        let definition = DEFINITION
            .replace("GROUP", &self.group)
            .replace("SHORT", &self.ns);
        let file = self.file("definition.yaml", &definition);
        self.run(&format!("apply -f {file}")).await.ok();
        self.run("wait --for=condition=Established --timeout=30s crd/WIDGETS")
            .await
            .ok();
        // A real server reports established before all of its processes serve the kind.
        self.until("get WIDGETS", |output| output.code == 0).await;
    }

    /// Runs a line until its output is as expected.
    pub(crate) async fn until(&self, line: &str, expect: impl Fn(&KubectlOutput) -> bool) -> KubectlOutput {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.run(line).await;
            if expect(&output) {
                return output;
            }
            assert!(
                Instant::now() < deadline,
                "timed out after {PATIENCE:?}: {output:#?}"
            );
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A kind with a rule, a pattern, a status, two columns, a short name and a category.
const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [SHORT], categories: [SHORT-toys]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Num, type: integer, jsonPath: .spec.num}
    - {name: Text, type: string, jsonPath: .spec.text, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget is a part.
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
              num: {type: integer, description: How many., x-kubernetes-validations: [{rule: 'self <= 10', message: num must be at most 10}]}
              text: {type: string, description: Which words., pattern: '^[a-z]+$'}
          status:
            type: object
            properties:
              note: {type: string}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
";
