//! What is rolled out: small applications, each with a Deployment and a ConfigMap, and the example fleet of this
//! repository.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

pub use crate::app::{APPS, Quality, condition, image_tag, is_current, is_ready, manifests, status_text};
use crate::bed::{Bed, Kind, Workload, kinds};

/// Longer than any rollout over a few clusters takes.
pub const ROLLED: Duration = Duration::from_mins(1);

/// The Deployment of an application, whose image tag is the version.
pub fn workload(app: &str) -> Workload {
    Workload::new(APPS, app)
}

impl Bed {
    /// `git commit && git tag` of a new version of an application. Returns the tag, which is also the version.
    pub fn release(&self, app: &str, number: u32, quality: Quality) -> String {
        let version = format!("{app}-v{number}");
        self.commit_version(app, &manifests(app, &version, quality), &version);
        version
    }

    /// The same with custom manifests.
    pub fn commit_version(&self, app: &str, manifests: &str, tag: &str) {
        self.git.commit(&[(&format!("apps/{app}/all.yaml"), manifests)]);
        self.git.tag(tag);
    }

    /// The spec of a module for `env: prod`, one cluster at a time.
    pub fn spec(&self, app: &str, tag: &str) -> Value {
        json!({
            "selector": {"matchLabels": {"env": "prod"}},
            "sync": {
                "source": {"git": {"url": self.git.url(), "version": {"tag": tag}}},
                "package": {
                    "path": format!("apps/{app}"), "substitute": {"CLUSTER": "$(CLUSTER_NAME)"},
                    "interval": "1m", "retryInterval": "10s", "timeout": "30s",
                },
            },
            "onDelete": "Withdraw",
        })
    }

    /// Creates a module.
    pub async fn create_module(&self, kind: Kind, app: &str, tag: &str) {
        self.fleet()
            .create(
                kind,
                json!({"metadata": {"name": app}, "spec": self.spec(app, tag)}),
            )
            .await;
    }

    /// Creates modules at their first versions, and waits until they are ready.
    pub async fn deploy(&self, apps: &[&str]) {
        for app in apps {
            let version = self.release(app, 1, Quality::Good);
            self.create_module(kinds::MODULE, app, &version).await;
        }
        for app in apps {
            self.until_ready(app, &format!("{app}-v1")).await;
        }
    }

    /// Commits a version of an application and points its module at it.
    pub async fn roll(&self, app: &str, number: u32, quality: Quality) -> String {
        let version = self.release(app, number, quality);
        self.target(app, &version).await;
        version
    }

    /// Points a module at a tag.
    pub async fn target(&self, app: &str, tag: &str) {
        let version = json!({"spec": {"sync": {"source": {"git": {"version": {"tag": tag}}}}}});
        self.fleet().patch(kinds::MODULE, app, version).await;
    }

    /// A Module.
    pub async fn module(&self, app: &str) -> Value {
        self.fleet()
            .get(kinds::MODULE, app)
            .await
            .expect("the module is there")
    }

    /// Waits until a module reports that it is ready at a tag. Returns the elapsed time.
    pub async fn until_ready(&self, app: &str, tag: &str) -> Duration {
        self.until_ready_within(kinds::MODULE, app, tag, ROLLED).await
    }

    /// The same for both kinds of modules, with a deadline.
    pub async fn until_ready_within(&self, kind: Kind, app: &str, tag: &str, deadline: Duration) -> Duration {
        let poll = async || {
            let module = self.fleet().get(kind, app).await.ok_or("no such module")?;
            let there = is_current(&module) && module["status"]["source"]["tag"] == tag && is_ready(&module);
            if there { Ok(()) } else { Err(status_text(&module)) }
        };
        self.wait_until(&format!("{app} is ready at {tag}"), deadline, poll)
            .await
            .0
    }

    /// Waits until a module's current Ready condition has a reason. Returns the module.
    pub async fn until_reason(&self, app: &str, reason: &str, deadline: Duration) -> Value {
        let poll = async || {
            let module = self.module(app).await;
            let found = is_current(&module)
                && condition(&module, "Ready").is_some_and(|ready| ready["reason"] == reason);
            if found {
                Ok(module)
            } else {
                Err(status_text(&module))
            }
        };
        self.wait_until(&format!("{app} is {reason}"), deadline, poll)
            .await
            .1
    }

    /// Waits until a module lists a cluster with a reason and with this text in its message. Returns the message.
    pub async fn until_named(
        &self,
        app: &str,
        cluster: &str,
        reason: &str,
        words: &[&str],
        deadline: Duration,
    ) -> String {
        let poll = async || {
            let module = self.module(app).await;
            let named = attention(&module, cluster).and_then(|entry| {
                let message = entry["message"].as_str().unwrap_or_default();
                let matches = entry["reason"] == reason && words.iter().all(|word| message.contains(word));
                matches.then(|| message.to_owned())
            });
            named.ok_or_else(|| status_text(&module))
        };
        self.wait_until(&format!("{cluster} is {reason}"), deadline, poll)
            .await
            .1
    }

    /// Waits until a module is ready and does not list a cluster in `attention`.
    pub async fn until_not_named(&self, app: &str, cluster: &str, deadline: Duration) {
        let poll = async || {
            let module = self.module(app).await;
            if is_ready(&module) && attention(&module, cluster).is_none() {
                Ok(())
            } else {
                Err(status_text(&module))
            }
        };
        self.wait_until(&format!("{cluster} is not named"), deadline, poll)
            .await;
    }

    /// Waits until a cluster's Deployment has a version in its spec: the cluster has begun to change.
    pub async fn until_wanted(&self, cluster: &str, app: &str, version: &str) {
        let poll = async || {
            let deployment = self.inside(cluster, APPS).get(kinds::DEPLOYMENT, app).await;
            let wanted = deployment.as_ref().and_then(image_tag);
            if wanted == Some(version) {
                Ok(())
            } else {
                Err(format!("{wanted:?}"))
            }
        };
        self.wait_until(&format!("{cluster} wants {version}"), ROLLED, poll)
            .await;
    }

    /// The version of a cluster's objects, if they all have the same.
    pub async fn version_in(&self, cluster: &str, app: &str) -> Option<String> {
        let inside = self.inside(cluster, APPS);
        let config = inside.get(kinds::CONFIG_MAP, app).await?;
        let deployment = inside.get(kinds::DEPLOYMENT, app).await?;
        let text = config["data"]["version"].as_str()?.to_owned();
        image_tag(&deployment)
            .is_some_and(|tag| tag == text)
            .then_some(text)
    }

    /// The resource versions of an application's objects in a cluster: unchanged as long as nothing writes.
    pub async fn resource_versions(&self, cluster: &str, app: &str) -> Vec<String> {
        let inside = self.inside(cluster, APPS);
        let mut versions = Vec::new();
        for kind in [kinds::CONFIG_MAP, kinds::DEPLOYMENT] {
            let object = inside.get(kind, app).await.expect("the object is there");
            versions.push(object["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
        }
        versions
    }

    /// Copies the example fleet of this repository into git, as its first version `v1.0.0`.
    pub fn commit_example_fleet(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/fleet");
        let files = read_directory(&root, &root);
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        self.git.commit(&files);
        self.git.tag("v1.0.0");
    }
}

/// What a module reports about a cluster that needs attention.
fn attention<'a>(module: &'a Value, cluster: &str) -> Option<&'a Value> {
    let mut entries = module["status"]["attention"].as_array()?.iter();
    entries.find(|entry| entry["cluster"] == cluster)
}

fn read_directory(root: &Path, directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(read_directory(root, &path));
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    files.sort();
    files
}
