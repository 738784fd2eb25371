//! Promise: Cluster API finds the hooks by the ExtensionConfig alone, over TLS that its caBundle verifies; of several
//! processes the one with the lease answers, and only that one is ready.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use muster_controllers::{
    admission::{certificate::Subject, keeper::Storage},
    lease::{Election, LeaseDuration},
    machines::{config, updaters::Call},
    metrics::Metrics,
    process::{self, MachinesSetup},
    runtime::{Clock, Jitter, Shutdown},
};
use muster_machines::GROUP_VERSION;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

use crate::support::*;

const EXTENSION: &str = "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs";
const PATIENCE: Duration = Duration::from_secs(30);

struct Process {
    hooks: u16,
    door: u16,
    shutdown: Shutdown,
    _running: AbortOnDropHandle<()>,
}

async fn started(bed: &Bed, instance: &str) -> Process {
    let (hooks, door) = (listener().await, listener().await);
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let shutdown = Shutdown::new();
    let (of_hooks, of_door) = (port(&hooks), port(&door));
    let setup = MachinesSetup {
        client: bed.api.client_as("machines"),
        namespace: NAMESPACE.to_owned(),
        updaters: config::read(bed.config.as_bytes()).unwrap(),
        call: Arc::clone(&bed.updaters) as Arc<dyn Call>,
        connect: bed.connect(),
        storage: Storage::Secret {
            namespace: NAMESPACE.to_owned(),
            name: "certificate".to_owned(),
            subject: Subject {
                dns_names: vec!["localhost".to_owned()],
                org: "muster".to_owned(),
                expiration: Duration::from_hours(24),
            },
        },
        hooks,
        clock: Clock::system(),
        jitter: Jitter::from_system(),
        instance: instance.to_owned(),
        lease: Some(Election {
            client: bed.api.client_as("lease"),
            duration: LeaseDuration::default(),
        }),
        door: Some(door),
        metrics: Metrics::default(),
        shutdown: shutdown.clone(),
    };
    Process {
        hooks: of_hooks,
        door: of_door,
        shutdown,
        _running: AbortOnDropHandle::new(tokio::spawn(async move {
            process::run_machines(setup).await.unwrap();
        })),
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

impl Process {
    async fn ready(&self) -> u16 {
        let url = format!("http://127.0.0.1:{}/readyz", self.door);
        let answer = reqwest::get(url).await;
        answer.map_or(0, |answer| answer.status().as_u16())
    }

    async fn until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.ready().await != 200 {
            assert!(Instant::now() < deadline, "it is not ready");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Discovery, as Cluster API calls it.
    async fn discovery(&self, authorities: &[u8]) -> Value {
        let authority = reqwest::Certificate::from_pem(authorities).unwrap();
        let client = reqwest::Client::builder()
            .tls_certs_only([authority])
            .no_proxy()
            .build()
            .unwrap();
        let url = format!("https://localhost:{}/{GROUP_VERSION}/discovery", self.hooks);
        let answer = client.post(url).body("{}").send().await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }
}

#[tokio::test]
async fn the_extension_is_found_and_one_process_answers() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bed = Bed::new();
    let mut kind = definition("runtime.cluster.x-k8s.io", "ExtensionConfig", "extensionconfigs");
    kind["spec"]["scope"] = json!("Cluster");
    bed.api.add([kind]).unwrap();
    let config = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "muster-machines"}, "spec": {"clientConfig": {"url": "https://localhost"}}});
    bed.post(EXTENSION, &config).await;
    let first = started(&bed, "first").await;
    first.until_ready().await;
    let deadline = Instant::now() + PATIENCE;
    let authorities = loop {
        let config = bed.read(&format!("{EXTENSION}/muster-machines")).await;
        if let Some(bundle) = config["spec"]["clientConfig"]["caBundle"].as_str() {
            break BASE64_STANDARD.decode(bundle).unwrap();
        }
        assert!(Instant::now() < deadline, "no caBundle: {config}");
        sleep(Duration::from_millis(20)).await;
    };
    let response = first.discovery(&authorities).await;
    assert_eq!(response["status"], "Success", "{response}");
    let handlers = response["handlers"].as_array().unwrap();
    assert_eq!(handlers.len(), 3);
    assert!(
        handlers.iter().all(|handler| handler["failurePolicy"] == "Fail"),
        "{response}"
    );

    let second = started(&bed, "second").await;
    let deadline = Instant::now() + PATIENCE;
    while second.ready().await == 0 {
        assert!(Instant::now() < deadline, "its endpoint does not respond");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(second.ready().await, 503, "it has not the lease");
    first.shutdown.cancel();
    second.until_ready().await;
    assert_eq!(
        second.discovery(&authorities).await["status"],
        "Success",
        "by the same authority"
    );
}
