//! The observed clusters of a module, kept from one decision to the next: only what changed is computed again. Pure.
//!
//! ```text
//!   clusters, assemblages ─► Pairs ─┐
//!   Basis (spec, target, …) ────────┼─► Sight::again ─► the pairs to compute again, or all
//!   the former Sight ───────────────┘
//! ```
//!
//! Invariant: kept entries equal those that would be computed again. Entries that depend on time, on controls, on an
//! object that is read, or on another module are computed each time.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    contents::Units,
    facts::{Definition, ObservedCluster},
    rows::{AssemblageRow, Head, is_same},
    windows,
};
use crate::{registry::ClusterRow, runtime::Key};

/// The maximum number of clusters kept for all modules together, about 1 KiB each.
const MAX_KEPT: usize = 50_000;

/// What every observed cluster depends on, in addition to its own rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Basis {
    pub uid: Option<String>,
    pub generation: Option<i64>,
    pub annotations: BTreeMap<String, String>,
    pub windows: windows::Version,
    pub deleting: bool,
    pub target: Option<Definition>,
    pub last_good: Option<Definition>,
}

/// A cluster and the assemblage with its name; one of them may be missing.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The Cluster.
    pub cluster: Option<Arc<ClusterRow>>,
    /// The assemblage, also if it is not ours.
    pub assemblage: Option<Arc<AssemblageRow>>,
}

impl Pair {
    fn name(&self) -> &str {
        let assemblage = || self.assemblage.as_ref().map_or("", |row| row.head.name.as_str());
        self.cluster
            .as_ref()
            .map_or_else(assemblage, |cluster| cluster.name.as_str())
    }

    /// Whether both are the same for a module.
    fn is(&self, other: &Self, module: &str) -> bool {
        let assemblages = match (&self.assemblage, &other.assemblage) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.is_same_to(module, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        assemblages && is_same(self.cluster.as_ref(), other.cluster.as_ref())
    }
}

/// Joins clusters and assemblages by name; both are sorted. `before` speeds this up where nothing changed: names are
/// not compared.
pub(crate) fn pairs(
    clusters: Vec<Arc<ClusterRow>>,
    assemblages: Vec<Arc<AssemblageRow>>,
    before: &ClusterView,
) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(clusters.len().max(assemblages.len()));
    let mut assemblages = assemblages.into_iter().peekable();
    let alone = |assemblage| Pair {
        cluster: None,
        assemblage: Some(assemblage),
    };
    for cluster in clusters {
        let known = before.places.get(pairs.len()).map(|place| &place.pair);
        let known = known.filter(|known| {
            known.assemblage.is_some()
                && is_same(known.cluster.as_ref(), Some(&cluster))
                && is_same(head(known.assemblage.as_ref()), head(assemblages.peek()))
        });
        if known.is_none() {
            while let Some(before) = assemblages.next_if(|row| row.head.name < cluster.name) {
                pairs.push(alone(before));
            }
        }
        let assemblage = assemblages.next_if(|row| known.is_some() || row.head.name == cluster.name);
        pairs.push(Pair {
            cluster: Some(cluster),
            assemblage,
        });
    }
    pairs.extend(assemblages.map(alone));
    pairs
}

fn head(assemblage: Option<&Arc<AssemblageRow>>) -> Option<&Arc<Head>> {
    assemblage.map(|assemblage| &assemblage.head)
}

/// The observed state of one pair.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPair {
    /// The cluster; `None` if the module does not affect it.
    pub cluster: Option<ObservedCluster>,
    /// Whether it depends on more than its pair and the basis.
    pub fleeting: bool,
}

/// A pair with its result.
#[derive(Clone, Debug)]
struct CachedPair {
    pair: Pair,
    /// Index in the list of clusters; `None` if the module does not affect it.
    cluster: Option<usize>,
    fleeting: bool,
}

/// The observed clusters of a module.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterView {
    /// What the clusters depend on; `None` if nothing may be kept for the next decision.
    basis: Option<Basis>,
    places: Vec<CachedPair>,
    /// The clusters, sorted by name.
    pub clusters: Vec<ObservedCluster>,
    /// The clusters as units.
    pub units: Units,
}

