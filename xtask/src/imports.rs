//! Which file of a crate imports which. The module tree is parsed with syn; a name is followed through re-exports to
//! the file that declares it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Expr, Item, ItemMod, ItemUse, Lit, Macro, Meta, UseTree, Visibility,
    visit::{self, Visit},
};

/// The segments of a path.
type Names = Vec<String>;

/// Maximum length of a chain of re-exports; no chain in the repository is nearly as long.
const REEXPORTS: usize = 16;

#[derive(Default)]
struct Module {
    /// Relative to `src`, without `.rs`.
    file: String,
    children: BTreeSet<String>,
    /// The paths that `use` imports, by local name.
    aliases: BTreeMap<String, Names>,
    globs: Vec<Names>,
    declares: BTreeSet<String>,
    /// Every path in the product code of the module. A `pub use` does not count as a use: its users are followed to its
    /// target.
    paths: BTreeSet<Names>,
}

/// The modules of a crate, without its tests.
pub struct Imports {
    modules: BTreeMap<Names, Module>,
}

/// Files or directories in one directory that import each other in a cycle.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    /// Relative to `src`; empty for `src` itself.
    pub directory: String,
    /// Names of the files and directories.
    pub members: BTreeSet<String>,
    /// One line for each import between two members: `one.rs imports other.rs`.
    pub imports: Vec<String>,
}

impl Imports {
    /// Parses a crate.
    ///
    /// # Errors
    /// A file that cannot be read, or that is not Rust.
    pub fn read(source: &Path) -> anyhow::Result<Self> {
        let root = ["lib.rs", "main.rs"]
            .iter()
            .map(|name| source.join(name))
            .find(|path| path.is_file())
            .with_context(|| format!("{}: neither lib.rs nor main.rs", source.display()))?;
        let mut imports = Self {
            modules: BTreeMap::new(),
        };
        imports.file(source, &root, source, &Names::new())?;
        Ok(imports)
    }

