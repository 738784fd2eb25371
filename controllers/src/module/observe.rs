//! The step that reads: everything that a decision about one module rests on, as plain data.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt, api::ListParams};
use muster_api::{
    module::ModuleObject,
    reasons::ObjectReason,
    rollout::Rollout,
    selector::Matcher,
    sync::HealthExpression,
    validate::{self, InsecureSources},
};

use muster_health::Expressions;
use muster_rollout::{RunState, UnitId};

use super::{
    Error, Modules,
    command::Address,
    concern::{self, Candidate, Concern, Concerns, Found, Said},
    controls::Controls,
    dependencies::Ties,
    facts::{Definition, Invalid, Target, Values},
    gates,
    instants::millis,
    kind::Rolled,
    memory,
    observation::Observation,
    rows::{self, AssemblageRow},
    sight::{self, Again, Moved, Pair, Seen, Sight},
    source, status, units, unseen,
    windows::ModuleWindows,
};
use crate::runtime::Api;
use crate::{
    bindings,
    registry::ClusterRow,
    runtime::{Key, call},
};

/// Assemblages in one page of a list: a few hundred KiB each at most, and answers have a limit.
const PAGE: u32 = 100;

/// Reads what a decision about `module` needs. Only the version of the source and objects of bindings are read over the network;
/// everything else stands in rows that watches keep.
pub async fn observe<K: Rolled>(module: &K, modules: &Modules<K>) -> Result<Observation, Error> {
    let key = Key::of(module);
    let deleting = module.meta().deletion_timestamp.is_some();
    let memory = memory::recall(module);
    let ties = modules.dependencies.look(module);
    let insecure = modules.gates.insecure();
    let (controls, invalid) = said(module, &ties, insecure, modules.context.clock.now());
    let (selector, target) = match &invalid {
        Some(_) => (None, Target::Nothing),
        None if deleting => (None, Target::Nothing),
        None => (Some(matcher(module)?), source::target(module, modules).await),
    };
    let last_good = match memory.memory.last_good {
        Some(revision) if !deleting => {
            modules
                .history
                .definition(&key, &revision.to_string(), &modules.context)
                .await?
        }
        _ => None,
    };
    // After the source was read, which may take a while: a window that was closed meanwhile counts.
    let windows = modules.windows.current().ok_or(Error::UnreadWindows)?;
    let mut seen = Observation {
        invalid,
        deleting,
        controls,
        target,
        last_good,
        ties,
        gap: modules.gaps.before(&key, module),
        reported_at: modules.reports.last(&key),
        refused: modules.refusals.of(&key),
        gates: gates::current(module, &memory.memory, modules.gates.of(&key)),
        memory,
        windows: ModuleWindows::new(module, windows, modules.context.clock.now()),
        sight: Sight::default(),
        revisions: modules.history.about(&key),
    };
    if seen.invalid.is_none() {
        seen.sight = clusters(module, modules, selector.as_ref(), &seen).await?;
        seen.invalid = empty_stage(module, &seen);
    }
    Ok(seen)
}

/// What people say by annotations of the module, and what they must change before anything can be decided.
pub(super) fn said<K: ModuleObject>(
    module: &K,
    ties: &Ties,
    insecure: InsecureSources,
    now: Timestamp,
) -> (Controls, Option<Invalid>) {
    match Controls::read(module) {
        Ok(controls) if module.meta().deletion_timestamp.is_some() => (controls, None),
        Ok(controls) => {
            let invalid = controls.too_long(now).or_else(|| invalid(module, insecure));
            (controls, invalid.or_else(|| ties.wrong.clone()))
        }
        Err(unreadable) => (Controls::default(), Some(unreadable)),
    }
}

