//! Interprets what was gathered about one module. Pure: `observe` gathers for the controller, `prospect` from lists.
//!
//! ```text
//!   module, memory, controls, windows ─► observation ─┐
//!   a cluster, its assemblage ────────────────────────┼─► Reader::cluster ─┬─► ObservedPair ─► Reader::units
//!   Gathered (revisions, objects of bindings) ────────┘                    └─► Needs: gather these, and read again
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use muster_api::{
    module::{Avoided, ModuleObject},
    reasons::ObjectReason,
    rollout::Rollout,
    selector::{Matcher, SelectorError},
    sync::HealthExpression,
    validate::{self, InsecureSources},
};
use muster_health::Expressions;
use muster_rollout::RunState;

use super::{
    cluster_view::{ClusterView, ObservedPair, Pair},
    command::ModuleAddress,
    controls::Controls,
    dependencies::Ties,
    facts::{Definition, Invalid, Pinned, Target, Values},
    gates::Answers,
    instants::millis,
    kind::Rolled,
    memory,
    observation::Observation,
    reasons::Vocabulary,
    refusals,
    relevance::{self, ClusterControls, ClusterLookups, Relevance, RelevanceCheck},
    status, units,
    windows::ModuleWindows,
};
use crate::{
    bindings::{self, BindingError, Evaluation, Kinds, ObjectId},
    registry::ClusterRow,
    rolloutwindow::Windows,
    runtime::Key,
};

/// How often the bindings of one cluster may request more objects: each round needs an object whose name came from the
/// one before.
const ROUNDS: usize = 8;

/// What was gathered for one cluster.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Revisions of the module by the prefix that names them; `None` if not recorded.
    pub revisions: BTreeMap<String, Option<Definition>>,
    /// Objects read by bindings.
    pub objects: bindings::KnownObjects,
    /// Objects that could not be read, and why.
    pub unreadable: BTreeMap<ObjectId, String>,
    /// Number of rounds gathered so far.
    pub rounds: usize,
}

/// What must be gathered before a cluster can be read. This may lead to further needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// Revisions of the module.
    pub revisions: BTreeSet<String>,
    /// Objects read by bindings.
    pub objects: BTreeSet<ObjectId>,
}

impl Needs {
    /// Whether nothing must be gathered.
    pub(crate) fn is_empty(&self) -> bool {
        self.revisions.is_empty() && self.objects.is_empty()
    }
}

/// The observation from the module alone: without its target, the last good revision, and the clusters.
pub(crate) fn observation<K: ModuleObject>(
    module: &K,
    ties: Ties,
    windows: Windows,
    insecure: InsecureSources,
    now: Timestamp,
) -> Observation {
    let (controls, invalid) = controls(module, &ties, insecure, now);
    Observation {
        invalid,
        deleting: module.meta().deletion_timestamp.is_some(),
        controls,
        target: Target::Nothing,
        last_good: None,
        avoids_upgrades: module.spec().avoids(Avoided::ClusterUpgrade),
        ties,
        memory: memory::recall(status::stored(module), module.meta().uid.as_deref()),
        gap: Duration::ZERO,
        reported_at: None,
        refused: refusals::Rows::new(),
        windows: ModuleWindows::new(module, windows, now),
        view: ClusterView::default(),
        revisions: BTreeMap::new(),
        gates: Answers::new(),
    }
}

/// The controls of the module, and what must be fixed before anything can be decided.
fn controls<K: ModuleObject>(
    module: &K,
    ties: &Ties,
    insecure: InsecureSources,
    now: Timestamp,
) -> (Controls, Option<Invalid>) {
    match Controls::read(module.meta(), &Vocabulary::CLUSTERS) {
        Ok(controls) if module.meta().deletion_timestamp.is_some() => (controls, None),
        Ok(controls) => {
            let invalid = controls
                .too_long(now, &Vocabulary::CLUSTERS)
                .or_else(|| invalid(module, insecure));
            (controls, invalid.or_else(|| ties.wrong.clone()))
        }
        Err(unreadable) => (Controls::default(), Some(unreadable)),
    }
}