    fn file(&mut self, source: &Path, path: &Path, directory: &Path, name: &[String]) -> anyhow::Result<()> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let file = path
            .strip_prefix(source)
            .unwrap_or(path)
            .with_extension("")
            .display()
            .to_string();
        self.items(source, &parsed.items, directory, &file, name)
    }

    fn items(
        &mut self,
        source: &Path,
        items: &[Item],
        directory: &Path,
        file: &str,
        name: &[String],
    ) -> anyhow::Result<()> {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        let mut below = Vec::new();
        for item in items {
            match item {
                Item::Mod(child) if is_test_only(&child.attrs) => {}
                Item::Mod(child) => {
                    module.children.insert(child.ident.to_string());
                    below.push(child);
                }
                _ => Uses(&mut module).visit_item(item),
            }
        }
        self.modules.insert(name.to_vec(), module);
        for child in below {
            let mut path = name.to_vec();
            path.push(child.ident.to_string());
            self.child(source, child, directory, file, &path)?;
        }
        Ok(())
    }

    fn child(
        &mut self,
        source: &Path,
        child: &ItemMod,
        directory: &Path,
        file: &str,
        name: &[String],
    ) -> anyhow::Result<()> {
        let ident = child.ident.to_string();
        let inner = directory.join(&ident);
        if let Some((_, items)) = &child.content {
            return self.items(source, items, &inner, file, name);
        }
        if let Some(path) = elsewhere(&child.attrs) {
            let path = source.join(file).with_extension("rs").with_file_name(path);
            let directory = path.parent().unwrap_or(source).to_owned();
            return self.file(source, &path, &directory, name);
        }
        let alone = directory.join(format!("{ident}.rs"));
        let path: PathBuf = if alone.is_file() {
            alone
        } else {
            inner.join("mod.rs")
        };
        self.file(source, &path, &inner, name)
    }

    /// The file that declares the target of a path in a module; `None` if it belongs to another crate or is local.
    fn target(&self, module: &[String], path: &[String], depth: usize) -> Option<&str> {
        let mut at = module.to_vec();
        let mut rest = path.iter().peekable();
        match rest.peek()?.as_str() {
            "crate" => {
                rest.next();
                at.clear();
            }
            "self" => {
                rest.next();
            }
            "super" => {}
            first => {
                let here = self.modules.get(module)?;
                if !here.children.contains(first) && !here.aliases.contains_key(first) {
                    return None;
                }
            }
        }
        while let Some(segment) = rest.next() {
            let module = self.modules.get(&at)?;
            if segment == "super" {
                at.pop()?;
            } else if module.children.contains(segment) {
                at.push(segment.clone());
            } else if module.declares.contains(segment) || depth == REEXPORTS {
                break;
            } else if let Some(alias) = module.aliases.get(segment) {
                let whole: Names = alias.iter().chain(rest).cloned().collect();
                return self.target(&at, &whole, depth + 1);
            } else {
                let through = module
                    .globs
                    .iter()
                    .find_map(|glob| self.through(&at, glob, segment, depth));
                return Some(through.unwrap_or(&module.file));
            }
        }
        self.modules.get(&at).map(|module| module.file.as_str())
    }

    /// The file that declares a name that `use glob::*` imports.
    fn through(&self, module: &[String], glob: &[String], name: &String, depth: usize) -> Option<&str> {
        let whole: Names = glob.iter().chain([name]).cloned().collect();
        let target = self.target(module, &whole, depth + 1)?;
        self.modules
            .values()
            .any(|module| module.file == target && module.declares.contains(name))
            .then_some(target)
    }

    /// The imports, as pairs from file to file.
    fn edges(&self) -> BTreeSet<(&str, &str)> {
        let mut edges = BTreeSet::new();
        for (name, module) in &self.modules {
            for path in &module.paths {
                if let Some(target) = self.target(name, path, 0)
                    && target != module.file
                {
                    edges.insert((module.file.as_str(), target));
                }
            }
        }
        edges
    }

    /// The files and directories in each directory that import each other in a cycle. `mod.rs`, `lib.rs` and `main.rs`,
    /// and a file next to the directory of the same name, are parents: they may import their children, and their
    /// children may import them.
    pub fn circles(&self) -> Vec<Circle> {
        type Between<'a> = BTreeMap<(&'a str, &'a str), Vec<String>>;
        let mut directories: BTreeMap<String, Between<'_>> = BTreeMap::new();
        for (from, to) in self.edges() {
            let common = from
                .split('/')
                .zip(to.split('/'))
                .take_while(|(one, other)| one == other)
                .count();
            let (Some(one), Some(other)) = (from.split('/').nth(common), to.split('/').nth(common)) else {
                continue;
            };
            if is_parent(one) || is_parent(other) {
                continue;
            }
            let directory: Vec<&str> = from.split('/').take(common).collect();
            directories
                .entry(directory.join("/"))
                .or_default()
                .entry((one, other))
                .or_default()
                .push(format!("{from}.rs imports {to}.rs"));
        }
        let mut circles = Vec::new();
        for (directory, between) in directories {
            for members in circular(between.keys().copied()) {
                let inside = |(one, other): &(&str, &str)| members.contains(one) && members.contains(other);
                circles.push(Circle {
                    directory: directory.clone(),
                    imports: between
                        .iter()
                        .filter(|(pair, _)| inside(pair))
                        .flat_map(|(_, imports)| imports.clone())
                        .collect(),
                    members: members.into_iter().map(str::to_owned).collect(),
                });
            }
        }
        circles
    }
}

fn is_parent(name: &str) -> bool {
    ["mod", "lib", "main"].contains(&name)
}

/// Strongly connected sets of two or more.
fn circular<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<BTreeSet<&'a str>> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in pairs {
        uses.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses
        .keys()
        .map(|from| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![*from]);
            while let Some(at) = open.pop() {
                let next = uses.get(at).into_iter().flatten().copied();
                open.extend(next.filter(|next| reached.insert(*next)));
            }
            (*from, reached)
        })
        .collect();
    reached
        .iter()
        .map(|(from, to)| {
            to.iter()
                .copied()
                .filter(|other| reached.get(other).is_some_and(|back| back.contains(from)))
                .collect::<BTreeSet<_>>()
        })
        .filter(|circle| circle.len() > 1)
        .collect()
}

pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                list.tokens
                    .clone()
                    .into_iter()
                    .any(|token| matches!(token, TokenTree::Ident(ident) if ident == "test"))
            })
    })
}

/// The file of `#[path = "…"]`.
fn elsewhere(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

/// Collects what a module declares and uses.
struct Uses<'a>(&'a mut Module);

