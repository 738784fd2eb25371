//! Promise: each problem is found at its position, and nothing is found in valid files.

use muster_sync::source::{File, Files};
use muster_sync::substitute::Variables;

use super::{Code, lint_files};

const MODULE: &str = "\
apiVersion: fleet.muster.dev/v1alpha1
kind: Module
metadata:
  name: NAME
spec:
  selector:
    matchLabels: {env: prod}
  sync:
    source: {git: {url: https://example.com/fleet.git, version: {tag: v1}}}
    package: {path: apps/NAME}
";

const CLUSTER: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: eu-1
  labels: {env: prod}
";

fn module(name: &str) -> String {
    MODULE.replace("NAME", name)
}

fn no_variables() -> Variables {
    Variables::new(&std::collections::BTreeMap::new()).unwrap()
}

/// The codes of the findings, each with its line.
fn found(texts: &[&str]) -> Vec<(&'static str, usize)> {
    let files = texts.iter().enumerate().map(|(number, text)| File {
        path: format!("{number}.yaml"),
        bytes: (*text).to_owned().into(),
    });
    let report = lint_files(&Files::new(files), &no_variables());
    report
        .findings
        .iter()
        .map(|finding| (finding.code.id(), finding.at.line))
        .collect()
}

fn check(text: &str, expect: &[(&'static str, usize)]) {
    assert_eq!(found(&[text]), expect, "{text}");
}

#[test]
fn what_is_sound_is_left_alone() {
    check(&module("web"), &[]);
    check(&format!("{}---\n{CLUSTER}", module("web")), &[]);
    check(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nwhat: ever\n",
        &[],
    );
    check("just: a\nyaml: file\n", &[]);
}

#[test]
fn a_text_that_is_no_yaml_says_where() {
    check("a: b\nc: [\n", &[("MST0001", 3)]);
    check("a: 1\na: 2\n", &[("MST0001", 2)]);
}

#[test]
fn one_object_by_itself() {
    check(
        &module("web").replace("kind: Module", "kind: Modul"),
        &[("MST0101", 2)],
    );
    check(
        &module("web").replace("  selector:", "  selektor:"),
        &[("MST0102", 6)],
    );
    check(
        &module("web").replace(
            "spec:\n",
            "spec:\n  rollout:\n    maxUnreadyClusters: 1\n    minReadySeconds: -5\n",
        ),
        &[("MST0103", 8)],
    );
    check(
        &module("web").replace("tag: v1", "tag: refs/tags/v1"),
        &[("MST0104", 9)],
    );
    let window = "apiVersion: fleet.muster.dev/v1alpha1\nkind: RolloutWindow\nmetadata: {name: night, namespace: fleet}\nspec:\n  selector: {}\n  \
                  deny:\n  - {from: \"01:00\", to: \"02:00\", timeZone: Europe/Berlin}\n";
    check(window, &[]);
    check(&window.replace("Berlin", "Nowhere"), &[("MST0104", 7)]);
    check(&window.replace("\"02:00\"", "\"01:00\""), &[("MST0103", 7)]);
    check(&module("web").replace("https:", "http:"), &[("MST0304", 9)]);
    check(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {password: hunter2}\n",
        &[("MST0401", 4)],
    );
    check(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: ENC}\nsops: {}\n",
        &[],
    );
}

/// The messages for a text, in order.
fn finding_messages(text: &str) -> Vec<String> {
    let file = File {
        path: "m.yaml".to_owned(),
        bytes: text.to_owned().into(),
    };
    let report = lint_files(&Files::new([file]), &no_variables());
    let findings = report.findings.into_iter();
    findings.map(|finding| finding.message).collect()
}

#[test]
fn a_finding_says_what_to_write() {
    let rollout = |text: &str| {
        let rollout = format!("spec:\n  rollout: {{{text}}}\n");
        finding_messages(&module("web").replace("spec:\n", &rollout))
    };
    let stage = |text: &str| rollout(&format!("stages: [{{name: canary, selector: {{}}, {text}}}]"));
    let soak = "spec.rollout.stages[0].soak";
    // The API server adds that further rules were not checked, which does not help.
    assert_eq!(
        stage("soak: 10"),
        [format!(
            "{soak}: 10 is not a duration: write a duration such as 10s"
        )]
    );
    assert_eq!(
        stage("soak: '90'"),
        [format!(
            "{soak}: \"90\" is not a duration: write a duration such as 90s"
        )]
    );
    assert_eq!(
        stage("soak: ten minutes"),
        [format!(
            "{soak}: \"ten minutes\" is not a duration: write a duration such as 10s"
        )]
    );
    assert_eq!(
        stage("approval: Requird"),
        [
            "spec.rollout.stages[0].approval: Unsupported value: \"Requird\": supported values: \"None\", \"Required\" (did you mean Required?)"
        ]
    );
    assert_eq!(
        rollout("strategy: zzz"),
        ["spec.rollout.strategy: Unsupported value: \"zzz\": supported values: \"Replace\", \"Incremental\""]
    );
    assert_eq!(
        rollout("maxUnreadyCluster: 1"),
        ["spec.rollout.maxUnreadyCluster: unknown field (did you mean maxUnreadyClusters?)"]
    );
    assert_eq!(
        finding_messages(&module("web").replace("spec:\n", "spec:\n  onUnreachable: Skip\n")),
        ["spec.onUnreachable: unknown field (did you mean spec.rollout.onUnreachable?)"]
    );
    assert_eq!(
        finding_messages(&module("web").replace("spec:\n", "spec:\n  maxUnreadyClusters: 1\n")),
        [
            "spec.maxUnreadyClusters: unknown field (did you mean spec.rollout.maxUnreadyClusters, spec.rollout.stages[].maxUnreadyClusters?)"
        ]
    );
    assert_eq!(
        finding_messages(&module("web").replace("spec:\n", "spec:\n  zzz: 1\n")),
        ["spec.zzz: unknown field"]
    );
    for odd in ["true", "[1]", "{}"] {
        let messages = rollout(&format!("maxUnreadyClusters: {odd}"));
        assert!(
            !messages.is_empty() && !messages.concat().contains("<nil>"),
            "{messages:?}"
        );
    }
}

#[test]
fn the_remedy_is_printed_once_after_the_last_finding_of_a_kind() {
    let text = module("web").replace(
        "spec:\n",
        "spec:\n  zzz: 1\n  yyy: 2\n  rollout: {strategy: zzz}\n",
    );
    let files = Files::new([File {
        path: "m.yaml".to_owned(),
        bytes: text.into(),
    }]);
    let text = super::print::text(&lint_files(&files, &no_variables()), &files, 100);
    let count = |what: &str| text.matches(what).count();
    assert_eq!(count("unknown field"), 2, "{text}");
    let help = Code::UnknownField.remedy();
    assert_eq!((count(help), count(Code::Definition.remedy())), (1, 1), "{text}");
    let (first, second) = text.split_at(text.find("spec.yyy").unwrap());
    assert!(!first.contains(help) && second.contains(help), "{text}");
}

#[test]
fn values_from_variables_are_not_checked() {
    check(
        &module("web").replace("https://example.com/fleet.git", "'${FLEET_URL}'"),
        &[],
    );
}

#[test]
fn no_value_of_a_secret_is_shown() {
    let check = |text: String, code: &str| {
        let file = File {
            path: "s.yaml".to_owned(),
            bytes: text.into(),
        };
        let files = Files::new([file]);
        let report = lint_files(&files, &no_variables());
        let json = super::print::json(&report).unwrap();
        let text = super::print::text(&report, &files, 100);
        assert!(text.contains(code), "{code}: {text}");
        assert!(
            !text.contains("hunter2") && !json.contains("hunter2"),
            "{text}{json}"
        );
    };
    let secret = |data: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: x}}\n{data}\n");
    check(secret("stringData:\n  pw: hunter2"), "MST0401");
    check(secret("stringData: {pw: hunter2}"), "MST0401");
    check(secret("stringData:\n  pw: hunter2\n  pw: hunter2"), "MST0001");
    check(secret("stringData: {pw: hunter2, pw: hunter2}"), "MST0001");
    let url = |url: &str| module("web").replace("https://example.com/fleet.git", url);
    check(url("https://user:hunter2@example.com/fleet.git"), "MST0104");
    check(url("http://user:hunter2@example.com/fleet.git"), "MST0");
}

#[test]
fn rollouts_without_any_bound() {
    let rollout = |text: &str| module("web").replace("spec:\n", &format!("spec:\n  rollout:\n    {text}\n"));
    check(&rollout("strategy: Replace"), &[("MST0303", 7)]);
    check(&rollout("maxUnreadyClusters: 100%"), &[("MST0303", 7)]);
    check(&rollout("maxUnreadyClusters: 50%"), &[]);
}

#[test]
fn modules_together() {
    let needs = |name: &str, other: &str| {
        module(name).replace("spec:\n", &format!("spec:\n  dependsOn:\n  - name: {other}\n"))
    };
    assert_eq!(found(&[&module("web"), &module("web")]), [("MST0002", 4)]);
    assert_eq!(found(&[&needs("web", "base")]), [("MST0201", 7)]);
    assert_eq!(found(&[&needs("web", "base"), &module("base")]), []);
    assert_eq!(
        found(&[&needs("c", "a"), &needs("a", "b"), &needs("b", "c")]),
        [("MST0202", 6)],
        "each cycle is reported once"
    );
    assert_eq!(found(&[&needs("web", "web")]), [("MST0202", 6)]);
}

#[test]
fn clusters_that_are_there() {
    let web = module("web");
    assert_eq!(
        found(&[&web.replace("env: prod", "env: qa"), CLUSTER]),
        [("MST0301", 6)]
    );
    assert_eq!(
        found(&[&web.replace("env: prod", "env: qa")]),
        [],
        "the clusters are unknown"
    );
    let stages = "spec:\n  rollout:\n    stages:\n    - {name: canary, selector: {matchLabels: {stage: canary}}}\n    - {name: rest, selector: {}}\n";
    assert_eq!(
        found(&[&web.replace("spec:\n", stages), CLUSTER]),
        [("MST0302", 8)]
    );
}

#[test]
fn modules_that_bring_the_same_objects() {
    let (web, shop) = (module("web"), module("shop").replace("apps/shop", "./apps/web/"));
    assert_eq!(found(&[&web, &shop]), [("MST0305", 10)]);
    let part = module("shop").replace("apps/shop", "apps/web/base");
    assert_eq!(found(&[&web, &part]), [("MST0305", 10)]);
    for other in [
        shop.replace("apps/web", "apps/website"),
        shop.replace("fleet.git", "apps.git"),
        shop.replace("env: prod", "env: dev"),
        shop.replace("./apps/web/", "./apps/web/, substitute: {NAME: shop}"),
        shop.replace("./apps/web/", "./apps/web/, targetNamespace: shop"),
    ] {
        assert_eq!(found(&[&web, &other]), [], "{other}");
    }
    let also = shop.replace("env: prod", "region: eu");
    let cluster = CLUSTER.replace("env: prod", "env: prod, region: eu");
    assert_eq!(
        found(&[&web, &also, &cluster]),
        [("MST0305", 10)],
        "one cluster is of both"
    );
}

#[test]
fn every_code_has_a_chapter_and_the_other_way_round() {
    let page = include_str!("../../../docs/lint.md");
    let chapters: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## MST"))
        .filter_map(|rest| rest.get(..4))
        .collect();
    let codes: Vec<&str> = Code::ALL
        .iter()
        .filter_map(|code| code.id().strip_prefix("MST"))
        .collect();
    assert_eq!(chapters, codes);
}

#[test]
fn kinds_without_evidence() {
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n";
    let definition = |status: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.example.com}}\nspec:\n  group: \
             example.com\n  names: {{kind: Widget}}\n  versions: [{{name: v1, schema: {{openAPIV3Schema: {{properties: {{status: \
             {{properties: {{{status}: {{type: integer}}}}}}}}}}}}}}]\n"
        )
    };
    check(widget, &[("MST0306", 2)]);
    check(
        &format!("{widget}---\n{}", widget.replace("a}", "b}")),
        &[("MST0306", 2)],
    );
    check(
        &format!("{widget}---\n{}", definition("phase")),
        &[("MST0306", 2)],
    );
    check(&format!("{widget}---\n{}", definition("observedGeneration")), &[]);
    for known in [
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: a}\n",
        widget,
    ] {
        check(known, &[("MST0306", 2)]);
    }
    for fine in [
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\n",
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
    ] {
        check(fine, &[]);
    }
}

