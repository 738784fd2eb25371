//! Promise: a plan file is accepted as a whole or refused, with the file, the line and what to change.

use std::{collections::BTreeMap, time::Duration};

use muster_api::plan::{Completed, PlanRunStatus, Run, RunProgress, RunState};
use muster_sync::{
    build::{BuildOptions, build},
    plan::{Documents, Next, PlanFile, Planned, Planning, StepId},
    source::{File, Files},
    substitute::Variables,
};

const DIRECTORY: &[(&str, &str)] = &[
    (
        "db/jobs/backup.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: backup, namespace: db}\n",
    ),
    (
        "db/jobs/migrate.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, namespace: db}\n",
    ),
    (
        "db/namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: db}\n",
    ),
    (
        "db/app.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app, namespace: db}\n",
    ),
    (
        "db/old.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: db}\n",
    ),
];

fn file(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        bytes: text.to_owned().into(),
    }
}

/// The result of parsing `db/plan.yaml` with these variables; or the errors, one per line.
fn read(text: &str, variables: &[(&str, &str)]) -> Result<PlanFile, Vec<String>> {
    let files = Files::new(DIRECTORY.iter().map(|(path, text)| file(path, text)));
    let manifests = build(&files, &BuildOptions::default()).map_err(|errors| vec![errors.to_string()])?;
    let pairs: BTreeMap<String, String> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let variables = Variables::new(&pairs).map_err(|problem| vec![problem.to_string()])?;
    let about = Documents {
        directory: "./db",
        manifests: &manifests,
        variables: &variables,
        timeout: Some(Duration::from_mins(5)),
    };
    PlanFile::read(&file("db/plan.yaml", text), &about)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// A file whose only plan has these lines as its phases.
fn phases(lines: &str) -> String {
    format!(
        "apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans:\n    deploy:\n      phases:\n{lines}"
    )
}

fn refused(text: &str) -> Vec<String> {
    read(text, &[]).err().unwrap_or_default()
}

fn only(lines: &str) -> String {
    let refused = refused(&phases(lines));
    assert_eq!(refused.len(), 1, "{refused:?}");
    refused.concat()
}

#[test]
fn steps_get_their_files_and_the_rest_is_what_no_step_names() -> Result<(), Vec<String>> {
    let text = phases(
        "      - {name: before, steps: [{name: space, apply: [namespace.yaml]}]}
      - name: schema
        steps:
        - {name: backup, when: \"${BACKUP:-}\", apply: [jobs/backup.yaml], timeout: 3m}
        - {name: migrate, apply: [jobs/migrate.yaml], retries: 2}
      - {name: app, steps: [{name: rest, apply: ['*']}]}
    cleanup:
      phases:
      - {name: save, steps: [{name: backup, apply: ['jobs/back*.yaml'], onFailure: Continue}]}
",
    );
    insta::assert_snapshot!(read(&text, &[])?, @"
    plan cleanup (serial)
      save (serial)
        backup, may fail
          apply db/jobs/backup.yaml
    plan deploy (serial)
      before (serial)
        space
          apply db/namespace.yaml
      schema (serial)
        migrate, 2 retries
          apply db/jobs/migrate.yaml
      app (serial)
        rest
          apply db/app.yaml
          apply db/old.yaml
    ");
    for (value, runs) in [("yes", true), ("false", false), ("0", false), ("", false)] {
        let plans = read(&text, &[("BACKUP", value)])?;
        let steps = &plans.plan("deploy").ok_or_else(Vec::new)?.phases[1].steps;
        assert_eq!(steps.len() == 2, runs, "BACKUP={value:?}");
        assert_eq!(
            steps.last().map(|step| step.timeout),
            Some(Duration::from_mins(5))
        );
    }
    Ok(())
}

#[test]
fn a_word_that_is_none_is_refused_at_its_line() {
    assert_eq!(
        only("      - {name: a, strategy: seriel, steps: []}\n"),
        "db/plan.yaml:7:29: spec.plans.deploy.phases[0].strategy: unknown variant `seriel`, expected `serial` or `parallel`"
    );
    let unknown = only("      - {name: a, steps: [{name: b, aply: [app.yaml]}]}\n");
    assert!(
        unknown.starts_with("db/plan.yaml:7:43: spec.plans.deploy.phases[0].steps[0].aply: unknown field"),
        "{unknown}"
    );
    let kind = refused("apiVersion: fleet.muster.dev/v1alpha1\nkind: Plans\nspec: {}\n").concat();
    assert!(
        kind.ends_with("and this is Plans of fleet.muster.dev/v1alpha1"),
        "{kind}"
    );
    let two = refused(&format!("{}---\nkind: x\n", phases(""))).concat();
    assert!(two.ends_with("and this is 2 documents"), "{two}");
    let none = refused("apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans: {backup: {}}\n");
    assert_eq!(
        none,
        [
            "db/plan.yaml:4:10: there is no plan deploy: it is required for the first installation in a cluster"
        ]
    );
}

#[test]
fn a_file_that_is_not_there_or_is_in_two_steps_is_refused() {
    assert_eq!(
        only("      - {name: a, steps: [{name: b, apply: [jobs/nope.yaml]}]}\n"),
        "db/plan.yaml:7:45: no file \"jobs/nope.yaml\" below the directory"
    );
    assert_eq!(
        only(
            "      - name: a\n        steps:\n        - {name: b, apply: [app.yaml]}\n        - {name: c, apply: [app.yaml]}\n"
        ),
        "db/plan.yaml:10:29: app.yaml is applied by step a/b of plan deploy already; a file is in one step of a plan"
    );
    let rest = refused(&phases(
        "      - name: a\n        steps: [{name: b, apply: ['*']}, {name: c, apply: ['*']}]\n",
    ));
    assert_eq!(rest.len(), DIRECTORY.len(), "each file of the second *: {rest:?}");
}

#[test]
fn a_plan_that_would_wait_for_itself_is_refused() {
    assert_eq!(
        only(
            "      - {name: schema, steps: [{name: migrate, apply: [jobs/migrate.yaml]}]}\n      - {name: app, steps: [{name: rest, apply: ['*']}]}\n"
        ),
        "db/plan.yaml:7:32: Job.batch db/migrate needs Namespace db, which step app/rest applies only later: the plan would wait for itself"
    );
}

#[test]
fn a_variable_that_is_not_set_is_refused() {
    let when = only("      - {name: a, steps: [{name: b, when: '${BACKUP}', apply: [app.yaml]}]}\n");
    assert!(
        when.starts_with("db/plan.yaml:7:43: when: variable BACKUP is not set"),
        "{when}"
    );
}

#[test]
fn nothing_is_deleted_that_another_step_applies() {
    let delete = "delete: [{apiVersion: v1, kind: ConfigMap, namespace: db, name: old}]";
    assert_eq!(
        only(&format!(
            "      - {{name: a, steps: [{{name: b, apply: [old.yaml]}}, {{name: c, {delete}}}]}}\n"
        )),
        "db/plan.yaml:7:76: ConfigMap db/old is applied by step a/b; a step deletes only what no other step applies"
    );
    assert!(
        read(
            &phases(&format!("      - {{name: a, steps: [{{name: c, {delete}}}]}}\n")),
            &[]
        )
        .is_ok()
    );
}

#[test]
fn names_and_times_are_checked() {
    let twice = only("      - {name: a, steps: [{name: b}, {name: b}]}\n");
    assert!(
        twice.ends_with("b occurs twice: progress is stored by name"),
        "{twice}"
    );
    let name = only("      - {name: A b, steps: []}\n");
    assert!(
        name.contains("\"A b\" is not a valid name for a plan, phase or step"),
        "{name}"
    );
    let timeout = only("      - {name: a, steps: [{name: b, timeout: 1h}]}\n");
    assert!(
        timeout.ends_with("timeout 1h is longer than the 5m of spec.sync.package.timeout"),
        "{timeout}"
    );
}

#[test]
fn a_step_has_another_digest_when_what_it_applies_has_changed() -> Result<(), Vec<String>> {
    let digest = |lines: &str| -> Result<String, Vec<String>> {
        let plans = read(&phases(lines), &[])?;
        let step = &plans.plan("deploy").ok_or_else(Vec::new)?.phases[0].steps[0];
        assert_eq!(StepId::new("a", &step.name).to_string(), "a/b");
        Ok(step.digest.clone())
    };
    let one = digest("      - {name: a, steps: [{name: b, apply: [app.yaml]}]}\n")?;
    assert_eq!(
        one,
        digest("      - {name: a, steps: [{name: b, apply: ['a*.yaml'], timeout: 1m}]}\n")?
    );
    assert_ne!(
        one,
        digest("      - {name: a, steps: [{name: b, apply: [old.yaml]}]}\n")?
    );
    Ok(())
}

/// The file in the documentation, with the files that it names.
#[test]
fn the_file_of_the_documentation_is_taken() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/plans.md")).unwrap();
    let blocks = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let text = blocks
        .filter(|block| block.contains("kind: Plan\n"))
        .collect::<Vec<_>>();
    assert_eq!(text.len(), 1);
    let job =
        |name: &str| format!("apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: db}}\n");
    let jobs = ["backup", "migrate", "smoke", "dump"];
    let jobs = jobs.map(|name| file(&format!("app/jobs/{name}.yaml"), &job(name)));
    let others = [
        file("app/plan.yaml", text[0]),
        file(
            "app/settings.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
        ),
    ];
    let planning = Planning {
        directory: "app",
        file: "plan.yaml",
        timeout: Duration::from_mins(5),
        deadline: None,
    };
    let read = |options: &BuildOptions| {
        let files = Files::new(jobs.iter().chain(&others).cloned());
        Planned::read(&files, &planning, options).unwrap()
    };
    let planned = read(&BuildOptions::default());
    assert_eq!(planned.plans().names().collect::<Vec<_>>(), ["cleanup", "deploy"]);
    let steps = |planned: &Planned| {
        let plan = planned.plan("deploy").unwrap();
        let steps = plan.phases.iter().flat_map(|phase| &phase.steps);
        steps
            .map(|step| format!("{}: {}", step.name, step.apply.join(" ")))
            .collect::<Vec<_>>()
    };
    let rest = ["rest: app/settings.yaml", "smoke: app/jobs/smoke.yaml"];
    assert_eq!(
        steps(&planned),
        ["migrate: app/jobs/migrate.yaml", rest[0], rest[1]]
    );
    let with_backup = read(&BuildOptions {
        substitute: BTreeMap::from([("BACKUP".to_owned(), "yes".to_owned())]),
        ..BuildOptions::default()
    });
    assert_eq!(steps(&with_backup)[0], "backup: app/jobs/backup.yaml");
    assert_eq!(
        planned.digest(),
        with_backup.digest(),
        "no document is another one"
    );
    let back = planned.plan("rollback").unwrap();
    assert_eq!(back.phases[0].steps[0].apply, ["app/settings.yaml"]);
}

/// A directory is found however its path is written: relative, absolute, or with a dot.
#[test]
fn a_directory_is_the_same_however_its_path_is_written() {
    let text = "apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec: {plans: {deploy: {phases: [{name: a, steps: [{name: b, apply: [a.yaml, '*']}]}]}}}\n";
    let map =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: db}}\n");
    for (directory, below) in [
        ("app", "app/"),
        ("./app/", "app/"),
        ("/srv/app", "/srv/app/"),
        (".", ""),
        ("./app", "./app/"),
    ] {
        let files = [
            file(&format!("{below}plan.yaml"), text),
            file(&format!("{below}a.yaml"), &map("a")),
            file(&format!("{below}b.yaml"), &map("b")),
        ];
        let planning = Planning {
            directory,
            file: "plan.yaml",
            timeout: Duration::from_mins(5),
            deadline: None,
        };
        let planned = Planned::read(&Files::new(files), &planning, &BuildOptions::default());
        let plan = planned
            .unwrap_or_else(|error| panic!("{directory}: {error}"))
            .plan("deploy")
            .unwrap();
        let expect = ["a.yaml", "b.yaml"].map(|name| format!("{below}{name}"));
        assert_eq!(plan.phases[0].steps[0].apply, expect, "{directory}");
    }
}