fn invalid<K: ModuleObject>(module: &K, insecure: InsecureSources) -> Option<Invalid> {
    // Whether an insecure source is allowed is for the source to say, which knows its options.
    let mut problems = validate::module(&module.name_any(), module.spec(), InsecureSources::Allowed);
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

/// The first expression of health that no agent could evaluate.
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

/// A stage without clusters guards nothing: most likely its selector, or a label, is wrong. Once its rollout is done that is all one.
pub(super) fn empty_stage<K: ModuleObject>(module: &K, seen: &Observation) -> Option<Invalid> {
    let target = seen.target.definition()?;
    let done = seen.memory.memory.run.is_some_and(|run| {
        run.state == RunState::Good && target.revision.starts_with(&run.target.to_string())
    });
    let mut selected = seen
        .clusters()
        .iter()
        .filter(|cluster| cluster.selected)
        .peekable();
    // Who selects nobody is at rest: that is no mistake in a stage.
    selected.peek()?;
    let places: BTreeSet<usize> = selected.filter_map(|cluster| cluster.stage).collect();
    let mut stages = module.spec().rollout.stages.iter().enumerate();
    let (place, stage) = stages
        .find(|(place, _)| !places.contains(place))
        .filter(|_| !done)?;
    let message = format!(
        "spec.rollout.stages[{place}]: no selected cluster is of stage {}: mend its selector, label a cluster, or remove the stage; nothing moves until then",
        stage.name
    );
    Some(Invalid {
        reason: ObjectReason::InvalidSpec,
        message,
    })
}

fn matcher<K: ModuleObject>(module: &K) -> Result<Matcher, Error> {
    Ok(Matcher::new(module.spec().selector.as_ref())?)
}

/// Every cluster of the registry that is selected, has a row or is being changed, and those that only a row still names. Those of
/// which nothing changed since the last decision stay as they were.
async fn clusters<K: Rolled>(
    module: &K,
    modules: &Modules<K>,
    selector: Option<&Matcher>,
    seen: &Observation,
) -> Result<Sight, Error> {
    let key = Key::of(module);
    let rows = if seen.memory.lost {
        listed(modules, &key.namespace).await?
    } else {
        modules.rows.all()
    };
    let registered = modules.context.registry.list();
    unseen::look(&key.name, &seen.memory, &rows, &registered, modules).await?;
    let mut sight = modules.sights.take(&key);
    let pairs = sight::pairs(registered, rows, &sight);
    let new = Sight::new(seen.basis(module));
    let onlooker = Onlooker {
        concerns: Concerns::of(module, selector, &seen.memory.memory)?,
        key: &key,
        address: &status::address(module),
        seen,
        modules,
    };
    let rollout = &module.spec().rollout;
    let charged = seen.memory.memory.charges.keys().map(UnitId::as_str);
    if let Again::These(places) = sight.again(&pairs, &new, charged, seen.windows.now)
        && let Ok(changed) = onlooker.look_again(&mut sight, &pairs, &places).await?
    {
        units::again(&mut sight, &changed, seen, &key.name, rollout);
        apply_windows(&mut sight, seen, rollout);
        return Ok(sight);
    }
    onlooker.look_anew(new, pairs, rollout).await
}

/// Makes of closed windows what they mean for the units. A lost memory is rebuilt for it, as for the decision.
pub(super) fn apply_windows(sight: &mut Sight, seen: &Observation, rollout: &Rollout) {
    if sight.clusters.iter().any(|cluster| cluster.closed.is_some()) {
        let memory = seen.remembered(&sight.units.all, millis(seen.windows.now));
        units::apply_windows(sight, &memory, rollout);
    }
}

/// Who looks at clusters for a module.
struct Onlooker<'a, K: Rolled> {
    concerns: Concerns<'a>,
    key: &'a Key,
    address: &'a str,
    seen: &'a Observation,
    modules: &'a Modules<K>,
}

