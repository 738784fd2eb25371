//! Promise: with `--dashboard-auth token` a controller's dashboard shows the fleet only to users who may get its
//! modules; the permissions of `muster install --dashboard` are sufficient for it.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use muster_e2e::bed::{keep_uses, muster};
use muster_real::{Fleet, Plan};

/// How long the controller may take until it answers.
const PATIENCE: Duration = Duration::from_mins(1);

/// A user who may view the dashboard, and one who may not.
const PEOPLE: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: fleet}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger, namespace: fleet}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: viewer, namespace: fleet}
rules: [{apiGroups: [fleet.muster.dev], resources: [modules], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: fleet}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: fleet}]
";

/// A module to show.
const MODULE: &str = "
apiVersion: fleet.muster.dev/v1alpha1
kind: Module
metadata: {name: web, namespace: fleet}
spec: {sync: {source: {git: {url: 'https://git.test/fleet', version: {tag: v1}}}}}
";

/// The administrator's kubectl.
struct Kubectl(PathBuf);

impl Kubectl {
    fn run(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", &self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "kubectl {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn apply(&self, manifests: &str) {
        self.run(&["apply", "--server-side", "-f", "-"], manifests);
    }

    fn token(&self, namespace: &str, account: &str) -> String {
        self.run(&["create", "token", "-n", namespace, account], "")
    }
}

/// A running controller.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have exited on its own, which the test has shown already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status and text of a response to this token; `None` while there is no response.
fn http_get(address: &str, path: &str, token: Option<&str>) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let authorization = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1)?.parse().unwrap();
    Some((status, answer))
}

fn start(directory: &Path, kubeconfig: &str, address: &str) -> Controller {
    let file = directory.join("controller.kubeconfig");
    std::fs::write(&file, kubeconfig).unwrap();
    let child = Command::new(muster())
        .args([
            "controller",
            "--namespace",
            "fleet",
            "--leader-elect=false",
            "--dashboard-auth",
            "token",
        ])
        .args(["--dashboard-addr", address, "--kubeconfig"])
        .arg(file)
        .arg("--data-dir")
        .arg(directory.join("data"))
        .spawn()
        .unwrap();
    Controller(child)
}

#[test]
#[ignore = "real: cargo xtask real run"]
fn dashboard_access_follows_the_right_to_get_modules() {
    let directory = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::start(&directory.path().join("real"), Plan::default()).unwrap();
    fleet.add(&["management".to_owned()]).unwrap();
    let plane = fleet.plane("management").unwrap();
    let kubectl = Kubectl(plane.kubeconfig());
    let install = [
        "install",
        "--export",
        "--management",
        "--crds",
        "--cluster-api",
        "--dashboard",
        "token",
        "-n",
        "fleet",
    ];
    let manifests = Command::new(muster()).args(install).output().unwrap().stdout;
    kubectl.apply(&String::from_utf8(manifests).unwrap());
    kubectl.apply(PEOPLE);
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all"], "");
    kubectl.apply(MODULE);
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let token = kubectl.token("muster-system", "muster-controller");
    let _controller = start(
        directory.path(),
        &plane.kubeconfig_by_token("muster-controller", &token),
        &address,
    );

    let (viewer, stranger) = (
        kubectl.token("fleet", "viewer"),
        kubectl.token("fleet", "stranger"),
    );
    let started = Instant::now();
    // A kind whose storage is not ready yet is read later; until then the matrix is answered with 503.
    while http_get(&address, "/api/v1/matrix.json", Some(&viewer)).is_none_or(|(status, _)| status != 200) {
        assert!(started.elapsed() < PATIENCE, "the fleet is not read");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let page = loop {
        match http_get(&address, "/", Some(&viewer)) {
            Some((200, page)) if page.contains("module/web") && page.contains("href=\"./module/web\"") => {
                break page;
            }
            other => assert!(started.elapsed() < PATIENCE, "{other:?}"),
        }
        std::thread::park_timeout(Duration::from_millis(100));
    };
    assert!(!page.contains("Not everything can be read"), "{page}");
    for (token, expect) in [
        (None, 401),
        (Some("no.token.of.anybody"), 401),
        (Some(&*stranger), 403),
        (Some(&*viewer), 200),
    ] {
        for path in ["/", "/activity", "/api/v1/matrix.json"] {
            let (status, answer) = http_get(&address, path, token).unwrap();
            assert_eq!(status, expect, "{path}: {answer}");
        }
    }
    let (_, activity) = http_get(&address, "/activity", Some(&viewer)).unwrap();
    assert!(
        !activity.contains("Not everything can be read"),
        "the events may be read: {activity}"
    );
    keep_uses(&fleet, "dashboard");
}