/// What must be computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// All pairs, as the basis changed.
    All,
    /// The pairs at these indexes.
    These(Vec<usize>),
}

impl ClusterView {
    /// Without clusters.
    pub(crate) fn new(basis: Option<Basis>) -> Self {
        Self {
            basis,
            ..Self::default()
        }
    }

    /// Which of these pairs must be read again for `module`, given the basis of `new`, the clusters that are in flight,
    /// and the time for the change windows.
    pub(crate) fn again<'a>(
        &self,
        module: &str,
        pairs: &[Pair],
        new: &Self,
        in_flight: impl Iterator<Item = &'a str>,
        now: Timestamp,
    ) -> Again {
        if self.basis.is_none() || self.basis != new.basis || self.places.len() != pairs.len() {
            return Again::All;
        }
        let both = self.places.iter().zip(pairs).enumerate();
        let differ = both.filter(|(_, (place, pair))| {
            place.fleeting || !place.pair.is(pair, module) || self.has_window_change(place, now)
        });
        let mut again: Vec<usize> = differ.map(|(place, _)| place).collect();
        if self.clusters.len() < pairs.len() {
            // A cluster that is in flight is included, even if it is neither selected nor has a row.
            let place = |name: &str| pairs.binary_search_by(|pair| pair.name().cmp(name));
            let places = in_flight.filter_map(|name| place(name).ok());
            again.extend(places);
            again.sort_unstable();
            again.dedup();
        }
        Again::These(again)
    }

    /// Whether its change windows may give a different answer by now.
    fn has_window_change(&self, place: &CachedPair, now: Timestamp) -> bool {
        let cluster = place.cluster.and_then(|cluster| self.clusters.get(cluster));
        let change = cluster.and_then(|cluster| cluster.window_change);
        change.is_some_and(|at| at <= now)
    }

    /// Adds the next pair.
    pub(crate) fn push(&mut self, pair: Pair, observed: ObservedPair) {
        let place = CachedPair {
            pair,
            cluster: observed.cluster.is_some().then_some(self.clusters.len()),
            fleeting: observed.fleeting,
        };
        self.clusters.extend(observed.cluster);
        self.places.push(place);
    }

    /// Replaces the pairs by these, all of which were unchanged or read again, so that no old version is kept in
    /// memory.
    pub(crate) fn adopt(&mut self, pairs: Vec<Pair>) {
        for (place, pair) in self.places.iter_mut().zip(pairs) {
            place.pair = pair;
        }
    }

    /// Replaces a pair that was read again; returns the index of its cluster. Fails if the cluster was added or
    /// removed, so that the other indexes are no longer valid.
    pub(crate) fn replace(
        &mut self,
        place: usize,
        pair: Pair,
        observed: ObservedPair,
    ) -> Result<Option<usize>, Moved> {
        let place = self.places.get_mut(place).ok_or(Moved)?;
        let cluster = place.cluster.and_then(|cluster| self.clusters.get_mut(cluster));
        match (cluster, observed.cluster) {
            (Some(cluster), Some(replacement)) => *cluster = replacement,
            (None, None) => {}
            _ => return Err(Moved),
        }
        place.pair = pair;
        place.fleeting = observed.fleeting;
        Ok(place.cluster)
    }
}

/// The indexes are no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved;

/// The observed clusters of modules that decided recently, the latest last.
#[derive(Debug, Default)]
pub(crate) struct ClusterViews(Mutex<Vec<(Key, ClusterView)>>);

