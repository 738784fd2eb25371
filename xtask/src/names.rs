//! Names that people search: which functions, types and files the product code declares, and what they must not be
//! called.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use syn::{
    Field, ImplItemFn, Item, ItemEnum, ItemFn, ItemStruct, ItemTrait, ItemType, PatIdent, Signature,
    TraitItemFn, Visibility,
    visit::{self, Visit},
};

use crate::{Problems, imports, tree};

/// Words that are not part of a name, alone or between underscores. They say nothing to readers who come from the
/// field.
const PRIVATE: &[&str] = &[
    "anew",
    "anybody",
    "everybody",
    "folder",
    "folders",
    "heard",
    "look",
    "looked",
    "looks",
    "mend",
    "mended",
    "nobody",
    "outlook",
    "played",
    "said",
    "seen",
    "sight",
    "somebody",
    "stands",
    "tell",
    "tells",
    "told",
    "unseen",
    "whoever",
    "wish",
    "wished",
];

/// Names of free functions that several modules of one crate may share, and what each means wherever it is. Any other
/// name is unique in its crate, so that a search finds one function.
const SHARED: &[(&str, &str)] = &[
    ("act", "applies a plan: the I/O of a reconciler"),
    ("arguments", "the flags of a Deployment"),
    (
        "changed_stories",
        "the statuses of revisions that must be written",
    ),
    ("check", "finds problems, one entry each"),
    (
        "conclude",
        "writes the status of a reconcile and returns when the next one is due",
    ),
    ("decide", "a pure decision: from what was observed to a plan"),
    ("engine_spec", "the settings of a module in the engine's form"),
    ("fill", "fills in defaults"),
    ("idle_status", "the status while nothing can be decided"),
    ("judge", "findings about one kind of object"),
    ("next_step", "the next step for a module"),
    ("objects", "the objects that an installation applies"),
    ("observe", "gathers the input of a decision"),
    ("page", "renders a page of the dashboard"),
    ("problems", "validation errors of one kind of object"),
    ("read", "reads what the module is named after"),
    ("recorded_verdicts", "the verdicts on record, for a lost memory"),
    ("reconcile", "one pass over one object"),
    ("rolling_status", "the status of a module that rolls out"),
    (
        "run",
        "runs the command, controller or task that the module is named after",
    ),
    ("start", "starts the processes of one system"),
    ("surplus_revisions", "the revisions to delete"),
    ("write", "writes what the module is named after"),
];

/// How many of the most frequent names are printed.
const MOST_FREQUENT: usize = 20;

/// What the product code of a crate declares.
#[derive(Default)]
struct Declared {
    /// The file and line of each function, by name.
    functions: BTreeMap<String, Vec<String>>,
    /// Of these the free functions that other files can call.
    visible: BTreeMap<String, Vec<String>>,
    /// Types, modules, fields and variables.
    others: Vec<(String, String)>,
}

/// Visits one file.
struct File<'a> {
    path: &'a str,
    declared: &'a mut Declared,
}

impl File<'_> {
    fn position(&self, name: &syn::Ident) -> String {
        format!("{}:{}", self.path, name.span().start().line)
    }

    fn function(&mut self, signature: &Signature) {
        let position = self.position(&signature.ident);
        let name = signature.ident.to_string();
        self.declared.functions.entry(name).or_default().push(position);
    }

    fn other(&mut self, name: &syn::Ident) {
        let position = self.position(name);
        self.declared.others.push((name.to_string(), position));
    }
}

impl<'ast> Visit<'ast> for File<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Mod(module) = item {
            if imports::is_test_only(&module.attrs) {
                return;
            }
            self.other(&module.ident);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig);
        if !matches!(function.vis, Visibility::Inherited) {
            let position = self.position(&function.sig.ident);
            let name = function.sig.ident.to_string();
            self.declared.visible.entry(name).or_default().push(position);
        }
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.sig);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.function(&function.sig);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.other(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.other(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.other(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.other(&item.ident);
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if let Some(name) = &field.ident {
            self.other(name);
        }
        visit::visit_field(self, field);
    }

    fn visit_pat_ident(&mut self, binding: &'ast PatIdent) {
        self.other(&binding.ident);
        visit::visit_pat_ident(self, binding);
    }
}

/// What the product code declares, by crate: the directory above `src`.
fn read() -> anyhow::Result<BTreeMap<String, Declared>> {
    let mut crates: BTreeMap<String, Declared> = BTreeMap::new();
    for path in tree::files()? {
        let is_product =
            tree::is_of(&path, "rs") && !path.split('/').any(|part| part == "tests" || part == "tests.rs");
        let Some((directory, _)) = path.split_once("/src/").filter(|_| is_product) else {
            continue;
        };
        let parsed = syn::parse_file(&tree::read(&path)?).with_context(|| path.clone())?;
        let declared = crates.entry(directory.to_owned()).or_default();
        File {
            path: &path,
            declared,
        }
        .visit_file(&parsed);
    }
    Ok(crates)
}

/// Private words in names, and free functions of one name in one crate.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub fn check() -> anyhow::Result<Problems> {
    Ok(problems(&read()?))
}

