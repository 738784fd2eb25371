//! Checks modules and clusters together: duplicates, missing or cyclic dependencies, and empty selections.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use muster_api::{
    Amount,
    module::{Dependency, ModuleKind},
    node::{module::NodeModuleSpec, overlap::overlap},
    rollout::{Rollout, Strategy},
    selector::Matcher,
    sync::Package,
};
use muster_health::table;
use muster_sync::yaml::Document;

use super::{
    finding::{Code, Finding},
    object::{Defined, Identity, Object, ValidModule},
};

/// All fleet objects of the files.
#[derive(Default)]
pub(crate) struct Fleet {
    modules: Vec<(Document, ValidModule)>,
    node_modules: Vec<(Document, Identity, Box<NodeModuleSpec>)>,
    clusters: Vec<(Identity, BTreeMap<String, String>)>,
    /// The first position of each identity.
    first: BTreeMap<Identity, String>,
    twice: Vec<Finding>,
    /// The first object of each custom kind, by group and kind.
    custom: BTreeMap<(String, String), (Document, Identity)>,
    /// Kinds in the health table, with the files of their objects.
    in_table: BTreeSet<((String, String), Arc<str>)>,
    /// Kinds with a definition in the files; whether their status has observedGeneration.
    defined: BTreeMap<(String, String), bool>,
}

/// The first field of a NodeModule that names a path.
fn field_of(spec: &NodeModuleSpec, path: &str) -> String {
    for (part, of) in spec.content.parts.iter().enumerate() {
        if let Some(file) = of.files.iter().position(|file| file.path == path) {
            return format!("spec.parts[{part}].files[{file}].path");
        }
    }
    "spec.parts".to_owned()
}

impl Fleet {
    /// Adds a document.
    pub(crate) fn take(&mut self, document: Document, object: Object) {
        match object {
            Object::None => {}
            Object::Custom(group, identity) => {
                let kind = (group, identity.kind.clone());
                if is_in_table(&kind) {
                    self.in_table.insert((kind.clone(), Arc::clone(&document.file)));
                }
                self.custom.entry(kind).or_insert((document, identity));
            }
            Object::Definition(Defined {
                group,
                kind,
                observes,
            }) => {
                self.defined.insert((group, kind), observes);
            }
            Object::Other(identity) => self.check_duplicate(&document, &identity),
            Object::Cluster(identity, labels) => {
                self.check_duplicate(&document, &identity);
                self.clusters.push((identity, labels));
            }
            Object::NodeModule(identity, spec) => {
                self.check_duplicate(&document, &identity);
                self.node_modules.push((document, identity, spec));
            }
            Object::Module(written) => {
                self.check_duplicate(&document, &written.identity);
                self.modules.push((document, *written));
            }
        }
    }

    fn check_duplicate(&mut self, document: &Document, identity: &Identity) {
        let here = format!("{}:{}", document.file, document.root.at);
        match self.first.get(identity) {
            None => {
                self.first.insert(identity.clone(), here);
            }
            Some(first) => {
                let address = identity.address();
                let message = format!("{address} is already written at {first}");
                self.twice.push(Finding::about(
                    Code::Twice,
                    document,
                    &address,
                    "metadata.name",
                    message,
                ));
            }
        }
    }

    /// The modules.
    pub(crate) fn modules(&self) -> &[(Document, ValidModule)] {
        &self.modules
    }

    /// The findings about all modules together.
    pub(crate) fn check_together(self) -> Vec<Finding> {
        let mut findings = self.dependencies();
        for (document, module) in &self.modules {
            findings.extend(self.selection(document, module));
            findings.extend(all_at_once(document, module));
            findings.extend(self.without_table(document, module));
        }
        findings.extend(self.shared());
        findings.extend(self.path_conflicts());
        findings.extend(self.without_evidence());
        findings.extend(self.twice);
        findings
    }

    /// Paths that two NodeModules write on nodes that both may select; reported for the second one.
    fn path_conflicts(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (at, (document, identity, spec)) in self.node_modules.iter().enumerate() {
            let before = self.node_modules.iter().take(at);
            let others = before.filter(|(_, other, _)| other.name != identity.name);
            for (_, other, theirs) in others {
                let Some((path, their)) = overlap(spec, theirs) else {
                    continue;
                };
                let address = identity.address();
                let message = format!(
                    "{address} writes {path}, and {} writes {their} on nodes that both may select",
                    other.address()
                );
                let field = field_of(spec, path);
                findings.push(Finding::about(
                    Code::PathConflict,
                    document,
                    &address,
                    &field,
                    message,
                ));
            }
        }
        findings
    }

