//! Generates the charts under `deploy/charts/` from the output of `muster install --export`, so that they cannot differ
//! from it: each object is printed once for each value that changes it, and the differences become templates. `cargo
//! xtask generate` writes them.

use std::{collections::BTreeMap, fs, path::PathBuf};

use muster_api::{crds, labels::SYSTEM_NAMESPACE};
use muster_sync::build::print;
use serde_json::Value;

use super::{Auth, Sync};
use super::{Options, Role, objects};

/// Placeholders for values of the chart.
const NAMESPACE: &str = "chart-namespace";
const IMAGE: &str = "chart-image";
const UPDATERS: &str = "chart-updaters";
const EGRESS_PORT: u16 = 65_535;
/// If set, the charts are written instead of compared.
const WRITE: &str = "MUSTER_WRITE_CHARTS";
/// The value for ClusterUpgrades.
const UPGRADES: &str = ".Values.upgrades";
/// Whether an updater has prepareNode.
const PREPARES: &str = "{{- $prepares := false }}\n{{- range (fromYaml .Values.updaters).updaters }}\n{{- if .prepareNode }}\n\
    {{- $prepares = true }}\n{{- end }}\n{{- end }}\n";
const HEADER: &str =
    "{{- /* Generated from muster install --export by cargo xtask generate. Do not edit. */ -}}\n";
/// What Helm keeps when a release is uninstalled: removing a namespace or a definition would remove everything in it.
const KEEP_ALWAYS: &str = "metadata:\n  annotations:\n    helm.sh/resource-policy: keep\n";
/// The same, if keep is set.
const KEEP: &str =
    "metadata:\n  {{- if .Values.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n";

/// The flags of one variant; `option` is an optional feature of the process: notifications, or NodeModules.
fn flags(role: Role, sync: Sync, option: bool, dashboard: Option<Auth>) -> Options {
    Options {
        dashboard,
        management: role == Role::Controller,
        downstream: role == Role::Agent,
        crds: false,
        sync,
        egress_ports: vec![EGRESS_PORT],
        notify: option && role == Role::Controller,
        nodes: option && role == Role::Agent,
        upgrades: role == Role::Controller,
        ..Options::of(IMAGE, sync)
    }
}

/// Objects for ClusterUpgrades have a condition of their own; they change other objects only by one argument.
fn for_upgrades(name: &str, document: &str) -> String {
    if name.contains(super::upgrades::NAME) {
        return when(UPGRADES, document);
    }
    let argument = "        - --upgrades\n";
    document.replace(
        argument,
        &format!("        {}", when(UPGRADES, argument)).replace("{{- end", "        {{- end"),
    )
}