impl<K: Rolled> Onlooker<'_, K> {
    /// Looks at these pairs again; says which clusters they are.
    async fn look_again(
        &self,
        sight: &mut Sight,
        pairs: &[Pair],
        places: &[usize],
    ) -> Result<Result<Vec<usize>, Moved>, Error> {
        let mut changed = Vec::with_capacity(places.len());
        for place in places {
            let Some(pair) = pairs.get(*place) else {
                return Ok(Err(Moved));
            };
            let seen = self.look(pair).await?;
            match sight.replace(*place, pair.clone(), seen) {
                Ok(cluster) => changed.extend(cluster),
                Err(moved) => return Ok(Err(moved)),
            }
        }
        Ok(Ok(changed))
    }

    /// Looks at all pairs.
    async fn look_anew(&self, empty: Sight, pairs: Vec<Pair>, rollout: &Rollout) -> Result<Sight, Error> {
        let mut sight = empty;
        for pair in pairs {
            let seen = self.look(&pair).await?;
            sight.push(pair, seen);
        }
        sight.units = units::units(&sight.clusters, self.seen, &self.key.name, rollout);
        apply_windows(&mut sight, self.seen, rollout);
        Ok(sight)
    }

    async fn look(&self, pair: &Pair) -> Result<Seen, Error> {
        let candidate = match self.concerns.about(pair) {
            Concern::None => {
                return Ok(Seen {
                    cluster: None,
                    fleeting: false,
                });
            }
            Concern::Orphan(orphan) => {
                return Ok(Seen {
                    cluster: Some(*orphan),
                    fleeting: false,
                });
            }
            Concern::Candidate(candidate) => candidate,
        };
        let address = Address {
            namespace: &self.key.namespace,
            module: self.address,
        };
        let said = Said::of(&candidate, &address, self.seen, self.modules.context.clock.now());
        let at_hand = Found::at_hand(&candidate, &said, self.seen);
        // One that is only being changed goes out of sight when it is not any more.
        let lasts = candidate.selected || candidate.row.is_some();
        let fleeting = at_hand.is_none() || said.is_fleeting() || !lasts;
        let found = match at_hand {
            Some(found) => found,
            // Apart: in a large fleet the room for what is rarely waited for would be made for each cluster.
            None => Box::pin(found(&candidate, &said, self.modules, self.key, self.seen)).await?,
        };
        Ok(Seen {
            cluster: Some(concern::seen::<K>(*candidate, said, found, self.key, self.seen)),
            fleeting,
        })
    }
}

/// Looks up what a cluster's row may get.
async fn found<K: Rolled>(
    candidate: &Candidate,
    said: &Said,
    modules: &Modules<K>,
    module: &Key,
    seen: &Observation,
) -> Result<Found, Error> {
    let Candidate {
        cluster, selected, ..
    } = candidate;
    let definition = match said.pinned_to(*selected) {
        Some(revision) => {
            let history = &modules.history;
            history.definition(module, revision, &modules.context).await?
        }
        None => None,
    };
    let pinned = said.pinned(definition);
    let values = async |definition: Option<&Definition>| match definition {
        Some(definition) if *selected => Some(values(cluster, definition, modules).await),
        _ => None,
    };
    Ok(Found {
        values: values(seen.shall_have(pinned.as_ref())).await,
        last_good_values: values(seen.comes_from(pinned.as_ref())).await,
        pinned,
    })
}

/// All assemblages as they are now. Without a memory nothing tells how far the watch is behind, and what it has not shown yet may be
/// on its way in some cluster (W7).
async fn listed<K: Rolled>(modules: &Modules<K>, namespace: &str) -> Result<Vec<Arc<AssemblageRow>>, Error> {
    let assemblages: Api<K::Assemblage> = Api::namespaced(modules.context.client.clone(), namespace);
    let what = format!("listing {} in {namespace}", K::Assemblage::plural(&()));
    let mut page = ListParams::default().limit(PAGE);
    let mut all = BTreeMap::new();
    loop {
        let list = call(&what, assemblages.list(&page)).await?;
        let rows = list
            .items
            .iter()
            .map(|item| (item.name_any(), Arc::new(rows::row(item))));
        all.extend(rows);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all.into_values().collect()),
        }
    }
}

/// The values that a cluster's row holds for a definition.
async fn values<K: Rolled>(
    cluster: &ClusterRow,
    definition: &Definition,
    modules: &Modules<K>,
) -> Result<Values, String> {
    let given = bindings::given(&cluster.name, &cluster.labels);
    let resolved = modules
        .bindings
        .resolve(&definition.control_plane_bindings, &given)
        .await;
    let values = resolved.map_err(|error| error.to_string())?;
    Ok(concern::with_given(values, given, definition))
}
