//! Validates plans with the files of their directory, as the agent does.

use std::{collections::BTreeMap, sync::Arc};

use muster_sync::{
    build::{BuildOptions, Plans},
    plan::{self, PlanProblem, Planned, PlannedError, Planning},
    source::{File, Files},
    substitute::Variables,
    yaml::Document,
};

use super::{
    finding::{Code, Finding},
    object::ValidModule,
    together::is_below,
};

/// How long a step may take if no Module is known.
const NO_LIMIT: std::time::Duration = std::time::Duration::MAX;

/// The findings of the plans that modules name, and of those that no module of these files names. `given`: variables in
/// addition to those of the module.
pub(crate) fn check(files: &Files, modules: &[(Document, ValidModule)], given: &Variables) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut named = Vec::new();
    for (document, module) in modules {
        let package = &module.spec.sync.package;
        let Some(of_package) = &package.plan else { continue };
        let directory = package.path.trim_start_matches("./").trim_matches('/');
        if !files.iter().any(|file| is_below(&file.path, directory)) {
            // The directory is in another repository.
            continue;
        }
        let planning = Planning {
            directory,
            file: &of_package.file,
            timeout: package.timeout.to_std(),
            deadline: of_package.deadline.map(muster_api::Duration::to_std),
        };
        let of_planning = files.iter().filter(|file| planning.names(&file.path));
        named.extend(of_planning.map(|file| file.path.clone()));
        let mut variables = package.substitute.clone();
        variables.extend(given.values().clone());
        match read(files, &planning, variables) {
            // All files are below the root: the directory may be of another repository.
            Err(PlannedError::NoFile { .. }) if matches!(directory, "" | ".") => {}
            Err(PlannedError::NoFile { file, directory }) => {
                let address = module.identity.address();
                let message = format!("there is no {file:?} below {directory:?}");
                let field = "spec.sync.package.plan.file";
                findings.push(Finding::about(Code::Plan, document, &address, field, message));
            }
            result => findings.extend(of(result)),
        }
    }
    for file in files
        .iter()
        .filter(|file| !named.contains(&file.path) && plan::is_plan_file(file))
    {
        let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let planning = Planning {
            directory,
            file: name,
            timeout: NO_LIMIT,
            deadline: None,
        };
        let mut result = read(files, &planning, given.values().clone());
        // The variables of a module are unknown here.
        if let Err(PlannedError::Plans(errors)) = &mut result {
            errors.retain(|error| !matches!(*error.problem, PlanProblem::When(_)));
        }
        findings.extend(of(result));
    }
    findings
}

fn read(
    files: &Files,
    planning: &Planning<'_>,
    substitute: BTreeMap<String, String>,
) -> Result<Planned, PlannedError> {
    let below = files
        .iter()
        .filter(|file| is_below(&file.path, planning.directory));
    let below: Vec<File> = below.cloned().collect();
    let options = BuildOptions {
        plans: Plans::LeftOut,
        substitute,
    };
    Planned::read(&Files::new(below), planning, &options)
}

/// The problems of a plan. Errors of other files are reported for them.
fn of(result: Result<Planned, PlannedError>) -> Vec<Finding> {
    let Err(PlannedError::Plans(errors)) = result else {
        return Vec::new();
    };
    let finding = |error: plan::PlanError| Finding {
        code: Code::Plan,
        file: Arc::clone(&error.file),
        at: error.at,
        object: None,
        message: error.problem.to_string(),
    };
    errors.into_iter().map(finding).collect()
}
