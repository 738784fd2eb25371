//! A directory on disk, as the built-in sync would read a commit of it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use muster_sync::{
    build::{self, BuildOptions, Manifest, Plans},
    plan::{self, Plan, Planned, PlannedError, Planning},
    source::{self, DirectoryError, Limits, SourceError},
};

/// The errors of a directory.
#[derive(Debug)]
pub struct Wrong {
    /// One message per error, ordered by path; never empty.
    pub messages: Vec<String>,
    /// Whether the path of the directory is wrong, not its content.
    pub is_usage: bool,
}

/// The objects of a directory, ordered by path and position, with these variables.
pub fn manifests(directory: &Path, substitute: BTreeMap<String, String>) -> Result<Vec<Manifest>, Wrong> {
    let options = BuildOptions {
        substitute,
        plans: Plans::LeftOut,
    };
    match source::read_directory(directory, &Limits::default()) {
        Ok(files) => build::build(&files, &options).map_err(|errors| Wrong {
            messages: errors.iter().map(ToString::to_string).collect(),
            is_usage: false,
        }),
        Err(refused) => {
            let is_usage = refused.errors.iter().any(is_usage);
            let refusals = refused.errors.iter().map(ToString::to_string);
            // Report the other errors of the remaining files.
            let others = build::build(&refused.readable, &options).err();
            let others = others.iter().flatten().map(ToString::to_string);
            Err(Wrong {
                messages: refusals.chain(others).collect(),
                is_usage,
            })
        }
    }
}

/// A plan from the only plan file of a directory.
pub fn read_plan(path: &Path, substitute: BTreeMap<String, String>, name: &str) -> Result<Plan, Wrong> {
    let directory = path.display();
    let usage = |message| Wrong {
        messages: vec![message],
        is_usage: true,
    };
    let files = source::read_directory(path, &Limits::default()).map_err(|refused| Wrong {
        messages: refused.errors.iter().map(ToString::to_string).collect(),
        is_usage: refused.errors.iter().any(is_usage),
    })?;
    let plans: Vec<&str> = files
        .iter()
        .filter(|file| plan::is_plan_file(file))
        .map(|file| file.path.as_str())
        .collect();
    let [file] = plans[..] else {
        return Err(usage(match plans.len() {
            0 => format!("{directory} has no file of kind Plan"),
            _ => format!(
                "{directory} has {} files of kind Plan ({}): name the directory of one",
                plans.len(),
                plans.join(", ")
            ),
        }));
    };
    let root = path.display().to_string();
    let root = root.trim_end_matches('/');
    let planning = Planning {
        directory: root,
        file: file.strip_prefix(root).unwrap_or(file).trim_start_matches('/'),
        timeout: Duration::MAX,
        deadline: None,
    };
    let options = BuildOptions {
        substitute,
        ..BuildOptions::default()
    };
    let planned = Planned::read(&files, &planning, &options).map_err(|error| Wrong {
        messages: match error {
            PlannedError::Build(errors) => errors.iter().map(ToString::to_string).collect(),
            PlannedError::Plans(errors) => errors.iter().map(ToString::to_string).collect(),
            error @ PlannedError::NoFile { .. } => vec![error.to_string()],
        },
        is_usage: false,
    })?;
    planned.plan(name).ok_or_else(|| {
        let known: Vec<&str> = planned.plans().names().collect();
        usage(format!(
            "{file} has no plan {name:?}: it has {}",
            known.join(", ")
        ))
    })
}

fn is_usage(error: &DirectoryError) -> bool {
    match error {
        DirectoryError::Absent { .. } | DirectoryError::Source(SourceError::InvalidPath { .. }) => true,
        DirectoryError::Unreadable { .. } | DirectoryError::Source(_) => false,
    }
}