fn invalid<K: ModuleObject>(module: &K, insecure: InsecureSources) -> Option<Invalid> {
    // Insecure sources are checked where they are read: the source knows its options.
    let mut problems = validate::validate_module(&module.name_any(), module.spec(), InsecureSources::Allowed);
    if problems.is_empty() {
        problems = validate::gates(module.spec(), insecure);
    }
    if problems.is_empty()
        && let Some(message) = unreadable_expression(&module.spec().sync.package.health_expressions)
    {
        return Some(Invalid {
            reason: ObjectReason::InvalidSpec,
            message,
        });
    }
    (!problems.is_empty()).then(|| Invalid {
        reason: ObjectReason::InvalidSpec,
        message: validate::message(&problems),
    })
}

/// The first invalid health expression.
fn unreadable_expression(each: &[HealthExpression]) -> Option<String> {
    each.iter().enumerate().find_map(|(index, of)| {
        let parsed = Expressions::parse(&of.current, of.in_progress.as_deref(), of.failed.as_deref());
        let error = parsed.err()?;
        Some(format!(
            "spec.sync.package.healthExpressions[{index}]: {} {}: {error}",
            of.api_version, of.kind
        ))
    })
}

/// An empty stage protects nothing: most likely its selector or a label is wrong. Not an error once the rollout is
/// done.
pub(crate) fn empty_stage<K: ModuleObject>(module: &K, observed: &Observation) -> Option<Invalid> {
    let target = observed.target.definition()?;
    let done = observed.memory.memory.run.is_some_and(|run| {
        run.state == RunState::Good && target.revision.starts_with(&run.target.to_string())
    });
    let mut selected = observed
        .clusters()
        .iter()
        .filter(|cluster| cluster.selected)
        .peekable();
    // A module that selects no cluster is done: its stages may be empty.
    selected.peek()?;
    let used: BTreeSet<usize> = selected.filter_map(|cluster| cluster.stage).collect();
    let mut stages = module.spec().rollout.stages.iter().enumerate();
    let (index, stage) = stages
        .find(|(index, _)| !used.contains(index))
        .filter(|_| !done)?;
    let message = format!(
        "spec.rollout.stages[{index}]: no selected cluster is of stage {}: correct its selector, label a cluster, or remove the stage; nothing is rolled out until then",
        stage.name
    );
    Some(Invalid {
        reason: ObjectReason::InvalidSpec,
        message,
    })
}

/// Observes clusters for one module.
pub(crate) struct Reader<'a, K: Rolled> {
    concerns: RelevanceCheck<'a>,
    key: Key,
    address: String,
    rollout: &'a Rollout,
    kinds: &'a Kinds,
    observed: &'a Observation,
    kind: PhantomData<K>,
}

impl<'a, K: Rolled> Reader<'a, K> {
    /// A reader whose bindings may read objects of these kinds.
    pub(crate) fn new(
        module: &'a K,
        selector: Option<&'a Matcher>,
        observed: &'a Observation,
        kinds: &'a Kinds,
    ) -> Result<Self, SelectorError> {
        Ok(Self {
            concerns: RelevanceCheck::of(module, selector, &observed.memory.memory)?,
            key: Key::of(module),
            address: status::object_reference(module),
            rollout: &module.spec().rollout,
            kinds,
            observed,
            kind: PhantomData,
        })
    }

