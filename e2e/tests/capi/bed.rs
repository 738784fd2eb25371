//! A management cluster with Cluster API's own controllers, and muster with the permissions that are installed.

use std::{
    collections::BTreeMap, ffi::OsString, fs, future::Future, net::TcpListener, process::Stdio,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{Node, Secret},
    events::v1::Event,
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
    discovery::pinned_kind,
};
use muster_api::{ClusterUpgrade, crds};
use muster_e2e::bed::{
    install::{established, export, token},
    keep_uses, kubectl_apply, muster,
};
use muster_real::{Fleet, Plan};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    NEW,
    certificate::Certificate,
    door::Door,
    objects::{NS, apart, class, cluster},
    updater::Updater,
};

const PLANE: &str = "management";
/// The name of a Cluster without a topology.
pub(crate) const APART: &str = "apart";
/// The ServiceAccount of the controller.
const CONTROLLER: (&str, &str) = ("muster-system", "muster-controller");
/// The ServiceAccount of the extension, and the name of its ExtensionConfig.
const MACHINES: &str = "muster-machines";
/// Label selectors of control plane Machines, and of all others.
pub(crate) const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
pub(crate) const WORKERS: &str = "!cluster.x-k8s.io/control-plane";
/// Timeout of every wait, ample on two busy cores.
const LIMIT: Duration = Duration::from_mins(4);
/// Timeout until Cluster API serves a kind and its webhooks.
const READY: Duration = Duration::from_secs(20);
/// The poll interval.
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct Bed {
    pub fleet: Fleet,
    pub client: Client,
    pub kubeconfig: std::path::PathBuf,
    doors: BTreeMap<String, Door>,
    controller: Option<Child>,
    extension: Option<Extension>,
    directory: TempDir,
}

/// `muster machines serve`, and its arguments.
struct Extension {
    arguments: Vec<OsString>,
    child: Child,
}

pub(crate) fn of(group: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(group, "v1beta2", kind)
}

