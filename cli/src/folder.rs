//! A folder on disk, as the built-in sync would read a commit of it.

use std::collections::BTreeMap;

use muster_sync::{
    build::{self, BuildOptions, Manifest},
    source::{self, FolderError, Limits, SourceError},
};

use crate::args::FolderFlags;

/// What is wrong with a folder.
pub struct Wrong {
    /// One message for each error, in the order of the paths; never empty.
    pub messages: Vec<String>,
    /// Whether the folder was named wrongly, and not its content.
    pub is_usage: bool,
}

/// The objects of a folder, in the order of path and place. Variables of the command line win over `variables`.
pub fn manifests(flags: &FolderFlags, variables: BTreeMap<String, String>) -> Result<Vec<Manifest>, Wrong> {
    let given = flags.substitute.iter().cloned();
    let mut substitute = variables;
    substitute.extend(given.map(|variable| (variable.name, variable.value)));
    let options = BuildOptions { substitute };
    match source::read_folder(&flags.path, &Limits::default()) {
        Ok(files) => build::build(&files, &options).map_err(|errors| Wrong {
            messages: errors.iter().map(ToString::to_string).collect(),
            is_usage: false,
        }),
        Err(refused) => {
            let is_usage = refused.errors.iter().any(is_usage);
            let refusals = refused.errors.iter().map(ToString::to_string);
            // What else is wrong can be told of the rest.
            let others = build::build(&refused.readable, &options).err();
            let others = others.iter().flatten().map(ToString::to_string);
            Err(Wrong {
                messages: refusals.chain(others).collect(),
                is_usage,
            })
        }
    }
}

fn is_usage(error: &FolderError) -> bool {
    match error {
        FolderError::Absent { .. } | FolderError::Source(SourceError::InvalidPath { .. }) => true,
        FolderError::Unreadable { .. } | FolderError::Source(_) => false,
    }
}
