//! From files to the objects that would be applied, in order.
//!
//! ```text
//! files ──yaml──► documents ──List unrolled──► objects ──substitute──► values ──checks──► manifests, by path, then place
//! ```
//!
//! Invariant: all files are looked at, and a result is either complete or an error; nothing is ever built of the half that was
//! readable.

mod error;
mod manifest;
mod namespace;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::source::{File, Files};
use crate::substitute::{self, Variables};
use crate::yaml::{self, Document, Kind};

pub use self::error::{BuildError, BuildErrors, Duplicate};
pub use self::manifest::{Identity, Manifest, Origin};
pub use self::namespace::set_namespace;

/// How objects are made of files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// `postBuild.substitute` and what `substituteFrom` names, together; empty: nothing is substituted.
    pub substitute: BTreeMap<String, String>,
}

impl std::fmt::Debug for BuildOptions {
    /// Values may come from Secrets: names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildOptions")
            .field("substitute", &self.substitute.keys())
            .finish()
    }
}

/// The objects of the files. No files, or none with an object: an empty list, which is the caller's to judge.
pub fn build(files: &Files, options: &BuildOptions) -> Result<Vec<Manifest>, BuildErrors> {
    let variables = Variables::new(&options.substitute)
        .map_err(|problem| BuildErrors::from(BuildError::Variables(problem)))?;
    let mut manifests = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        match objects(file) {
            Err(error) => errors.push(error),
            Ok(objects) => {
                for object in objects {
                    match manifest(&object, &variables) {
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
fn objects(file: &File) -> Result<Vec<Document>, BuildError> {
    let mut objects = Vec::new();
    for document in yaml::documents(&file.path, &file.bytes)? {
        match items(&document)? {
            None => objects.push(document),
            Some(items) => objects.extend(items),
        }
    }
    Ok(objects)
}

/// The items of a `List`, of any kind that ends so.
fn items(document: &Document) -> Result<Option<Vec<Document>>, BuildError> {
    let root = &document.root;
    let is_list = root
        .get("kind")
        .and_then(|kind| kind.text())
        .is_some_and(|kind| kind.ends_with("List"));
    let Some(items) = root.get("items").filter(|_| is_list) else {
        return Ok(None);
    };
    match &items.kind {
        Kind::Sequence(items) => {
            let item = |root: &Arc<_>| Document {
                file: Arc::clone(&document.file),
                root: Arc::clone(root),
            };
            Ok(Some(items.iter().map(item).collect()))
        }
        Kind::Scalar(scalar) if scalar.plain && matches!(scalar.text.as_str(), "" | "~" | "null") => {
            Ok(Some(Vec::new()))
        }
        Kind::Scalar(_) | Kind::Mapping(_) => {
            let origin = Origin {
                file: Arc::clone(&document.file),
                at: items.at,
            };
            Err(BuildError::Field {
                origin,
                field: "items",
                why: "must be a list",
            })
        }
    }
}

fn manifest(object: &Document, variables: &Variables) -> Result<Manifest, BuildError> {
    let mut value = object.value()?;
    if !variables.is_empty() && !is_kept(&value) {
        value = substitute::document(object, variables)?.value()?;
    }
    Manifest::new(
        value,
        Origin {
            file: Arc::clone(&object.file),
            at: object.root.at,
        },
    )
}

/// Whether an object asks to be left as it is written.
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
