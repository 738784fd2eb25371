//! From files to the objects that would be applied, in order.
//!
//! ```text
//! files ──yaml──► documents ──List unrolled──► objects ──substitute──► values ──checks──► manifests, by path, then place
//! ```
//!
//! Invariant: all files are read, and a result is either complete or an error; a partial build never happens.

mod error;
mod list;
mod manifest;
pub mod names;
mod namespace;
mod origin;
pub mod plans;
pub mod print;

use std::collections::BTreeMap;

use serde_json::Value;

use self::list::Item;
use crate::source::{File, Files};
use crate::substitute::{self, Variables};
use crate::yaml;

pub use self::error::{BuildError, BuildErrors, Duplicate};
pub use self::manifest::Manifest;
pub use self::names::NameProblem;
pub use self::namespace::set_namespace;
pub use self::origin::{Identity, Origin};
pub(crate) use self::plans::is_plan_document;
pub use self::plans::{Plans, is_plan};

/// How objects are built from files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The variables of `postBuild.substitute` and `substituteFrom`, merged; if empty, nothing is substituted.
    pub substitute: BTreeMap<String, String>,
    /// How to handle documents of kind Plan.
    pub plans: Plans,
}

impl std::fmt::Debug for BuildOptions {
    /// Only names: values may come from Secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildOptions")
            .field("substitute", &self.substitute.keys())
            .field("plans", &self.plans)
            .finish()
    }
}

/// The objects of the files. If there are no files, or none has an object, the list is empty; the caller decides what
/// that means.
pub fn build(files: &Files, options: &BuildOptions) -> Result<Vec<Manifest>, BuildErrors> {
    let variables = Variables::new(&options.substitute)
        .map_err(|problem| BuildErrors::from(BuildError::Variables(problem)))?;
    let mut manifests = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        match items(file) {
            Err(error) => errors.push(error),
            Ok(items) => {
                for item in items {
                    match manifest(&item, &variables) {
                        Err(_) if options.plans == Plans::LeftOut && is_plan_document(&item.document) => {}
                        Ok(manifest) => manifests.push(manifest),
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
    }
    errors.extend(duplicates(&manifests));
    BuildErrors::unless_empty(errors).map(|()| manifests)
}

/// The documents of a file, lists unrolled.
fn items(file: &File) -> Result<Vec<Item>, BuildError> {
    list::unrolled(yaml::documents(&file.path, &file.bytes)?)
}

fn manifest(item: &Item, variables: &Variables) -> Result<Manifest, BuildError> {
    let document = &item.document;
    let mut value = document.value()?;
    if !variables.is_empty() && !is_kept(&value) {
        value = substitute::document(document, variables)?.value()?;
    }
    item.complete(&mut value);
    Manifest::new(value, document)
}

/// Whether an object disables substitution.
fn is_kept(object: &Value) -> bool {
    ["annotations", "labels"]
        .iter()
        .any(|where_| object["metadata"][where_][substitute::CONTROL] == substitute::DISABLED)
}

/// Each object that has the identity of an earlier one.
fn duplicates(manifests: &[Manifest]) -> Vec<BuildError> {
    let mut first: BTreeMap<Identity, &Origin> = BTreeMap::new();
    let mut errors = Vec::new();
    for manifest in manifests {
        let identity = manifest.identity();
        match first.get(&identity) {
            None => {
                first.insert(identity, &manifest.origin);
            }
            Some(earlier) => {
                let (first, second) = ((*earlier).clone(), manifest.origin.clone());
                errors.push(BuildError::Duplicate(Box::new(Duplicate {
                    identity,
                    first,
                    second,
                })));
            }
        }
    }
    errors
}