/// Which plan is used for a content, depending on what completed in the cluster and on the current run.
#[test]
fn the_plan_that_is_next() {
    let planned = |text: &str, value: &str| {
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: db}}\ndata: {{a: {value}}}\n"
        );
        let planning = Planning {
            directory: "app",
            file: "plan.yaml",
            timeout: Duration::from_mins(5),
            deadline: None,
        };
        let files = Files::new([file("app/plan.yaml", text), file("app/a.yaml", &map)]);
        Planned::read(&files, &planning, &BuildOptions::default()).unwrap()
    };
    let plans = |names: &[&str]| {
        let lines: Vec<String> = names
            .iter()
            .map(|name| format!("    {name}: {{phases: []}}"))
            .collect();
        let plans = lines.join("\n");
        format!("apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans:\n{plans}\n")
    };
    let all = plans(&["deploy", "update", "rollback"]);
    let (old, new) = (planned(&all, "old"), planned(&all, "new"));
    let ran = |planned: &Planned, plan: &str, status: RunState, before: &[&Planned]| PlanRunStatus {
        run: Some(Run {
            documents_digest: planned.digest().to_owned(),
            plans_digest: planned.plans_digest().to_owned(),
            attempt: 1,
            progress: RunProgress {
                plan: plan.to_owned(),
                status,
                ..RunProgress::default()
            },
            ..Run::default()
        }),
        completed: before
            .iter()
            .map(|one| Completed {
                documents_digest: one.digest().to_owned(),
                ..Completed::default()
            })
            .collect(),
        ..PlanRunStatus::default()
    };
    let begin = |name: &str| Next::Begin(name.to_owned());
    assert_eq!(new.next(&PlanRunStatus::default(), 0), begin("deploy"));
    let deployed = ran(&old, "deploy", RunState::Complete, &[&old]);
    assert_eq!(old.next(&deployed, 1), Next::Same);
    assert_eq!(old.next(&deployed, 2), begin("deploy"), "a greater attempt");
    assert_eq!(new.next(&deployed, 1), begin("update"));
    assert_eq!(
        planned(&plans(&["deploy"]), "new").next(&deployed, 1),
        begin("deploy")
    );
    let failed = ran(&new, "update", RunState::FatalError, &[&old]);
    assert_eq!(new.next(&failed, 1), Next::Same);
    assert_eq!(old.next(&failed, 1), begin("rollback"));
    let corrected = planned(&plans(&["deploy", "update"]), "new");
    assert_eq!(
        corrected.next(&failed, 1),
        begin("update"),
        "other plans after a failure"
    );
    let went = ran(&new, "update", RunState::InProgress, &[&old]);
    assert_eq!(
        corrected.next(&went, 1),
        Next::Same,
        "a run that is under way goes on by the new plans"
    );
}
