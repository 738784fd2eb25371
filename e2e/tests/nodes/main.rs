//! Promise: on real networks a configuration that disconnects its node is rolled back by that node alone, no other node
//! gets it, and never are more nodes changed at once than allowed, whatever is killed.
//!
//! The nodes are network, mount and PID namespaces in a user namespace that the test creates: the harness is this same
//! binary, run inside it by the tests of this file.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod bed;
mod frr;
mod server;

use std::{
    env,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use bed::{Bed, Most, SERVER, links};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use muster_api::{
    node::{NodeAssemblage, assemblage::NodePhase},
    revision::Verdict,
};
use muster_node::journal::Step;
use muster_real::{Cache, Plan};
use serde_json::json;

/// Environment variable that is set inside the namespaces.
const INSIDE: &str = "MUSTER_NODES_INSIDE";

/// Namespaces of an unprivileged user: nothing here needs root.
const NAMESPACES: [&str; 4] = ["--user", "--map-root-user", "--net", "--mount"];

/// Whether this machine has what the tests need; if not, prints this, and the tests are skipped.
fn is_able() -> bool {
    let able = Command::new("unshare")
        .args(NAMESPACES)
        .args([
            "sh",
            "-c",
            "ip link add veth0 type veth peer name veth1 && mount -t sysfs none /sys && nsenter --version",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let able = able.is_ok_and(|status| status.success());
    if !able {
        println!("not run: this machine has no unshare, nsenter, ip, or no network namespaces of users");
    }
    able
}

/// Runs a test of this binary in new namespaces.
fn inside(test: &str) {
    if !is_able() {
        return;
    }
    let ran = Command::new("unshare")
        .args(NAMESPACES)
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .env(INSIDE, "1")
        .status();
    assert!(
        ran.unwrap().success(),
        "{test} failed in its namespaces: see above"
    );
}

fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// As in the pod of the DaemonSet: from its own mount namespace into that of process 1, whose systemd is simulated.
#[test]
fn the_agent_is_installed_out_of_another_mount_namespace() {
    if !is_able() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let systemctl = directory.path().join("systemctl");
    std::fs::write(&systemctl, include_str!("systemctl.sh")).unwrap();
    std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.path().display(), env::var("PATH").unwrap());
    let ran = Command::new("unshare")
        .args(NAMESPACES)
        .args([
            "--pid",
            "--fork",
            "--mount-proc",
            "sh",
            "-ec",
            include_str!("host.sh"),
        ])
        .arg(muster_e2e::bed::node_agent())
        .env("PATH", path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(
        printed,
        "the agent of this node was installed and started\n\
         the agent of this node is up to date\n\
         daemon-reload enable is-active restart enable is-active \n\
         muster-node-agent.service\nmuster-node-restore.service\n\
         no NodeModule has been applied to this node\n"
    );
}

/// DX10.
#[test]
fn a_configuration_that_takes_the_link_down_is_taken_back_by_its_node() {
    inside("link_down");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn link_down() {
    if !is_inside() {
        return;
    }
    takes_the_link_down(&Bed::new(6).await).await;
}

async fn takes_the_link_down(bed: &Bed) {
    let (good, bad) = (links(1, "up"), links(2, "down"));
    bed.apply(&good, &json!(2)).await;
    bed.until_ready(&good).await;
    assert_eq!(bed.most().nodes, 2, "two of six at once, by their journals");

    bed.apply(&bad, &json!(1)).await;
    bed.until("cut off", async || !bed.with(&bad).is_empty()).await;
    let cut: Vec<String> = bed.with(&bad).into_iter().map(str::to_owned).collect();
    assert_eq!(cut.len(), 1);
    let node = &bed.nodes[&cut[0]];
    let began = Instant::now();
    bed.until("without a link", async || !node.is_up()).await;
    bed.until("rolled back", async || {
        node.links().as_deref() == Some(&good) && node.is_up()
    })
    .await;
    assert!(
        began.elapsed() < Duration::from_secs(15 + 5),
        "within confirmWithin and one reload: {:?}",
        began.elapsed()
    );
    bed.until("stopped", async || {
        let revisions = bed.revisions().await;
        let verdicts = revisions
            .iter()
            .filter_map(|revision| revision.status.as_ref()?.verdict);
        let bad = verdicts.filter(|verdict| *verdict == Verdict::Bad).count();
        bad == 1 && !bed.is_ready().await
    })
    .await;
    let report = bed.report(&node.name).await.status.unwrap();
    let row = &report.rows[0];
    assert_eq!(
        (row.state, row.reason.as_deref()),
        (NodePhase::Failed, Some("Failed"))
    );
    let message = row.message.clone().unwrap();
    assert!(message.contains("eth0"), "the check is named: {message}");
    assert_eq!(bed.with(&good).len(), 6, "no other node got it");
    let why = bed.muster(&["why", "nodemodule/fabric", "--node", &node.name]);
    assert!(why.contains("interface eth0: eth0 is down"), "{why}");
    assert_eq!(bed.most().nodes, 1);
}

#[test]
fn killed_or_booted_at_whatever_step_a_node_has_the_old_file_or_the_new_one() {
    inside("killed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn killed() {
    if !is_inside() {
        return;
    }
    let mut bed = Bed::new(3).await;
    let (first, second) = (links(1, "up"), links(2, "up"));
    bed.apply(&first, &json!(3)).await;
    bed.until_ready(&first).await;
    bed.apply(&second, &json!(3)).await;
    let at = async |node: &str, step: Step| {
        let machine = &bed.nodes[node];
        bed.until(&format!("{node} at {step:?}"), async || {
            machine.step() == Some(step)
        })
        .await;
        machine.stop();
    };
    // During the reload, while the checks run, and while the checks run before a power cut.
    tokio::join!(
        at("n1", Step::Swapped),
        at("n2", Step::Reloaded),
        at("n3", Step::Reloaded)
    );
    for node in bed.nodes.values() {
        assert_eq!(node.links().as_ref(), Some(&second), "{} had swapped", node.name);
    }
    bed.disconnect();
    bed.nodes["n3"].boot(1);
    assert_eq!(
        bed.nodes["n3"].links().as_ref(),
        Some(&first),
        "restored without any API"
    );
    for node in bed.nodes.values() {
        node.resume();
    }
    bed.until("all restored", async || bed.with(&first).len() == 3)
        .await;
    bed.connect().await;
    bed.until("interrupted", async || {
        let report = bed.report("n1").await.status.unwrap_or_default();
        let row = report.rows.first().cloned().unwrap_or_default();
        row.reason.as_deref() == Some("Interrupted") && !row.terminal
    })
    .await;
    let condemned = bed.revisions().await.into_iter().any(|revision| {
        revision
            .status
            .is_some_and(|status| status.verdict == Some(Verdict::Bad))
    });
    assert!(!condemned, "an interruption proves nothing");
    // The agents retry on their own.
    bed.until_ready(&second).await;
}

#[test]
fn a_session_of_bgp_that_is_not_established_takes_the_configuration_back() {
    if !frr::is_there() {
        println!("not run: there is no FRR (.ci/frr fetches it)");
        return;
    }
    inside("bgp");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn bgp() {
    if !is_inside() {
        return;
    }
    let bed = Bed::new(1).await;
    let node = &bed.nodes["n1"];
    let of = |number: u32| frr::configuration(number, "10.77.0.11", SERVER, 65000);
    let peer = frr::configuration(65000, SERVER, "10.77.0.11", 65001);
    let peer_files = tempfile::tempdir().unwrap();
    std::fs::write(peer_files.path().join("bgpd.conf"), &peer).unwrap();
    let _peer = frr::Daemon::start(frr::bgpd(peer_files.path()));
    let _daemon = frr::Daemon::start(node.background(&frr::bgpd(&bed.view("run"))));
    let spec = |number: u32, checks: serde_json::Value| {
        json!({
            "selector": {}, "parts": [{"files": [{"path": bed.view("etc/frr.conf"), "content": of(number)}]}],
            "reload": ["frr"], "checks": checks, "settle": "5s", "holdFor": "1s", "confirmWithin": "15s",
        })
    };
    let established = json!({"services": ["bgp"]});
    bed.apply_spec(spec(65001, established.clone())).await;
    bed.until("established", async || bed.is_ready().await).await;
    assert_eq!(node.read("etc/frr.conf"), Some(of(65001)));

    // The peer rejects another AS number: it accepts the connection, and closes it.
    bed.apply_spec(spec(65002, established)).await;
    bed.until("refused by the peer", async || {
        let row = bed.report("n1").await.status.unwrap_or_default().rows.remove(0);
        row.state == NodePhase::Failed && row.reason.as_deref() == Some("Failed")
    })
    .await;
    let row = bed.report("n1").await.status.unwrap().rows.remove(0);
    assert!(row.message.unwrap().contains("service bgp"), "the check is named");
    assert_eq!(
        node.read("etc/frr.conf"),
        Some(of(65001)),
        "the session that was is back, or the verdict were another"
    );

    // So an open port does not prove a session.
    bed.apply_spec(spec(65003, json!({"tcp": [format!("{SERVER}:179")]})))
        .await;
    bed.until("confirmed by the port alone", async || {
        node.read("etc/frr.conf") == Some(of(65003)) && bed.is_ready().await
    })
    .await;
}

#[test]
#[ignore = "long: cargo xtask long"]
fn an_api_server_that_is_away_condemns_nothing() {
    inside("api_away");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn api_away() {
    if !is_inside() {
        return;
    }
    let mut bed = Bed::new(3).await;
    let (first, second) = (links(1, "up"), links(2, "up"));
    bed.apply(&first, &json!(1)).await;
    bed.until_ready(&first).await;
    bed.apply(&second, &json!(1)).await;
    bed.until("begun", async || bed.with(&second).len() == 1).await;
    bed.disconnect();
    bed.until("rolled back", async || bed.with(&first).len() == 3)
        .await;
    // It stays down until the checks after the restore are over: if it came back earlier, this would be attributed to
    // the restore.
    bed.until("checked", async || {
        bed.nodes
            .values()
            .all(|node| node.step().is_some_and(Step::is_settled))
    })
    .await;
    bed.connect().await;
    bed.until("reported", async || {
        let reports = ["n1", "n2", "n3"].map(async |node| bed.report(node).await.status.unwrap_or_default());
        let mut found = false;
        for report in reports {
            found |= report
                .await
                .rows
                .iter()
                .any(|row| row.reason.as_deref() == Some("Inconclusive"));
        }
        found
    })
    .await;
    let verdicts = bed
        .revisions()
        .await
        .into_iter()
        .filter_map(|revision| revision.status?.verdict);
    assert_eq!(verdicts.filter(|verdict| *verdict == Verdict::Bad).count(), 0);
    bed.until_ready(&second).await;
}

#[test]
#[ignore = "long: cargo xtask long"]
fn a_controller_that_is_killed_again_and_again_changes_no_more_nodes_at_once() {
    inside("controller_killed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn controller_killed() {
    if !is_inside() {
        return;
    }
    let bed = Bed::new(6).await;
    bed.apply(&links(1, "up"), &json!("34%")).await;
    bed.until_ready(&links(1, "up")).await;
    assert_eq!(bed.most().nodes, 2, "34 % of six");
    bed.apply(&links(2, "up"), &json!(1)).await;
    for kill in 0..20_u64 {
        tokio::time::sleep(Duration::from_millis(300 + 70 * kill)).await;
        bed.restart_controller();
    }
    bed.until_ready(&links(2, "up")).await;
    assert_eq!(bed.most().nodes, 1);
}

#[test]
#[ignore = "long: cargo xtask long"]
fn two_controllers_change_one_rack_after_the_other_while_nodes_join_and_leave() {
    inside("racks");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn racks() {
    if !is_inside() {
        return;
    }
    let bed = Bed::new(6).await;
    bed.leave("n6").await;
    let (first, second) = (links(1, "up"), links(2, "up"));
    let by_rack = json!({"maxUnreadyNodes": 2, "domains": {"key": "rack", "order": "Name"}});
    bed.apply_rollout(&first, by_rack.clone()).await;
    bed.until_ready(&first).await;
    assert_eq!(bed.most(), Most { nodes: 2, racks: 1 });

    bed.add_controller();
    bed.apply_rollout(&second, by_rack).await;
    bed.until("both of the first rack", async || bed.changing().len() == 2)
        .await;
    // One node is lost during its change, for good; another one joins before its turn.
    bed.leave("n2").await;
    bed.join("n6").await;
    bed.until_ready(&second).await;
    assert_eq!(bed.with(&second).len(), 5);
    assert_eq!(bed.most(), Most { nodes: 2, racks: 1 });

    // It was shut down during a change, and returns during a rollout that ended long ago.
    bed.join("n2").await;
    bed.until("the last one", async || bed.with(&second).len() == 6)
        .await;
    bed.until_ready(&second).await;
}

#[test]
#[ignore = "real: cargo xtask real run nodes"]
fn the_same_on_kubernetes_with_the_rights_that_are_installed() {
    if let Err(error) = Cache::open().and_then(|cache| cache.require(&Plan::default().programs())) {
        println!("not run: {error:#}");
        return;
    }
    inside("on_kubernetes");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above in separate namespaces"]
async fn on_kubernetes() {
    if !is_inside() {
        return;
    }
    let bed = Bed::on_kubernetes(6).await;
    takes_the_link_down(&bed).await;
    bed.server.keep_uses();

    // An agent writes only about its own node, and reads no Secret.
    let client = bed.server.client_of("n1").await;
    let reports: Api<NodeAssemblage> = Api::all(client.clone());
    let nothing = Patch::Merge(json!({"status": {}}));
    for (node, allowed) in [("n1", true), ("n2", false)] {
        let patched = reports
            .patch_status(node, &PatchParams::default(), &nothing)
            .await;
        let message = patched.err().map(|error| error.to_string());
        assert_eq!(message.is_none(), allowed, "{node}: {message:?}");
        let named = message.is_none_or(|message| message.contains("may write only objects of its own node"));
        assert!(named, "the policy says why");
    }
    let secrets: Api<Secret> = Api::namespaced(client, "muster-nodes");
    assert!(secrets.list(&ListParams::default()).await.is_err());
}