#[test]
fn workloads_with_manually_replaced_pods_are_reported() {
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: a\nspec:\n  updateStrategy:\n    type: OnDelete\n";
    check(set, &[("MST0307", 7)]);
    check(&set.replace("StatefulSet", "DaemonSet"), &[("MST0307", 7)]);
    check(&set.replace("OnDelete", "RollingUpdate"), &[]);
    let zone = |kind: &str| {
        let zone = set.replace("name: a\n", "name: a\n  labels: {rollout-group: db}\n");
        zone.replace("StatefulSet", kind)
    };
    check(&zone("StatefulSet"), &[]);
    check(&zone("DaemonSet"), &[("MST0307", 8)]);
    let waits = "name: a\n  annotations: {fleet.muster.dev/wait-for-pods: 'true'}";
    check(&set.replace("name: a", waits), &[]);
}

#[test]
fn kinds_of_the_table_of_health() {
    let gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: a}\n";
    let found = |module: &str, file: &str| {
        let files = [("modules/web.yaml", module), (file, gateway)].map(|(path, text)| File {
            path: path.to_owned(),
            bytes: text.to_owned().into(),
        });
        let report = lint_files(&Files::new(files), &no_variables());
        let found = report.findings.into_iter();
        let found = found.filter(|finding| finding.code == Code::HealthTable);
        found
            .map(|finding| (finding.at.line, finding.message))
            .collect::<Vec<_>>()
    };
    let web = module("web");
    let with = |more: &str| web.replace("apps/web}", &format!("apps/web, {more}}}"));
    let expect = "module/web has Gateway.gateway.networking.k8s.io: kstatus misreads its status, and the health table covers it";
    assert_eq!(found(&web, "apps/web/gateway.yaml"), [(10, expect.to_owned())]);
    let here = web.replace("apps/web", "./apps/web/");
    assert_eq!(
        found(&here, "apps/web/base/gateway.yaml"),
        [(10, expect.to_owned())]
    );
    assert_eq!(found(&web, "apps/website/gateway.yaml"), []);
    assert_eq!(found(&with("healthTable: v1"), "apps/web/gateway.yaml"), []);
    let own = |group: &str| {
        with(&format!(
            "healthExpressions: [{{apiVersion: {group}/v1, kind: Gateway, current: 'true'}}]"
        ))
    };
    assert_eq!(
        found(&own("gateway.networking.k8s.io"), "apps/web/gateway.yaml"),
        []
    );
    assert_eq!(found(&own("example.com"), "apps/web/gateway.yaml").len(), 1);
}