impl ClusterViews {
    /// Removes and returns what was kept for a module; empty if nothing was.
    pub(crate) fn take(&self, module: &Key) -> ClusterView {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|(key, _)| key == module);
        place.map(|place| kept.remove(place).1).unwrap_or_default()
    }

    /// Keeps the observed clusters for the next decision of a module.
    pub(crate) fn keep(&self, module: Key, view: ClusterView) {
        if view.basis.is_none() {
            return;
        }
        let mut kept = self.0.lock();
        let mut all: usize = kept.iter().map(|(_, view)| view.places.len()).sum();
        all = all.saturating_add(view.places.len());
        let room = kept.iter().take_while(|(_, old)| {
            let over = all > MAX_KEPT;
            all = all.saturating_sub(if over { old.places.len() } else { 0 });
            over
        });
        let surplus = room.count();
        kept.drain(..surplus);
        kept.push((module, view));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{module::facts::ObservedCarrier, registry::ClusterState};

    fn cluster(name: &str) -> Arc<ClusterRow> {
        Arc::new(ClusterRow {
            api_version: String::new(),
            name: name.to_owned(),
            uid: String::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            state: ClusterState::Ready,
            since: Timestamp::UNIX_EPOCH,
            last_contact: None,
            identity: None,
            upgrading: false,
            leads_elsewhere: false,
        })
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn assemblage(name: &str) -> Arc<AssemblageRow> {
        let head = Head {
            name: name.to_owned(),
            ours: true,
            deleting: false,
            owner: None,
            agent: None,
            made: None,
            foreign_syncs: 0,
        };
        Arc::new(AssemblageRow {
            head: Arc::new(head),
            syncs: Vec::new(),
            parts: Vec::new(),
            left: Vec::new(),
        })
    }

    fn observed_pair(name: &str) -> ObservedPair {
        ObservedPair {
            cluster: Some(ObservedCluster {
                name: name.to_owned(),
                uid: String::new(),
                selected: true,
                stage: None,
                domain: None,
                obstacle: None,
                not_yet: None,
                closed: None,
                window_change: None,
                moves: false,
                held_until: None,
                pinned: None,
                effects: Vec::new(),
                carrier: ObservedCarrier::default(),
                row: None,
                left: None,
                values: None,
                last_good_values: None,
            }),
            fleeting: false,
        }
    }

    type Clusters = Vec<Arc<ClusterRow>>;
    type Assemblages = Vec<Arc<AssemblageRow>>;

    const NOTHING: ObservedPair = ObservedPair {
        cluster: None,
        fleeting: false,
    };

    fn basis(generation: i64) -> Basis {
        Basis {
            uid: None,
            generation: Some(generation),
            annotations: BTreeMap::new(),
            windows: windows::Version::default(),
            deleting: false,
            target: None,
            last_good: None,
        }
    }

    /// `dev` and `us` are clusters of a module, `eu` is not, and `gone` has only an assemblage.
    fn fleet() -> (Clusters, Assemblages) {
        let clusters = ["dev", "eu", "us"].map(cluster).to_vec();
        (clusters, ["dev", "gone", "us"].map(assemblage).to_vec())
    }

    fn cluster_view((clusters, assemblages): (Clusters, Assemblages)) -> ClusterView {
        let mut view = ClusterView {
            basis: Some(basis(1)),
            ..ClusterView::default()
        };
        for pair in pairs(clusters, assemblages, &ClusterView::default()) {
            let observed = if pair.name() == "eu" {
                NOTHING
            } else {
                observed_pair(pair.name())
            };
            view.push(pair, observed);
        }
        view
    }

    fn names(pairs: &[Pair]) -> Vec<(&str, bool, bool)> {
        let all = pairs.iter();
        all.map(|pair| (pair.name(), pair.cluster.is_some(), pair.assemblage.is_some()))
            .collect()
    }

    #[test]
    fn clusters_and_assemblages_are_paired_by_name_whatever_was_there_before() {
        let expect = [
            ("dev", true, true),
            ("eu", true, false),
            ("gone", false, true),
            ("us", true, true),
        ];
        let (clusters, assemblages) = fleet();
        let before = cluster_view((clusters.clone(), assemblages.clone()));
        let check = |before: &ClusterView| {
            let pairs = pairs(clusters.clone(), assemblages.clone(), before);
            assert_eq!(names(&pairs), expect);
        };
        check(&ClusterView::default());
        check(&before);
        // One that joined before all others, one that left, and one whose assemblage is new.
        let joined = [vec![cluster("alpha")], clusters.clone()].concat();
        check(&cluster_view((joined, assemblages.clone())));
        check(&cluster_view((clusters[1..].to_vec(), assemblages.clone())));
        check(&cluster_view((clusters.clone(), assemblages[1..].to_vec())));
    }

    #[test]
    fn only_changed_clusters_are_observed_again() {
        let check = |change: &dyn Fn(&mut ClusterView, &mut Clusters, &mut Assemblages), expect: Again| {
            let (mut clusters, mut assemblages) = fleet();
            let mut before = cluster_view((clusters.clone(), assemblages.clone()));
            change(&mut before, &mut clusters, &mut assemblages);
            let pairs = pairs(clusters, assemblages, &before);
            let new = ClusterView {
                basis: Some(basis(1)),
                ..ClusterView::default()
            };
            assert_eq!(before.again("web", &pairs, &new, [].into_iter(), at(9)), expect);
        };
        let these = |places: &[usize]| Again::These(places.to_vec());
        check(&|_, _, _| (), these(&[]));
        check(&|_, clusters, _| clusters[1] = cluster("eu"), these(&[1]));
        check(
            &|_, _, assemblages| assemblages[1] = assemblage("gone"),
            these(&[2]),
        );
        check(
            &|_, _, assemblages| assemblages[2] = assemblage("us"),
            these(&[3]),
        );
        check(&|_, _, assemblages| drop(assemblages.remove(0)), these(&[0]));
        check(
            &|_, _, assemblages| assemblages.insert(1, assemblage("eu")),
            these(&[1]),
        );
        check(&|before, _, _| before.places[3].fleeting = true, these(&[3]));
        let change = |seconds: i64| {
            move |before: &mut ClusterView, _: &mut Clusters, _: &mut Assemblages| {
                before.clusters[2].window_change = Some(at(seconds));
            }
        };
        check(&change(10), these(&[]));
        check(&change(9), these(&[3]));
        check(&|_, clusters, _| clusters.push(cluster("zeta")), Again::All);
        check(&|_, clusters, _| drop(clusters.remove(1)), Again::All);
        check(&|before, _, _| before.basis = Some(basis(2)), Again::All);
        check(&|before, _, _| before.basis = None, Again::All);
    }

    #[test]
    fn in_flight_clusters_are_observed_again_even_if_the_module_has_no_part_in_them() {
        let (clusters, assemblages) = fleet();
        let before = cluster_view((clusters.clone(), assemblages.clone()));
        let pairs = pairs(clusters, assemblages, &before);
        let again = before.again("web", &pairs, &before, ["eu", "us", "unknown"].into_iter(), at(0));
        assert_eq!(again, Again::These(vec![1, 3]));
    }

    #[test]
    fn a_cluster_that_appears_or_disappears_shifts_the_others() {
        let mut view = cluster_view(fleet());
        let pair = |view: &ClusterView, place: usize| view.places[place].pair.clone();
        let (dev, eu, us) = (pair(&view, 0), pair(&view, 1), pair(&view, 3));
        assert_eq!(view.replace(3, us.clone(), observed_pair("us")), Ok(Some(2)));
        assert_eq!(view.replace(1, eu.clone(), NOTHING), Ok(None));
        assert_eq!(view.replace(1, eu, observed_pair("eu")), Err(Moved));
        assert_eq!(view.replace(0, dev, NOTHING), Err(Moved));
        assert_eq!(view.replace(4, us, observed_pair("us")), Err(Moved));
    }

    #[test]
    fn as_many_clusters_are_kept_as_there_is_room_for_the_latest_first() {
        let sights = ClusterViews::default();
        let key = |name: &str| Key::new("fleet", name);
        let large = || {
            let mut large = cluster_view(fleet());
            let place = large.places[0].clone();
            large.places.resize(MAX_KEPT / 2, place);
            large
        };
        for name in ["a", "b", "c"] {
            sights.keep(key(name), large());
        }
        let mut lost = large();
        lost.basis = None;
        sights.keep(key("d"), lost);
        let kept = ["a", "b", "c", "d", "c"].map(|name| !sights.take(&key(name)).places.is_empty());
        assert_eq!(kept, [false, true, true, false, false]);
    }
}