    /// Custom kinds whose objects may count as healthy without evidence.
    fn without_evidence(&self) -> Vec<Finding> {
        let unproven = self.custom.iter().filter_map(|(kind, (document, identity))| {
            let (group, name) = kind;
            let message = match self.defined.get(kind) {
                Some(true) => return None,
                Some(false) => format!(
                    "the definition of {name}.{group} has no observedGeneration: its objects count as healthy without evidence"
                ),
                None => format!(
                    "{name}.{group} is defined elsewhere: unless its controller reports observedGeneration, its objects count as healthy without evidence"
                ),
            };
            let address = identity.address();
            Some(Finding::about(Code::NoEvidence, document, &address, "kind", message))
        });
        unproven.collect()
    }

    /// A module with kinds of the health table that neither enables the table nor has expressions for them.
    fn without_table(&self, document: &Document, module: &ValidModule) -> Option<Finding> {
        let Package {
            path,
            health_table: None,
            health_expressions,
            ..
        } = &module.spec.sync.package
        else {
            return None;
        };
        let has_expressions = |(group, kind): &(String, String)| {
            health_expressions
                .iter()
                .any(|of| of.group_kind() == (group, kind))
        };
        let kinds: BTreeSet<String> = self
            .in_table
            .iter()
            .filter(|(kind, file)| is_below(file, path) && !has_expressions(kind))
            .map(|((group, kind), _)| format!("{kind}.{group}"))
            .collect();
        let kinds: Vec<String> = kinds.into_iter().collect();
        let address = module.identity.address();
        let message = format!(
            "{address} has {}: kstatus misreads its status, and the health table covers it",
            kinds.join(", ")
        );
        let field = "spec.sync.package";
        (!kinds.is_empty()).then(|| Finding::about(Code::HealthTable, document, &address, field, message))
    }

    /// Modules that apply the same objects to the same clusters: one package of one repository, or a part of it.
    fn shared(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (place, (document, module)) in self.modules.iter().enumerate() {
            let before = self.modules.iter().take(place).map(|(_, before)| before);
            let mut alike =
                before.filter(|before| bring_the_same(before, module) && self.meet(before, module));
            let Some(other) = alike.next() else { continue };
            let (address, other) = (module.identity.address(), other.identity.address());
            let message = format!("{address} and {other} apply the same objects to the same clusters");
            findings.push(Finding::about(
                Code::SharedObjects,
                document,
                &address,
                "spec.sync.package.path",
                message,
            ));
        }
        findings
    }

    /// Whether two modules select a common cluster of these files; if there are no clusters, whether their selectors
    /// are equal.
    fn meet(&self, one: &ValidModule, other: &ValidModule) -> bool {
        // Selectors are valid here: others were refused before.
        let matcher = |module: &ValidModule| Matcher::new(module.spec.selector.as_ref()).ok();
        let (Some(first), Some(second)) = (matcher(one), matcher(other)) else {
            return false;
        };
        if self.clusters.is_empty() {
            return one.spec.selector == other.spec.selector && !first.selects_none();
        }
        let both = |labels: &BTreeMap<String, String>| first.matches(labels) && second.matches(labels);
        self.clusters.iter().any(|(_, labels)| both(labels))
    }

    fn dependencies(&self) -> Vec<Finding> {
        let nodes: BTreeMap<Node<'_>, &(Document, ValidModule)> = self
            .modules
            .iter()
            .map(|module| (Node::of(&module.1), module))
            .collect();
        let mut findings = Vec::new();
        for (document, module) in &self.modules {
            let address = module.identity.address();
            for (place, dependency) in module.spec.depends_on.iter().enumerate() {
                if !nodes.contains_key(&Node::at(module, dependency)) {
                    let Dependency { kind, name } = dependency;
                    let kind = kind.as_str().to_lowercase();
                    let message = format!("{address} depends on {kind}/{name}, which is not in these files");
                    let field = format!("spec.dependsOn[{place}].name");
                    findings.push(Finding::about(
                        Code::MissingDependency,
                        document,
                        &address,
                        &field,
                        message,
                    ));
                }
            }
            if let Some(way) = round(&nodes, Node::of(module)) {
                let names: Vec<&str> = way.iter().map(|node| node.name).collect();
                let message = format!(
                    "dependency cycle: {} → {}: none of them would ever be assigned",
                    names.join(" → "),
                    module.identity.name
                );
                findings.push(Finding::about(
                    Code::Cycle,
                    document,
                    &address,
                    "spec.dependsOn",
                    message,
                ));
            }
        }
        findings
    }