/// Text under a condition of the template.
fn when(condition: &str, text: &str) -> String {
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// The text if a condition is true, and if it is not.
fn either(condition: &str, yes: &str, no: &str) -> String {
    match (yes, no) {
        (yes, no) if yes == no => yes.to_owned(),
        (yes, "") => when(condition, yes),
        ("", no) => when(&format!("not ({condition})"), no),
        (yes, no) => when(condition, &format!("{yes}{{{{- else }}}}\n{no}")),
    }
}

fn document(object: &Value) -> String {
    let text = print::yaml(object);
    assert!(!text.contains("{{"), "would be mistaken for a template: {text}");
    let ports = format!("  - ports:\n    - port: {EGRESS_PORT}\n      protocol: TCP\n");
    let range = "  - ports:\n    {{- range .Values.egressPorts }}\n    - port: {{ . }}\n      protocol: TCP\n    {{- end }}\n";
    assert!(
        object["kind"] != "NetworkPolicy" || text.contains(&ports),
        "{text}"
    );
    let text = text
        .replace(&ports, range)
        .replace("--sync=builtin", "--sync={{ .Values.sync }}")
        .replace("--sync=flux", "--sync={{ .Values.sync }}")
        .replace(
            "--dashboard-auth=token",
            "--dashboard-auth={{ .Values.dashboard }}",
        )
        .replace(
            "--dashboard-auth=none",
            "--dashboard-auth={{ .Values.dashboard }}",
        )
        .replace(&format!(": {NAMESPACE}\n"), ": {{ .Values.namespace | quote }}\n")
        .replace(NAMESPACE, "{{ .Values.namespace }}")
        .replace(&format!(": {IMAGE}\n"), ": {{ .Values.image | quote }}\n")
        .replace(&format!(": {UPDATERS}\n"), ": {{ .Values.updaters | quote }}\n");
    if object["kind"] == "Namespace" {
        return format!("---\n{}", text.replacen("metadata:\n", KEEP_ALWAYS, 1));
    }
    format!("---\n{text}")
}

/// The objects of a process, each under the conditions for which it is exported.
fn templates(role: Role) -> String {
    let works_in = match role {
        Role::Controller => NAMESPACE,
        Role::Agent => SYSTEM_NAMESPACE,
    };
    let of = |sync: Sync, option: bool, dashboard: Option<Auth>| -> BTreeMap<String, String> {
        let flags = flags(role, sync, option, dashboard);
        let all = objects(&flags, works_in);
        all.iter()
            .map(|object| (object_identity(object), document(object)))
            .collect()
    };
    let (given, dashboard) = match role {
        Role::Controller => (".Values.notify", Some(Auth::Token)),
        Role::Agent => (".Values.nodes", None),
    };
    let none = of(Sync::Builtin, true, dashboard.map(|_| Auth::None));
    let variants = [Sync::Builtin, Sync::Flux].map(|sync| {
        [(true, dashboard), (false, dashboard), (true, None), (false, None)]
            .map(|(option, dashboard)| of(sync, option, dashboard))
    });
    let mut text = String::new();
    // With all options there are the most objects, in their order.
    for object in objects(&flags(role, Sync::Builtin, true, dashboard), works_in) {
        let name = object_identity(&object);
        // The two authentications of the dashboard need different objects.
        let condition = if none.contains_key(&name) {
            ".Values.dashboard"
        } else {
            "eq .Values.dashboard \"token\""
        };
        let [builtin, flux] = variants.each_ref().map(|variants| {
            let [all, shown, with, neither] = variants
                .each_ref()
                .map(|variant| variant.get(&name).map_or("", String::as_str));
            either(
                condition,
                &either(given, all, shown),
                &either(given, with, neither),
            )
        });
        let document = either("eq .Values.sync \"builtin\"", &builtin, &flux);
        let document = for_upgrades(&name, &document);
        // The namespace exists already, or is every namespace.
        let other = format!("not (has .Values.namespace (list \"default\" \"{SYSTEM_NAMESPACE}\"))");
        if object["kind"] == "Namespace" && document.contains(".Values.namespace") {
            text += &when(&other, &document);
        } else {
            text += &document;
        }
    }
    let value = match role {
        Role::Controller => "management",
        Role::Agent => "downstream",
    };
    HEADER.to_owned() + &when(&format!("eq .Values.role \"{value}\""), &text)
}

/// The objects of muster zones: only the values in their text change them.
fn zones() -> String {
    let flags = Options {
        zones: true,
        egress_ports: vec![EGRESS_PORT],
        ..Options::of(IMAGE, Sync::Builtin)
    };
    let text: String = objects(&flags, NAMESPACE).iter().map(document).collect();
    HEADER.to_owned() + &when("eq .Values.role \"zones\"", &text)
}

/// The objects of muster machines: they have more rights if an updater has prepareNode.
fn machines() -> String {
    let flags = Options {
        machines: true,
        egress_ports: vec![EGRESS_PORT],
        ..Options::of(IMAGE, Sync::Builtin)
    };
    let of = |prepares_nodes: bool| super::machines::with_rights(&flags, UPDATERS, prepares_nodes);
    let (with, without) = (of(true), of(false));
    assert_eq!(with.len(), without.len());
    let mut text = PREPARES.to_owned();
    for (with, without) in with.iter().zip(&without) {
        text += &either("$prepares", &document(with), &document(without));
    }
    HEADER.to_owned() + &when("eq .Values.role \"machines\"", &text)
}

/// The identity of an object among the others.
fn object_identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {} {}",
        object["kind"], metadata["namespace"], metadata["name"]
    )
}

/// The definitions, each under the condition for which it is exported.
fn definitions() -> BTreeMap<String, String> {
    let groups = [
        ("eq .Values.role \"management\"", crds::management()),
        ("eq .Values.role \"downstream\"", crds::downstream()),
        (
            "and .Values.upgrades (eq .Values.role \"management\")",
            crds::upgrades(),
        ),
        (
            "and .Values.nodes (eq .Values.role \"downstream\")",
            crds::nodes(),
        ),
        ("eq .Values.role \"zones\"", crds::zones()),
        ("eq .Values.role \"machines\"", crds::machines()),
        (
            "and .Values.rolloutOperatorCrds (eq .Values.role \"zones\")",
            crds::rollout_operator(),
        ),
        (
            "and (eq .Values.sync \"builtin\") (has .Values.role (list \"management\" \"downstream\"))",
            crds::flux(),
        ),
        (
            "and .Values.clusterApi (eq .Values.role \"management\")",
            vec![crds::cluster_api()],
        ),
    ];
    let mut files = BTreeMap::new();
    for (condition, definitions) in groups {
        for definition in definitions {
            let text = crds::yaml(&definition);
            assert!(!text.contains("{{"), "would be mistaken for a template: {text}");
            assert_eq!(text.matches("\nmetadata:\n").count(), 1);
            let text = text.replacen("metadata:\n", KEEP, 1);
            let name = definition.metadata.name.unwrap();
            files.insert(
                format!("muster-crds/templates/{name}.yaml"),
                HEADER.to_owned() + &when(condition, &text),
            );
        }
    }
    files
}