#[test]
fn expressions_that_do_not_parse() {
    let with = |expressions: &str| {
        let expressions = format!(
            "    package:\n      path: apps/web\n      healthExpressions:\n      - apiVersion: example.com/v1\n        kind: Widget\n{expressions}"
        );
        module("web").replace("    package: {path: apps/web}\n", &expressions)
    };
    check(&with("        current: status.phase == 'Running'\n"), &[]);
    check(&with("        current: status.phase ==\n"), &[("MST0309", 15)]);
    check(
        &with("        current: 'true'\n        failed: nothing(status)\n"),
        &[("MST0309", 16)],
    );
    check(&with("        current: status.phase == ${PHASE}\n"), &[]);
}

const NODE_MODULE: &str = "\
apiVersion: fleet.muster.dev/v1alpha1
kind: NodeModule
metadata:
  name: NAME
spec:
  selector:
    matchLabels: {role: worker}
  parts:
    - files:
        - path: /etc/NAME.conf
          content: on $(NODE_NAME)
";

fn node_module(name: &str) -> String {
    NODE_MODULE
        .replace("NAME.conf", &format!("{name}.conf"))
        .replace("name: NAME", &format!("name: {name}"))
}

#[test]
fn node_modules_are_checked() {
    let fabric = node_module("fabric");
    check(&fabric, &[]);
    for (from, to, expect) in [
        ("/etc/fabric.conf", "etc/fabric.conf", ("MST0103", 10)),
        ("/etc/fabric.conf", "/etc/../fabric.conf", ("MST0103", 10)),
        (
            "content: on $(NODE_NAME)",
            "content: on $(NODE_NAM)",
            ("MST0104", 11),
        ),
        (
            "content: on",
            "mode: \"4755\"\n          content: on",
            ("MST0103", 11),
        ),
        ("content: on $(NODE_NAME)", "contents: x", ("MST0102", 11)),
        ("  parts:", "  confirmWithin: 5s\n  parts:", ("MST0103", 8)),
        (
            "  parts:",
            "  rollout: {maxUnreadyNodes: many}\n  parts:",
            ("MST0103", 8),
        ),
    ] {
        let found = found(&[&fabric.replace(from, to)]);
        assert!(found.contains(&expect), "{to}: {found:?}");
    }
}