    /// Only if the files have Clusters: otherwise it is unknown.
    fn selection(&self, document: &Document, module: &ValidModule) -> Vec<Finding> {
        let address = module.identity.address();
        let same = |identity: &&(Identity, BTreeMap<String, String>)| {
            let (there, here) = (&identity.0.namespace, &module.identity.namespace);
            there == here || there.is_empty() || here.is_empty()
        };
        let clusters: Vec<&BTreeMap<String, String>> = self
            .clusters
            .iter()
            .filter(same)
            .map(|(_, labels)| labels)
            .collect();
        // Selectors are valid here: others were refused before.
        let matcher = |selector| Matcher::new(selector).ok();
        let Some(selector) = matcher(module.spec.selector.as_ref()).filter(|_| !clusters.is_empty()) else {
            return Vec::new();
        };
        let selected: Vec<_> = clusters
            .into_iter()
            .filter(|labels| selector.matches(labels))
            .collect();
        if selected.is_empty() {
            let message = format!(
                "{address} selects none of the {} Clusters in these files{}",
                self.clusters.len(),
                if selector.selects_none() {
                    ": it has no selector"
                } else {
                    ""
                }
            );
            return vec![Finding::about(
                Code::SelectsNothing,
                document,
                &address,
                "spec.selector",
                message,
            )];
        }
        let mut left: BTreeSet<usize> = (0..selected.len()).collect();
        let mut findings = Vec::new();
        for (place, stage) in module.spec.rollout.stages.iter().enumerate() {
            let Some(matcher) = matcher(Some(&stage.selector)) else {
                continue;
            };
            let mine: Vec<usize> = left
                .iter()
                .copied()
                .filter(|index| matcher.matches(selected[*index]))
                .collect();
            if mine.is_empty() {
                let message = format!("stage {} of {address} has no cluster in these files", stage.name);
                let field = format!("spec.rollout.stages[{place}].selector");
                findings.push(Finding::about(
                    Code::EmptyStage,
                    document,
                    &address,
                    &field,
                    message,
                ));
            }
            for index in mine {
                left.remove(&index);
            }
        }
        findings
    }
}

/// Whether two modules have common objects, by their sources.
fn bring_the_same(one: &ValidModule, other: &ValidModule) -> bool {
    let (one_source, other_source) = (one.spec.sync.source.url(), other.spec.sync.source.url());
    let (first, second) = (&one.spec.sync.package, &other.spec.sync.package);
    let same_place = one.identity.namespace == other.identity.namespace
        && one.identity != other.identity
        && one_source.trim_end_matches(".git") == other_source.trim_end_matches(".git");
    // Other variables or another namespace give objects other names.
    let alike =
        (&first.target_namespace, &first.substitute) == (&second.target_namespace, &second.substitute);
    same_place && alike && (is_below(&first.path, &second.path) || is_below(&second.path, &first.path))
}

/// Whether a directory or file is that directory, or is in it.
pub(crate) fn is_below(directory: &str, other: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.map(str::to_owned).collect()
    };
    parts(directory).starts_with(&parts(other))
}

/// A module by kind, namespace and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node<'a> {
    kind: ModuleKind,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Node<'a> {
    fn of(module: &'a ValidModule) -> Self {
        Self {
            kind: module.kind,
            namespace: &module.identity.namespace,
            name: &module.identity.name,
        }
    }

    fn at(module: &'a ValidModule, dependency: &'a Dependency) -> Self {
        Self {
            kind: dependency.kind,
            namespace: &module.identity.namespace,
            name: &dependency.name,
        }
    }
}

/// The shortest dependency cycle of a module, if it is the first module of the cycle: each cycle is reported once.
fn round<'a>(
    nodes: &BTreeMap<Node<'a>, &'a (Document, ValidModule)>,
    from: Node<'a>,
) -> Option<Vec<Node<'a>>> {
    let mut visited = BTreeSet::new();
    let mut ways = std::collections::VecDeque::from([vec![from]]);
    while let Some(way) = ways.pop_front() {
        let module = way.last().and_then(|last| nodes.get(last));
        for dependency in module.into_iter().flat_map(|(_, module)| &module.spec.depends_on) {
            let next = Node {
                kind: dependency.kind,
                namespace: from.namespace,
                name: &dependency.name,
            };
            if next == from {
                return way.iter().all(|node| from <= *node).then_some(way);
            }
            if visited.insert(next) {
                ways.push_back(way.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}

/// Whether a kind, by group and kind, is in the health table.
fn is_in_table((group, kind): &(String, String)) -> bool {
    table::V1
        .iter()
        .any(|entry| entry.group() == group && entry.kind == kind)
}

/// Whether a rollout has neither a limit nor stages.
fn all_at_once(document: &Document, module: &ValidModule) -> Option<Finding> {
    let Rollout {
        strategy,
        max_unready_clusters,
        stages,
        batch,
        ..
    } = &module.spec.rollout;
    let field = match (strategy, max_unready_clusters) {
        (Strategy::Replace, _) => "spec.rollout.strategy",
        (Strategy::Incremental, Amount::Percent(100)) if batch.is_none() => "spec.rollout.maxUnreadyClusters",
        (Strategy::Incremental, _) => return None,
    };
    let address = module.identity.address();
    let message =
        format!("{address} is rolled out to all clusters at once: a bad version would reach all of them");
    stages
        .is_empty()
        .then(|| Finding::about(Code::AllAtOnce, document, &address, field, message))
}