/// All generated files, by their path under `deploy/charts/`.
fn generated() -> BTreeMap<String, String> {
    let mut files = definitions();
    files.insert(
        "muster/templates/controller.yaml".to_owned(),
        templates(Role::Controller),
    );
    files.insert("muster/templates/agent.yaml".to_owned(), templates(Role::Agent));
    files.insert("muster/templates/zones.yaml".to_owned(), zones());
    files.insert("muster/templates/machines.yaml".to_owned(), machines());
    files
}

fn charts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/charts"))
}

#[test]
fn the_charts_are_as_generated() {
    let generated = generated();
    for chart in ["muster", "muster-crds"] {
        let directory = charts().join(chart).join("templates");
        if std::env::var_os(WRITE).is_some() {
            // A missing file counts as empty.
            let _ = fs::remove_dir_all(&directory);
            fs::create_dir_all(&directory).unwrap();
        }
    }
    for (file, text) in &generated {
        let path = charts().join(file);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, text).unwrap();
        }
        assert!(
            fs::read_to_string(&path).is_ok_and(|there| there == *text),
            "deploy/charts/{file} is not as generated: run cargo xtask generate and commit"
        );
    }
    for chart in ["muster", "muster-crds"] {
        for entry in fs::read_dir(charts().join(chart).join("templates")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let file = format!("{chart}/templates/{name}");
            assert!(
                generated.contains_key(&file),
                "deploy/charts/{file}: nothing generates it any more"
            );
        }
    }
}

/// The metadata of a chart, and its defaults, which are those of the flags.
#[test]
fn the_charts_have_the_defaults_of_the_flags() {
    let read = |file: &str| {
        let text = fs::read(charts().join(file)).unwrap();
        muster_sync::yaml::to_json(text).unwrap()
    };
    for chart in ["muster", "muster-crds"] {
        let about = read(&format!("{chart}/Chart.yaml"));
        assert_eq!(about["name"], chart);
        assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));
    }
    let values = read("muster/values.yaml");
    assert_eq!(
        values["image"],
        concat!("muster:", env!("CARGO_PKG_VERSION")),
        "of --image"
    );
    assert_eq!(values["egressPorts"], serde_json::json!(super::EGRESS_PORTS));
    assert_eq!(
        (&values["sync"], &values["namespace"]),
        (&"builtin".into(), &"default".into())
    );
    assert_eq!(
        (&values["notify"], &values["nodes"], &values["dashboard"]),
        (&false.into(), &false.into(), &"".into())
    );
    assert_eq!(
        (&values["upgrades"], &values["updaters"]),
        (&false.into(), &"".into())
    );
    for chart in ["muster", "muster-crds"] {
        let (values, schema) = (
            read(&format!("{chart}/values.yaml")),
            read(&format!("{chart}/values.schema.json")),
        );
        assert_eq!(schema["additionalProperties"], false);
        let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        let (mut given, mut known) = (keys(&values), keys(&schema["properties"]));
        given.sort();
        known.sort();
        assert_eq!(given, known, "{chart}");
    }
}

/// The image is built with the toolchain of the repository, and runs as the user of the Deployment.
#[test]
fn the_container_file_fits() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let file = fs::read_to_string(root.join("deploy/Containerfile")).unwrap();
    let toolchain = fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let version = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap()
        .trim_matches('"');
    let user = super::deployment::USER;
    for line in [
        format!("ARG RUST={version}"),
        format!("USER {user}:{user}"),
        "ENTRYPOINT [\"/usr/bin/muster\"]".to_owned(),
        // The program that the DaemonSet of the node agents runs.
        format!(
            "COPY --from=build /src/target/release/muster /src/target/release/{} /usr/bin/",
            super::nodes::PROGRAM.trim_start_matches("/usr/bin/")
        ),
    ] {
        assert!(
            file.lines().any(|there| there == line),
            "deploy/Containerfile has no {line}"
        );
    }
}
