//! Promise: `kubectl get` shows the documented columns, with the wide ones at priority 1.

use muster_api::{Module, crds::columns, module::Summary};

#[test]
fn columns_of_each_kind() {
    let lines: Vec<String> = crate::support::definitions()
        .iter()
        .map(|definition| {
            let columns = definition.spec.versions[0]
                .additional_printer_columns
                .as_ref()
                .unwrap();
            let names = columns.iter().map(|column| match column.priority {
                Some(1) => format!("({})", column.name.to_uppercase()),
                _ => column.name.to_uppercase(),
            });
            format!(
                "{}: {}",
                definition.spec.names.kind,
                names.collect::<Vec<_>>().join(" ")
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    Module: VERSION UPDATED READY FAILED STATUS AGE (REVISION) (SKIPPED) (MESSAGE)
    BootstrapModule: VERSION UPDATED READY FAILED STATUS AGE (REVISION) (SKIPPED) (MESSAGE)
    ProxyAssemblage: CLUSTER READY STATUS AGE (MESSAGE)
    RemoteAssemblage: CLUSTER READY STATUS AGE (MESSAGE)
    ModuleRevision: MODULE VERSION VERDICT CLUSTERS STARTED AGE (KIND) (COMMIT) (REVISION) (FINISHED) (MESSAGE)
    RolloutWindow: OPEN NEXT CHANGE CLUSTERS READY AGE (WHY) (MESSAGE)
    Assemblage: READY STATUS AGE (MESSAGE)
    PlanRun: PLAN STATUS SINCE AGE (REVISION) (RUN)
    NodeModule: UPDATED READY FAILED STATUS AGE (REVISION) (SKIPPED) (MESSAGE)
    NodeRevision: NODEMODULE REVISION VERDICT AGE
    NodeAssemblage: READY STATUS AGENT AGE (MESSAGE)
    NodeBudget: CONTROL-PLANE WORKERS CHANGING AGE
    UpdatePlan: SOURCE UPDATED AGE (TARGET) (TO)
    ClusterUpgrade: VERSION UPDATED FAILED STATUS AGE (UPDATING) (SKIPPED) (MESSAGE)
    ");
}

/// Each JSON path refers to a field of the schema.
#[test]
fn paths_exist() {
    for definition in crate::support::definitions() {
        let schema = crate::support::openapi(&definition);
        for column in definition.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
        {
            let path = column
                .json_path
                .split('[')
                .next()
                .unwrap()
                .trim_end_matches(['.', '*']);
            if path.starts_with(".metadata") {
                continue;
            }
            let pointer = path.replace('.', "/properties/");
            assert!(
                schema.pointer(&pointer).is_some(),
                "{}: {}",
                definition.spec.names.kind,
                column.json_path
            );
        }
    }
}

/// The column with a module's clusters refers to an existing field of the status.
#[test]
fn updated_column_is_a_field_of_the_summary() {
    let summary = serde_json::to_value(Summary {
        clusters: "3/5".into(),
        ..Summary::default()
    })
    .unwrap();
    let path = columns::module_columns()
        .into_iter()
        .find(|column| column.name == "Updated")
        .unwrap()
        .json_path;
    assert_eq!(summary[path.rsplit('.').next().unwrap()], "3/5");
    assert_eq!(<Module as kube::CustomResourceExt>::shortnames(), ["mmod"]);
}
