//! Promise: questions about the fleet are answered as text and as JSON; what does not exist, or cannot be
//! reached, is reported with the next command.

use kube::api::{Api, Patch, PatchParams};
use muster_api::Module;
use serde_json::{Value, json};

use crate::bed::{Bed, create};

/// A module without a controller.
async fn module(bed: &Bed, name: &str) {
    create(
        &bed.management.client(),
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"env": "prod"}},
                "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}}}}),
    )
    .await;
}

/// The status that its controller would write.
async fn set_module_status(bed: &Bed, name: &str, ready: &str, reason: &str, stalled: bool) {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let mut conditions = vec![condition("Ready", ready)];
    conditions.extend(stalled.then(|| condition("Stalled", "True")));
    let modules: Api<Module> = Api::namespaced(bed.management.client(), "default");
    let status = json!({"status": {"observedGeneration": 1, "conditions": conditions, "summary": {"total": 3, "updated": 1}}});
    modules
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_rollout_has_one_result_for_programs() {
    let bed = Bed::new().await;
    module(&bed, "web").await;
    let check = async |flags: &str, code: i32, result: &str| {
        let output = bed
            .muster(&format!("rollout status module/web -o json {flags}"))
            .await;
        let said: Value = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(output.code, Some(code), "{output:?}");
        assert_eq!(
            said,
            json!({"schema": "status/v1", "module": "module/web", "result": result, "version": "v1", "message": "m",
                "summary": said["summary"]})
        );
        assert_eq!(said["summary"]["total"], 3);
    };
    set_module_status(&bed, "web", "True", "Succeeded", false).await;
    check("", 0, "Complete").await;
    set_module_status(&bed, "web", "False", "Failed", true).await;
    check("", 1, "Failed").await;
    set_module_status(&bed, "web", "False", "Aborted", true).await;
    check("", 1, "Aborted").await;
    set_module_status(&bed, "web", "False", "Paused", false).await;
    check("--timeout 1s", 1, "Paused").await;
    set_module_status(&bed, "web", "False", "Updating", false).await;
    check("--timeout 1s", 1, "TimedOut").await;
    check("--no-watch", 1, "Progressing").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn interrupted_it_says_that_the_rollout_goes_on() {
    let bed = Bed::new().await;
    module(&bed, "web").await;
    set_module_status(&bed, "web", "False", "WaitingGate", false).await;
    let mut child = bed
        .command("rollout status module/web")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (id, out) = (child.id().to_string(), child.stdout.take().unwrap());
    let output = tokio::task::spawn_blocking(move || {
        // It has printed a line, so it follows.
        let mut line = String::new();
        let mut out = std::io::BufReader::new(out);
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let told = std::process::Command::new("kill").args(["-INT", &id]).status();
        assert!(told.unwrap().success());
        child.wait_with_output().unwrap()
    })
    .await
    .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(130), "the rollout continues in the cluster\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_not_there_is_named_with_names_that_are_near() {
    let bed = Bed::new().await;
    module(&bed, "podinfo").await;
    let output = bed.types("events module/podinfo", 0).await;
    assert!(output.contains("No events found"), "{output}");
    let output = bed.types("events module/podinf", 2).await;
    assert!(
        output.contains("there is no module/podinf in namespace default") && output.contains("podinfo?"),
        "{output}"
    );
    let output = bed.types("events cluster/eu-99", 2).await;
    assert!(
        output.contains("there is no cluster eu-99 in namespace default"),
        "{output}"
    );
}

/// Right after the first commit the module does not exist yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_module_that_is_on_its_way_is_waited_for_with_a_tag() {
    let bed = Bed::new().await;
    module(&bed, "podinfo").await;
    let output = bed
        .types("rollout status module/podinof --tag v1 --timeout 1s", 1)
        .await;
    assert!(
        output.contains(
            "there is no module/podinof in namespace default yet (did you mean podinfo?): waiting for a commit that adds it at v1"
        ) && output.contains("module/podinof did not appear in namespace default within 1s"),
        "{output}"
    );
    let output = bed
        .types("rollout status bootstrapmodule/podinfo --tag v1 --timeout 1s", 1)
        .await;
    assert!(output.contains("(did you mean module/podinfo?)"), "{output}");
    let said = bed
        .types("rollout status module/new --tag v1 --timeout 1s -o json", 1)
        .await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["result"], &said["version"]),
        (&json!("TimedOut"), &Value::Null)
    );
    for flags in ["", "--tag v1 --no-watch"] {
        let output = bed.types(&format!("rollout status module/new {flags}"), 2).await;
        assert!(
            output.contains("there is no module/new in namespace default"),
            "{output}"
        );
    }

    let out = bed.path("out");
    let mut child = bed
        .command("rollout status module/new --tag v1")
        .stdout(std::fs::File::create(&out).unwrap())
        .spawn()
        .unwrap();
    let printed = || std::fs::read_to_string(&out).unwrap();
    bed.until("it says what it waits for", async || {
        printed().contains("waiting for a commit that adds it at v1")
    })
    .await;
    module(&bed, "new").await;
    set_module_status(&bed, "new", "True", "Succeeded", false).await;
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap())
        .await
        .unwrap();
    assert_eq!(status.code(), Some(0), "{}", printed());
    assert!(printed().ends_with("module/new Succeeded: m\n"), "{}", printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn without_a_name_what_there_is_is_listed() {
    let bed = Bed::new().await;
    assert_eq!(
        bed.types("rollout history", 0).await,
        "No modules found in default namespace.\n"
    );
    module(&bed, "web").await;
    module(&bed, "api").await;
    set_module_status(&bed, "web", "True", "Succeeded", false).await;
    let output = bed.types("rollout history", 0).await;
    let lines: Vec<Vec<&str>> = output
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["MODULE", "VERSION", "STATUS", "CLUSTERS"]);
    assert_eq!(lines[1][..2], ["module/api", "v1"]);
    assert_eq!(lines[2][..3], ["module/web", "v1", "Succeeded"]);
    assert!(
        output.ends_with("The revisions of a module: muster rollout history module/api -n default\n"),
        "{output}"
    );
    assert_eq!(
        bed.types("rollout history -o name", 0).await,
        "module.fleet.muster.dev/api\nmodule.fleet.muster.dev/web\n"
    );
    let said: Value = serde_json::from_str(&bed.types("rollout history -o json", 0).await).unwrap();
    assert_eq!(said["schema"], "modules/v1");
    assert_eq!(
        (&said["modules"][1]["module"], &said["modules"][1]["reason"]),
        (&json!("module/web"), &json!("Succeeded"))
    );
    bed.types("rollout history --revision 1a2b3c4d", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn events_of_all_namespaces_say_where_they_are() {
    let bed = Bed::new().await;
    for namespace in ["default", "other"] {
        if namespace == "other" {
            create(
                &bed.management.client(),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
        }
        create(
            &bed.management.client(),
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": namespace},
                "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Assigned", "action": "Rollout",
                "note": namespace, "reportingController": "muster", "reportingInstance": "x",
                "regarding": {"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "name": "web", "namespace": namespace}}),
        )
        .await;
    }
    let output = bed.types("events -A", 0).await;
    assert!(output.starts_with("NAMESPACE"), "{output}");
    assert_eq!(output.lines().count(), 3, "{output}");
    let said: Value = serde_json::from_str(&bed.types("events -A -o json", 0).await).unwrap();
    let mut namespaces: Vec<&str> = said["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["namespace"].as_str().unwrap())
        .collect();
    namespaces.sort_unstable();
    assert_eq!(namespaces, ["default", "other"]);
    assert_eq!(bed.types("events", 0).await.lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn kinds_are_taken_as_kubectl_takes_them() {
    let bed = Bed::new().await;
    module(&bed, "web").await;
    module(&bed, "api").await;
    let one = bed.types("get modules web", 0).await;
    assert_eq!(one.lines().count(), 2, "{one}");
    for words in ["get module/web", "get modules/web", "get mmod web"] {
        let name = |text: &str| text.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
        assert_eq!(name(&bed.types(words, 0).await), name(&one), "{words}");
    }
    for words in [
        "get bootstrapmodules",
        "get bootstrapmodule",
        "get bmod",
        "get revision",
        "get cluster",
    ] {
        let output = bed.types(words, 0).await;
        assert!(output.contains("No resources found"), "{words}: {output}");
    }
    bed.types("get module/web api", 2).await;
    bed.types("get pods/web", 2).await;
    bed.types("get module/nothing", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_that_gives_nothing_is_named_with_the_next_command() {
    let bed = Bed::new().await;
    let closed = std::fs::read_to_string(bed.path("management")).unwrap();
    let address = format!("https://{}", bed.management.address().unwrap());
    std::fs::write(
        bed.path("closed"),
        closed.replace(&address, "https://127.0.0.1:9"),
    )
    .unwrap();
    for words in ["matrix", "get modules"] {
        let output = bed.types(&format!("{words} --kubeconfig closed"), 2).await;
        assert!(
            output.contains("Connection refused")
                && output.contains("the API server is https://127.0.0.1:9 (context management); next: kubectl config get-contexts")
                && !output.contains("muster crds")
                && !output.contains("client error"),
            "{words}: {output}"
        );
        // A cluster without the definitions.
        let output = bed.types(&format!("{words} --kubeconfig new"), 2).await;
        assert!(
            output.contains("https://127.0.0.1:2222 (context new) does not have the definitions of muster; next: muster crds --management"),
            "{words}: {output}"
        );
    }
}

/// The command that installs the definitions of a management cluster does not install these.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_missing_optional_kind_is_reported_with_its_own_next_command() {
    let bed = Bed::new().await;
    for (words, says) in [
        (
            "get clusterupgrades",
            "next: muster crds --management --upgrades | kubectl apply",
        ),
        (
            "get cup/next -A -o name",
            "next: muster crds --management --upgrades | kubectl apply",
        ),
        ("get zonerollouts", "next: muster install --export --zones --crds"),
        ("get nodemodules", "NodeModules are not served by this cluster"),
        (
            "machines retry m-1 --reason x",
            "muster install --export --machines --updaters FILE --crds",
        ),
    ] {
        let output = bed.types(words, 2).await;
        assert!(
            output.contains(says) && !output.contains("does not have the definitions of muster"),
            "{words}: {output}"
        );
    }
    let printed = bed.types("crds --management --upgrades", 0).await;
    let upgrades = muster_api::crds::upgrades();
    assert!(printed.contains("clusterupgrades.fleet.muster.dev"), "{printed}");
    bed.management.add(upgrades).unwrap();
    let output = bed.types("get clusterupgrades", 0).await;
    assert!(
        output.contains("No resources found in default namespace."),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_version_is_available_as_json() {
    let bed = Bed::new().await;
    let said: Value = serde_json::from_str(&bed.types("version -o json", 0).await).unwrap();
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(
        said,
        json!({"schema": "version/v1", "muster": own, "server": "v1.36.4"})
    );
    let said: Value = serde_json::from_str(&bed.types("version --client -o json", 0).await).unwrap();
    assert_eq!(
        said,
        json!({"schema": "version/v1", "muster": own, "server": null})
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn request_logs_have_color_only_when_requested() {
    let bed = Bed::new().await;
    let colour = async |flags: &str| {
        let output = bed.muster(&format!("matrix -v {flags}")).await;
        assert!(output.err.contains("DEBUG"), "{output:?}");
        output.err.contains('\u{1b}')
    };
    assert!(!colour("").await, "a pipe");
    assert!(!colour("--color never").await);
    assert!(colour("--color always").await);
}