impl Bed {
    /// Creates Clusters at a version and waits until they are ready, each behind a proxy; muster does not run yet.
    pub(crate) async fn new(names: &[&str], version: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let within = directory.path().join("fleet");
        let fleet = spawn_blocking(move || {
            let mut fleet = Fleet::start(&within, Plan::default())?;
            fleet.add(&[PLANE.to_owned()])?;
            fleet.start_cluster_api(PLANE)?;
            anyhow::Ok(fleet)
        });
        let fleet = fleet.await.unwrap().unwrap();
        let kubeconfig = fleet.plane(PLANE).unwrap().kubeconfig();
        let options = KubeConfigOptions::default();
        let config =
            kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig).unwrap(), &options);
        let client = Client::try_from(config.await.unwrap()).unwrap();
        let mut bed = Self {
            fleet,
            client,
            kubeconfig,
            doors: BTreeMap::new(),
            controller: None,
            extension: None,
            directory,
        };
        let flags = ["--management", "--upgrades", "--crds"];
        kubectl_apply(&bed.kubeconfig, &export(&flags, None).await).await;
        established(
            bed.client.clone(),
            &[crds::management(), crds::upgrades()].concat(),
        )
        .await;
        for object in class() {
            bed.apply(object).await;
        }
        for name in names {
            let objects = if *name == APART {
                apart(name, version)
            } else {
                vec![cluster(name, version)]
            };
            for object in objects {
                bed.create(object).await;
            }
        }
        for name in names {
            bed.put_a_door_before(name).await;
        }
        for name in names {
            bed.until(&format!("{name} is available"), async || {
                let found = bed.get(of("cluster.x-k8s.io", "Cluster"), name).await?;
                is(&found, "Available").then_some(())
            })
            .await;
        }
        bed
    }

    /// As `kubectl apply --server-side`.
    pub(crate) async fn apply(&self, object: Value) {
        let by = PatchParams::apply("person").force();
        self.write(object, async |api, name, object| {
            api.patch(name, &by, &Patch::Apply(object)).await.err()
        })
        .await;
    }

    /// As `kubectl create`: with server-side apply, muster would leave the version to its manager.
    pub(crate) async fn create(&self, object: Value) {
        self.write(object, async |api, _, object| {
            api.create(&PostParams::default(), object).await.err()
        })
        .await;
    }

    async fn write(
        &self,
        object: Value,
        write: impl AsyncFn(&Api<DynamicObject>, &str, &DynamicObject) -> Option<kube::Error>,
    ) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let types = object.types.clone().unwrap();
        let gvk = GroupVersionKind::try_from(&types).unwrap();
        let name = object.metadata.name.clone().unwrap();
        let api = self.objects(gvk).await;
        let until = Instant::now() + READY;
        while let Some(error) = write(&api, &name, &object).await {
            assert!(Instant::now() < until, "{} {name}: {error}", types.kind);
            sleep(PAUSE).await;
        }
    }

    pub(crate) async fn objects(&self, gvk: GroupVersionKind) -> Api<DynamicObject> {
        let resource: ApiResource = self
            .until(&format!("{} is served", gvk.kind), async || {
                pinned_kind(&self.client, &gvk).await.ok().map(|(found, _)| found)
            })
            .await;
        Api::namespaced_with(self.client.clone(), NS, &resource)
    }

    pub(crate) async fn get(&self, gvk: GroupVersionKind, name: &str) -> Option<Value> {
        let found = self.objects(gvk).await.get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn merge(&self, gvk: GroupVersionKind, name: &str, patch: Value) {
        let api = self.objects(gvk).await;
        let by = PatchParams::default();
        api.patch(name, &by, &Patch::Merge(patch)).await.unwrap();
    }

    /// Points the Secret that muster and Cluster API read to the proxy.
    async fn put_a_door_before(&mut self, name: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NS);
        let secret = format!("{name}-kubeconfig");
        let found = self
            .until(&format!("Secret {secret}"), async || {
                secrets.get_opt(&secret).await.unwrap()
            })
            .await;
        let text = found.data.unwrap().remove("value").unwrap().0;
        let mut kubeconfig: Value = muster_sync::yaml::to_json(String::from_utf8(text).unwrap()).unwrap();
        let door = Door::before(&kubeconfig).await;
        let server = &mut kubeconfig["clusters"][0]["cluster"];
        server["server"] = json!(door.url);
        server["certificate-authority-data"] = json!(base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            &door.authority
        ));
        let patch = json!({"stringData": {"value": kubeconfig.to_string()}});
        let by = PatchParams::default();
        secrets.patch(&secret, &by, &Patch::Merge(patch)).await.unwrap();
        self.doors.insert(name.to_owned(), door);
    }

    /// Starts `muster controller --upgrades`, as its ServiceAccount.
    pub(crate) async fn start_controller(&mut self) {
        let mut arguments = self.as_account(CONTROLLER.1).await;
        arguments.extend(["--namespace", NS, "--upgrades", "--data-dir"].map(OsString::from));
        arguments.push(self.directory.path().join("data").into());
        arguments.insert(0, "controller".into());
        self.controller = Some(self.spawn(&arguments));
    }

    /// Starts `muster machines serve` with these updaters, as its ServiceAccount, and waits until Cluster API has
    /// discovered it.
    pub(crate) async fn start_machines(&mut self, updaters: &[&Updater]) {
        let entries: Vec<Value> = updaters
            .iter()
            .zip(1..)
            .map(|(updater, order)| updater.entry(order))
            .collect();
        let write = |name: &str, text: &str| {
            let file = self.directory.path().join(name);
            fs::write(&file, text).unwrap();
            file.into_os_string()
        };
        let file = write("updaters.yaml", &json!({"updaters": entries}).to_string());
        let certificate = Certificate::of_loopback();
        let flags = ["--machines", "--crds", "--updaters", file.to_str().unwrap()];
        kubectl_apply(&self.kubeconfig, &export(&flags, None).await).await;
        established(self.client.clone(), &crds::machines()).await;
        // The extension keeps its port when it is killed and restarted.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut arguments = vec![OsString::from("machines"), "serve".into()];
        arguments.extend(self.as_account(MACHINES).await);
        for (flag, value) in [
            ("--updaters", file),
            ("--hooks-addr", address.to_string().into()),
            ("--tls-cert-file", write("tls.crt", &certificate.chain)),
            ("--tls-key-file", write("tls.key", &certificate.key)),
        ] {
            arguments.extend([flag.into(), value]);
        }
        self.extension = Some(Extension {
            child: self.spawn(&arguments),
            arguments,
        });
        let client_config =
            json!({"service": null, "url": format!("https://{address}"), "caBundle": certificate.bundle()});
        let kind = of("runtime.cluster.x-k8s.io", "ExtensionConfig");
        let (resource, _) = pinned_kind(&self.client, &kind).await.unwrap();
        let configs: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let patch = json!({"spec": {"clientConfig": client_config}});
        let by = PatchParams::default();
        configs.patch(MACHINES, &by, &Patch::Merge(patch)).await.unwrap();
        self.until("Cluster API has discovered the extension", async || {
            let found = serde_json::to_value(configs.get(MACHINES).await.unwrap()).unwrap();
            is(&found, "Discovered").then_some(())
        })
        .await;
    }

    /// Kills the extension, and starts it again with the same arguments.
    pub(crate) async fn restart_machines(&mut self) {
        let Extension { arguments, mut child } = self.extension.take().unwrap();
        child.kill().await.unwrap();
        self.extension = Some(Extension {
            child: self.spawn(&arguments),
            arguments,
        });
    }

    /// The flags that run a process of muster as an installed ServiceAccount.
    async fn as_account(&self, name: &str) -> Vec<OsString> {
        let token = token(self.client.clone(), CONTROLLER.0, name).await;
        let plane = self.fleet.plane(PLANE).unwrap();
        let kubeconfig = self.directory.path().join(format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, plane.kubeconfig_by_token(name, &token)).unwrap();
        vec![
            "--kubeconfig".into(),
            kubeconfig.into(),
            "--metrics-addr=127.0.0.1:0".into(),
        ]
    }

    /// Starts a process of muster; all processes share one log file.
    fn spawn(&self, arguments: &[OsString]) -> Child {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        Command::new(muster())
            .args(arguments)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Kills the controller.
    pub(crate) async fn kill_controller(&mut self) {
        self.controller.take().unwrap().kill().await.unwrap();
    }

    fn log(&self) -> std::path::PathBuf {
        self.directory.path().join("muster.log")
    }

    /// Creates ClusterUpgrade `next` for all Clusters.
    pub(crate) async fn upgrade(&self, rollout: Value) {
        self.apply(json!({
            "apiVersion": "fleet.muster.dev/v1alpha1",
            "kind": "ClusterUpgrade",
            "metadata": {"name": "next", "namespace": NS},
            "spec": {"selector": {}, "target": {"kubernetes": NEW}, "rollout": rollout},
        }))
        .await;
    }

    /// The only control plane Machine of a Cluster.
    pub(crate) async fn machine_of_the_control_plane(&self, cluster: &str) -> String {
        let machines = self.machines(cluster, CONTROL_PLANE).await;
        machines[0]["metadata"]["name"].as_str().unwrap().to_owned()
    }

    /// The Machines of a Cluster that match a label selector.
    pub(crate) async fn machines(&self, cluster: &str, which: &str) -> Vec<Value> {
        let labels = format!("cluster.x-k8s.io/cluster-name={cluster},{which}");
        let machines = self.objects(of("cluster.x-k8s.io", "Machine")).await;
        let found = machines
            .list(&ListParams::default().labels(&labels))
            .await
            .unwrap();
        found
            .into_iter()
            .map(|machine| serde_json::to_value(machine).unwrap())
            .collect()
    }

    /// Runs the kubectl command at the end of a message of muster.
    pub(crate) async fn run_command_of(&self, message: &str) {
        let command = &message[message.find("kubectl ").expect(message)..];
        let ran = Command::new("sh")
            .args(["-ec", command])
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .await
            .unwrap();
        assert!(ran.status.success(), "{command}: {ran:?}");
    }

    /// The output of a muster subcommand.
    pub(crate) async fn muster(&self, arguments: &[&str]) -> String {
        let ran = Command::new(muster())
            .args(arguments)
            .args(["--namespace", NS])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .output()
            .await
            .unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Waits until `next` lists a Cluster with this reason, and returns the message.
    pub(crate) async fn until_why(&self, cluster: &str, reason: &str) -> String {
        self.until(&format!("{cluster}: {reason}"), async || {
            let (found, message) = self.why(cluster).await?;
            (found == reason).then_some(message)
        })
        .await
    }

    /// Whether the Node of a Machine is cordoned, according to its Cluster.
    pub(crate) async fn is_cordoned(&self, cluster: &str, machine: &str) -> bool {
        let found = self
            .get(of("cluster.x-k8s.io", "Machine"), machine)
            .await
            .unwrap();
        let node = found["status"]["nodeRef"]["name"].as_str().unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NS);
        let secret = secrets.get(&format!("{cluster}-kubeconfig")).await.unwrap();
        let text = secret.data.unwrap().remove("value").unwrap().0;
        let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8(text).unwrap()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        let nodes: Api<Node> = Api::all(Client::try_from(config).unwrap());
        nodes.get(node).await.unwrap().spec.unwrap().unschedulable == Some(true)
    }

    /// Waits for an event about the object of this kind with the name of the Cluster, and returns its note.
    pub(crate) async fn until_event(&self, kind: &str, reason: &str) -> String {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NS);
        let of_kind = ListParams::default().fields(&format!("regarding.kind={kind},reason={reason}"));
        self.until(&format!("an event {reason} about a {kind}"), async || {
            let found = events.list(&of_kind).await.unwrap();
            found.items.into_iter().find_map(|event| event.note)
        })
        .await
    }

    pub(crate) fn upgrades(&self) -> Api<ClusterUpgrade> {
        Api::namespaced(self.client.clone(), NS)
    }

    /// The reason and message of a Cluster in `next`.
    async fn why(&self, cluster: &str) -> Option<(String, String)> {
        let status = self.upgrades().get("next").await.unwrap().status?;
        let group = status.reasons.into_iter().find(|group| {
            let names = group
                .clusters
                .split(',')
                .flat_map(|part| muster_api::ranges::expand(part, 100).unwrap());
            names.into_iter().any(|name| name == cluster)
        })?;
        let own = status
            .attention
            .into_iter()
            .find(|entry| entry.cluster == cluster);
        let message = own.map(|entry| entry.message).or(group.message);
        Some((group.reason, message.unwrap_or_default()))
    }

    pub(crate) async fn version(&self, cluster: &str) -> String {
        let found = self
            .get(of("cluster.x-k8s.io", "Cluster"), cluster)
            .await
            .unwrap();
        found["spec"]["topology"]["version"].as_str().unwrap().to_owned()
    }

    /// Waits until `found` returns a value; panics with the controller's log and the status of all ClusterUpgrades on
    /// timeout.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        found: impl Fn() -> F,
    ) -> T {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(found) = found().await {
                return found;
            }
            if Instant::now() > until {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(30).collect();
                let all = self.upgrades().list(&ListParams::default()).await;
                let all = all.map(|all| all.items.into_iter().map(|one| one.status).collect::<Vec<_>>());
                panic!("never: {what}\n{all:#?}\n{}", tail.join("\n"));
            }
            sleep(PAUSE).await;
        }
    }

    /// Records the permissions used so far, under the name of a scenario, for the test of rights.
    pub(crate) fn keep_uses(&self, scenario: &str) {
        keep_uses(&self.fleet, scenario);
    }

    /// The API server's audit log.
    pub(crate) fn audit_log(&self) -> String {
        fs::read_to_string(self.fleet.plane(PLANE).unwrap().audit_log()).unwrap()
    }
}

/// Whether an object has a condition that is true.
pub(crate) fn is(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found["type"] == condition && found["status"] == "True")
}