    /// One cluster, or what must be gathered first.
    pub(crate) fn cluster(&self, pair: &Pair, known: &Gathered) -> Result<ObservedPair, Needs> {
        let candidate = match self.concerns.about(pair) {
            Relevance::None => {
                return Ok(ObservedPair {
                    cluster: None,
                    fleeting: false,
                });
            }
            Relevance::Orphan(orphan) => {
                return Ok(ObservedPair {
                    cluster: Some(*orphan),
                    fleeting: false,
                });
            }
            Relevance::Candidate(candidate) => candidate,
        };
        let address = ModuleAddress {
            namespace: &self.key.namespace,
            module: &self.address,
        };
        let selected = candidate.selected;
        let cluster_controls =
            ClusterControls::of(&candidate, &address, self.observed, self.observed.windows.now);
        let pinned = pinned(&cluster_controls, selected, known)?;
        let definitions = [
            self.observed.shall_have(pinned.as_ref()),
            self.observed.comes_from(pinned.as_ref()),
        ]
        .map(|definition| definition.filter(|_| selected));
        let mut gotten = definitions.iter().flatten();
        let reads_objects = gotten.any(|definition| !definition.control_plane_bindings.is_empty());
        // A cluster that is only in flight is dropped once its change is over.
        let lasts = selected || candidate.row.is_some();
        let fleeting = cluster_controls.is_fleeting() || reads_objects || !lasts;
        let [values, last_good_values] = self.values(&candidate.cluster, definitions, known)?;
        let found = ClusterLookups {
            pinned,
            values,
            last_good_values,
        };
        Ok(ObservedPair {
            cluster: Some(relevance::observed_cluster::<K>(
                *candidate,
                cluster_controls,
                found,
                &self.key,
                self.observed,
            )),
            fleeting,
        })
    }

    /// The values of a cluster for each definition that its row may get.
    fn values<const N: usize>(
        &self,
        cluster: &ClusterRow,
        definitions: [Option<&Definition>; N],
        known: &Gathered,
    ) -> Result<[Option<Result<Values, String>>; N], Needs> {
        let mut needs = Needs::default();
        let values = definitions.map(|definition| {
            definition.map(|definition| self.evaluated(cluster, definition, known, &mut needs.objects))
        });
        if needs.is_empty() { Ok(values) } else { Err(needs) }
    }

    /// The values of bindings, and of the built-in variables that the package uses, so that a changed label is rolled
    /// out like any other change.
    fn evaluated(
        &self,
        cluster: &ClusterRow,
        definition: &Definition,
        known: &Gathered,
        needs: &mut BTreeSet<ObjectId>,
    ) -> Result<Values, String> {
        let bindings = &definition.control_plane_bindings;
        if bindings.is_empty() && definition.given.is_empty() {
            return Ok(Values::new());
        }
        let given = bindings::given(&cluster.name, &cluster.labels);
        let evaluation = bindings::evaluate(bindings, &given, self.kinds, &known.objects);
        match evaluation.map_err(|error| error.to_string())? {
            Evaluation::Values(mut values) => {
                let used = given
                    .into_iter()
                    .filter(|(name, _)| definition.given.contains(name));
                values.extend(used);
                Ok(values)
            }
            Evaluation::Needs(objects) => {
                if let Some(error) = objects.iter().find_map(|object| known.unreadable.get(object)) {
                    return Err(error.clone());
                }
                if known.rounds >= ROUNDS {
                    return Err(BindingError::TooDeep(ROUNDS).to_string());
                }
                needs.extend(objects);
                Ok(Values::new())
            }
        }
    }

    /// Builds the units of the clusters: of all, or of those at these indexes. Closed windows are applied to all of
    /// them; a lost memory is rebuilt for that, as for the decision.
    pub(crate) fn units(&self, view: &mut ClusterView, changed: Option<&[usize]>) {
        match changed {
            Some(places) => units::refresh_units(view, places, self.observed, &self.key.name, self.rollout),
            None => view.units = units::units(&view.clusters, self.observed, &self.key.name, self.rollout),
        }
        if view.clusters.iter().any(|cluster| cluster.closed.is_some()) {
            let memory = self
                .observed
                .remembered(&view.units.all, millis(self.observed.windows.now));
            units::apply_windows(view, &memory, self.rollout);
        }
    }
}

/// The pinned revision of a cluster.
fn pinned(
    cluster_controls: &ClusterControls,
    selected: bool,
    known: &Gathered,
) -> Result<Option<Pinned>, Needs> {
    let Some(revision) = cluster_controls.pinned_to(selected) else {
        return Ok(None);
    };
    match known.revisions.get(revision) {
        Some(definition) => Ok(cluster_controls.pinned(definition.clone())),
        None => Err(Needs {
            revisions: BTreeSet::from([revision.to_owned()]),
            objects: BTreeSet::new(),
        }),
    }
}