#[test]
fn a_path_of_two_node_modules_is_reported_at_the_second() {
    let fabric = node_module("fabric");
    let below = node_module("dns").replace("/etc/dns.conf", "/etc/fabric.conf/below");
    let texts = |second: &str| found(&[&fabric, second]);
    assert_eq!(texts(&below), [("MST0310", 10)]);
    assert_eq!(texts(&node_module("dns")), []);
    assert_eq!(texts(&below.replace("role: worker", "role: db")), []);
    assert_eq!(
        texts(&below.replace("role: worker", "zone: a")),
        [("MST0310", 10)]
    );
}

/// A plan is validated with the variables of its module, as in a cluster.
#[test]
fn plans_are_read_as_in_a_cluster() {
    let plan = |when: &str| {
        format!(
            "apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans:\n    deploy:\n      phases:\n      \
             - name: app\n        steps:\n        - {{name: rest, when: '{when}', apply: ['*']}}\n"
        )
    };
    let web = |package: &str| module("web").replace("path: apps/web", package);
    let with = "path: apps/web, plan: {file: plan.yaml}, substitute: {BACKUP: yes-please}";
    let without = "path: apps/web, plan: {file: plan.yaml}, substitute: {OTHER: x}";
    let check = |module: Option<String>, when: &str, expect: &[&str]| {
        let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n".to_owned();
        let mut files = vec![
            ("apps/web/plan.yaml", plan(when)),
            ("apps/web/config.yaml", config),
        ];
        files.extend(module.map(|module| ("modules/web.yaml", module)));
        let files = files.into_iter().map(|(path, text)| File {
            path: path.to_owned(),
            bytes: text.into(),
        });
        let report = lint_files(&Files::new(files), &no_variables());
        let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code.id()).collect();
        assert_eq!(codes, expect, "{when}: {:?}", report.findings);
    };
    check(Some(web(with)), "${BACKUP}", &[]);
    check(Some(web(without)), "${BACKUP}", &["MST0311"]);
    check(Some(web(without)), "${BACKUP:-}", &[]);
    check(None, "${BACKUP}", &[]);
}