/// What [`check`] finds, and the most frequent function names with how many functions have each.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub fn report() -> anyhow::Result<(Problems, Vec<(usize, String)>)> {
    let crates = read()?;
    Ok((problems(&crates), most_frequent(&crates)))
}

fn problems(crates: &BTreeMap<String, Declared>) -> Problems {
    let mut problems = Problems::new();
    let mut shared = BTreeSet::new();
    for (directory, declared) in crates {
        problems.extend(private(declared));
        for (name, positions) in &declared.visible {
            if positions.len() < 2 {
                continue;
            }
            if SHARED.iter().any(|(known, _)| known == name) {
                shared.insert(name.clone());
            } else {
                problems.push(format!(
                    "{directory}: {} functions are called {name}: say in the name what each does: {}",
                    positions.len(),
                    positions.join(", ")
                ));
            }
        }
    }
    let unused = SHARED.iter().filter(|(name, _)| !shared.contains(*name));
    problems.extend(unused.map(|(name, _)| {
        format!(
            "xtask/src/names.rs: no two functions of one crate are called {name}: remove it from the list"
        )
    }));
    problems
}

fn private(declared: &Declared) -> Problems {
    let functions = declared
        .functions
        .iter()
        .flat_map(|(name, positions)| positions.iter().map(move |position| (name, position)));
    functions
        .chain(declared.others.iter().map(|(name, position)| (name, position)))
        .filter_map(|(name, position)| {
            let word = words(name)
                .into_iter()
                .find(|word| PRIVATE.contains(&word.as_str()))?;
            Some(format!("{position}: {name}: \"{word}\" is a private word"))
        })
        .collect()
}

/// The words of `snake_case` and of `CamelCase`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The most frequent first.
fn most_frequent(crates: &BTreeMap<String, Declared>) -> Vec<(usize, String)> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for declared in crates.values() {
        for (name, positions) in &declared.functions {
            *counts.entry(name).or_default() += positions.len();
        }
    }
    let mut names: Vec<_> = counts
        .into_iter()
        .map(|(name, count)| (count, name.clone()))
        .collect();
    names.sort_by(|one, other| other.cmp(one));
    names.truncate(MOST_FREQUENT);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(source: &str) -> Declared {
        let mut declared = Declared::default();
        File {
            path: "a/src/lib.rs",
            declared: &mut declared,
        }
        .visit_file(&syn::parse_file(source).unwrap());
        declared
    }

    #[test]
    fn a_private_word_is_found_in_any_name_but_not_in_tests() {
        let source = "struct RowSeen { wish: u8 }\nimpl RowSeen { fn is_told(&self) {} fn untold() { let said = 1; } }\n\
                      #[cfg(test)]\nmod tests { fn look() { let seen = 1; } }\nmod sight;";
        let problems = private(&declared(source));
        let names: Vec<&str> = problems
            .iter()
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        assert_eq!(
            names,
            ["is_told", "RowSeen", "wish", "said", "sight"],
            "{problems:?}"
        );
        assert!(problems[0].starts_with("a/src/lib.rs:2: "), "{problems:?}");
    }

    #[test]
    fn methods_and_private_functions_may_share_a_name() {
        let source = "pub(crate) fn read() {}\nfn write() {}\nstruct A;\nimpl A { pub fn read() {} }";
        let declared = declared(source);
        assert_eq!(declared.visible.keys().collect::<Vec<_>>(), ["read"]);
        assert_eq!(declared.functions["read"].len(), 2);
    }
}