impl Uses<'_> {
    fn tree(&mut self, tree: &UseTree, before: &Names, public: bool) {
        let mut path = before.clone();
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.tree(&tree.tree, &path, public);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, before, public);
                }
            }
            UseTree::Glob(_) => {
                self.0.globs.push(path.clone());
                self.used(path, public);
            }
            UseTree::Name(name) if name.ident == "self" => {
                let alias = path.last().cloned().unwrap_or_default();
                self.alias(alias, path, public);
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.alias(name.ident.to_string(), path, public);
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                self.alias(rename.rename.to_string(), path, public);
            }
        }
    }

    fn alias(&mut self, name: String, path: Names, public: bool) {
        self.used(path.clone(), public);
        self.0.aliases.insert(name, path);
    }

    fn used(&mut self, path: Names, public: bool) {
        if !public {
            self.0.paths.insert(path);
        }
    }

    /// Paths in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Names::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 => path.push(ident.to_string()),
                other => {
                    self.0.paths.insert(std::mem::take(&mut path));
                    match other {
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
        self.0.paths.insert(path);
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_test_only(attributes) {
            return;
        }
        self.0.declares.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let public = !matches!(item.vis, Visibility::Inherited);
        self.tree(&item.tree, &Names::new(), public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let names = segments.map(|segment| segment.ident.to_string()).collect();
        self.0.paths.insert(names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of these files.
    fn crate_of(files: &[(&str, &str)]) -> Vec<Circle> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Imports::read(directory.path()).unwrap().circles()
    }

    fn named(circles: &[Circle]) -> Vec<(&str, Vec<&str>)> {
        circles
            .iter()
            .map(|circle| {
                let members = circle.members.iter().map(String::as_str).collect();
                (circle.directory.as_str(), members)
            })
            .collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod one; mod other; mod third;");

    #[test]
    fn layers_have_no_circle() {
        let circles = crate_of(&[
            ROOT,
            ("one.rs", "use crate::other::Thing; use super::third;"),
            ("other.rs", "pub struct Thing; use crate::third::f;"),
            ("third.rs", "pub fn f() {}"),
        ]);
        assert_eq!(named(&circles), []);
    }

    #[test]
    fn imports_are_found_in_uses_paths_and_macros() {
        for import in [
            "use super::other::Thing;",
            "fn f(_: super::other::Thing) {}",
            "use super::other; fn f() { other::make(); }",
            "fn f() { assert_eq!(1, super::other::make()); }",
            "mod inner { fn f() { super::super::other::make(); } }",
        ] {
            let circles = crate_of(&[
                ROOT,
                ("one.rs", import),
                ("other.rs", "pub struct Thing; pub fn make() {} use crate::one;"),
                ("third.rs", "use crate::{one, other};"),
            ]);
            assert_eq!(named(&circles), [("", vec!["one", "other"])], "{import}");
            let [circle] = circles.as_slice() else {
                unreachable!()
            };
            assert!(
                circle.imports.contains(&"one.rs imports other.rs".to_owned()),
                "{import}: {circle:?}"
            );
        }
    }

    #[test]
    fn a_reexport_is_followed_to_the_file_that_declares_the_name() {
        for reexport in ["pub use other::Thing;", "pub use other::*;"] {
            let circles = crate_of(&[
                ("lib.rs", &format!("mod one; mod other; {reexport}")),
                ("one.rs", "use crate::Thing; pub struct One;"),
                ("other.rs", "pub struct Thing(crate::one::One);"),
            ]);
            assert_eq!(named(&circles), [("", vec!["one", "other"])], "{reexport}");
        }
    }

    #[test]
    fn a_parent_and_its_child_are_no_circle_and_tests_do_not_count() {
        let circles = crate_of(&[
            ("lib.rs", "mod one; mod other;"),
            (
                "one/mod.rs",
                "mod child; use child::Child; pub struct One(Child);",
            ),
            ("one/child.rs", "pub struct Child; use super::One;"),
            (
                "other.rs",
                "use crate::one::One; #[cfg(test)] mod tests { fn f() {} }",
            ),
        ]);
        assert_eq!(named(&circles), []);
        let circles = crate_of(&[
            ROOT,
            ("one.rs", "#[cfg(test)] mod tests { use crate::other; }"),
            ("other.rs", "use crate::one;"),
            ("third.rs", ""),
        ]);
        assert_eq!(named(&circles), []);
    }

    #[test]
    fn directories_are_rooms() {
        let circles = crate_of(&[
            ("lib.rs", "mod one; mod other;"),
            ("one/mod.rs", "mod a; mod b;"),
            ("one/a.rs", "use crate::other::c::C;"),
            ("one/b.rs", "pub struct B;"),
            ("other/mod.rs", "mod c;"),
            ("other/c.rs", "pub struct C(crate::one::b::B);"),
        ]);
        assert_eq!(named(&circles), [("", vec!["one", "other"])]);
    }
}
