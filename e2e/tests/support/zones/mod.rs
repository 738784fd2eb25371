//! Promise: with a real kube-apiserver and its StatefulSet controller, `muster zones` rolls out, scales and guards
//! zones, with the permissions, webhooks, flags and replicas of `muster install --export --zones`; also while another
//! replica takes over, and while certificates are renewed.

mod charts;
mod installation;
mod kubectl;
mod kubelet;
mod load;
mod watch;

use std::{path::Path, time::Duration};

use muster_e2e::bed::keep_uses;

use self::{installation::Installation, kubelet::probe, load::Load, watch::Watch};

const NS: &str = "mimir";
/// The image of the example, and another one.
const OLD: &str = "grafana/mimir:2.16.0";
const NEW: &str = "grafana/mimir:2.17.0";
const ZONES: [&str; 3] = ["ingester-zone-a", "ingester-zone-b", "ingester-zone-c"];
/// The longest time without a leader when one is drained.
const FAILOVER: Duration = Duration::from_secs(15);

/// The same when the leader crashes: until its lease expires, plus a margin.
const LOST: Duration = Duration::from_secs(20);

/// The group of `examples/zones` in an installation, fully Ready.
struct Bed {
    watch: Watch,
    inside: Installation,
}

impl Bed {
    fn new() -> Self {
        let inside = Installation::new();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/zones");
        for file in ["ingester.yaml", "budget.yaml", "replicas.yaml"] {
            let text = std::fs::read_to_string(example.join(file)).unwrap();
            let text = text
                .replace("http-port: \"8080\"", &format!("http-port: \"{}\"", inside.pods))
                .replace("zones-downscale: 1m", "zones-downscale: 1s");
            inside.kubectl.apply(&text);
        }
        inside.kubectl.all_ready(OLD, 3);
        inside.kubectl.until_done();
        Self {
            watch: Watch::new(&inside.kubectl),
            inside,
        }
    }

    fn roll(&self) {
        let kubectl = &self.inside.kubectl;
        kubectl.until("the watch", |_| (self.watch.pods() == 9).then_some(()));
        self.watch.begin(3);
        for zone in ZONES {
            let set = format!("statefulset/{zone}");
            kubectl.run(&["set", "image", &set, &format!("ingester={NEW}")], "");
        }
        kubectl.all_ready(NEW, 3);
        kubectl.until_done();
        assert_eq!(self.watch.most(), 1, "zones that were disturbed at once");
    }

    /// Zone a is scaled by its reference, and the others follow; each pod that leaves was prepared.
    fn scale_down(&self) {
        let kubectl = &self.inside.kubectl;
        kubectl.run(&load::DOWNSCALE, "");
        assert!(
            self.inside.pod_requests().is_empty(),
            "a dry run prepares nothing"
        );
        kubectl.run(&["scale", "replicatemplate/ingester", "--replicas=2"], "");
        kubectl.all_ready(NEW, 2);
        kubectl.until_done();
        let expect: Vec<String> = ZONES.iter().map(|zone| format!("POST {zone}-2")).collect();
        assert_eq!(self.inside.pod_requests(), expect, "{}", self.inside.logs());
        let template = kubectl.get(&["replicatemplate/ingester"]);
        assert_eq!(template["status"]["replicas"], 2);
        let tracker = kubectl.get(&["configmap/rollout-operator-zone-tracker"]);
        for zone in ZONES {
            assert!(tracker["data"][zone].is_string(), "{tracker}");
        }
    }

    /// While a pod of one zone is missing, no pod of another one is evicted.
    fn drain(&self) {
        let kubectl = &self.inside.kubectl;
        self.watch.begin(2);
        let pod = kubectl.get(&["pod/ingester-zone-a-0"]);
        let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
        kubectl.drain(&node, "rollout-group=ingester");
        kubectl.all_ready(NEW, 2);
        kubectl.until_done();
        assert_eq!(self.watch.most(), 1, "zones that were disturbed at once");
    }
}

#[test]
#[ignore = "real: cargo xtask real run"]
fn a_roll_a_scale_down_and_a_drain() {
    let bed = Bed::new();
    bed.roll();
    bed.scale_down();
    bed.drain();
    let leader = bed.inside.kubelet.leader().unwrap();
    let counted = probe(leader.metrics, "/metrics").unwrap();
    for series in [
        "rollout_operator_group_reconciles_total{rollout_group=\"ingester\"}",
        "rollout_operator_zpdb_eviction_requests_total{reason=\"allowed\",status=\"200\"}",
        "kube_validating_webhook_failure_policy{type=\"validating\"",
    ] {
        assert!(counted.contains(series), "{series}\n{counted}");
    }
    let wrong = "apiVersion: rollout-operator.grafana.com/v1\nkind: ZoneAwarePodDisruptionBudget\nmetadata: {name: wrong}\n\
                 spec: {maxUnavailable: 1, maxUnavailablePercentage: 1, selector: {matchLabels: {a: b}}}\n";
    let refused = bed
        .inside
        .kubectl
        .output(&["apply", "--server-side", "-f", "-"], wrong);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && stderr.contains("only one of maxUnavailable"),
        "{stderr}"
    );
    keep_uses(&bed.inside.fleet, "zones");
}

/// The node of the leader is drained under load, and then the next leader crashes: each time another replica answers in
/// time, and gets the label.
#[test]
#[ignore = "real: cargo xtask real run"]
fn another_replica_takes_over() {
    let bed = Bed::new();
    let kubectl = &bed.inside.kubectl;
    let load = Load::new(kubectl);
    let before = bed.inside.leader();
    let pod = kubectl.get(&[&format!("pod/{before}")]);
    kubectl.drain(
        pod["spec"]["nodeName"].as_str().unwrap(),
        "app.kubernetes.io/component=zones",
    );
    let after = kubectl.until("another leader", |_| {
        Some(bed.inside.leader()).filter(|leader| *leader != before)
    });
    load.go_on(10);
    let outage = load.longest_outage();
    println!("{before} was drained, {after} leads; the longest time without an answer was {outage:?}");
    assert!(outage <= FAILOVER, "{outage:?}: {}", load.failures());
    drop(load);
    bed.roll();
    bed.scale_down();
    assert_eq!(bed.inside.leader(), after);

    let load = Load::new(kubectl);
    bed.inside.kubelet.crash(&after);
    kubectl.until("another leader", |_| {
        Some(bed.inside.leader()).filter(|leader| *leader != after)
    });
    load.go_on(10);
    let outage = load.longest_outage();
    println!("{after} crashed; the longest time without an answer was {outage:?}");
    assert!(outage <= LOST, "{outage:?}: {}", load.failures());
}

/// A new authority, a certificate of it, and the removal of the old authority, under continuous reviews.
#[test]
#[ignore = "real: cargo xtask real run"]
fn certificates_are_renewed_under_load() {
    let bed = Bed::new();
    let kubectl = &bed.inside.kubectl;
    let before = bed.inside.certificates();
    let load = Load::new(kubectl);
    // As if rollout-operator had created it: there is no key to sign another certificate.
    kubectl.run(
        &[
            "patch",
            "secret",
            installation::CERTIFICATE,
            "--type=json",
            "-p",
            r#"[{"op": "remove", "path": "/data/ca-key"}]"#,
        ],
        "",
    );
    let is_new = |certificates: &installation::Certificates| {
        certificates.certificate != before.certificate
            && !certificates.authorities.contains(&before.authorities)
            && certificates
                .bundles
                .iter()
                .all(|bundle| *bundle == certificates.authorities)
    };
    kubectl.until("the end of the old authority", |_| {
        Some(bed.inside.certificates()).filter(is_new)
    });
    load.go_on(30);
    println!("{} reviews while all certificates changed", load.answers());
    assert_eq!(load.failures(), "", "reviews that were not answered");
}

/// StatefulSets with the labels, annotations and fields of the charts.
#[test]
#[ignore = "real: cargo xtask real run"]
fn zones_of_the_charts_roll() {
    let inside = Installation::new();
    let kubectl = &inside.kubectl;
    charts::nodes(kubectl);
    for chart in charts::CHARTS {
        kubectl.apply(&chart.manifests("1"));
        kubectl.all_ready(&chart.image("1"), chart.replicas);
        kubectl.until_done();
        let watch = Watch::new(kubectl);
        kubectl.until("the watch", |_| {
            (watch.pods() == 3 * chart.replicas).then_some(())
        });
        watch.begin(chart.replicas);
        kubectl.apply(&chart.manifests("2"));
        kubectl.all_ready(&chart.image("2"), chart.replicas);
        kubectl.until_done();
        assert_eq!(
            watch.most(),
            1,
            "{}: zones that were disturbed at once",
            chart.name
        );
        kubectl.run(
            &[
                "delete",
                "statefulset,pod",
                "-l",
                "rollout-group=ingester",
                "--wait",
            ],
            "",
        );
        kubectl.until("the end of the group", |kubectl| {
            kubectl.get(&["zr"])["items"]
                .as_array()
                .unwrap()
                .is_empty()
                .then_some(())
        });
    }
}
