//! What was made of a module's clusters, kept from one decision to the next: only what changed is made again. Pure.
//!
//! ```text
//!   clusters, assemblages ─► Pairs ─┐
//!   Basis (spec, target, …) ────────┼─► Sight::again ─► the places that are to be made again, or all
//!   the Sight of before ────────────┘
//! ```
//!
//! Invariant: a sight that was kept is the one that would be made anew. What rests on the time, on what people say, on an object that is
//! read, or on another module is made each time.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    contents::Units,
    facts::{ClusterSeen, Definition},
    rows::{AssemblageRow, Head, is_same},
    windows,
};
use crate::{registry::ClusterRow, runtime::Key};

/// Clusters that are kept in sight, of all modules together: about 1 KiB each.
const MAX_KEPT: usize = 50_000;

/// What the sight of every cluster rests on, besides its own rows.
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

/// A cluster and the assemblage of its name; one of them may be missing.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The cluster.
    pub cluster: Option<Arc<ClusterRow>>,
    /// The assemblage, whosever it is.
    pub assemblage: Option<Arc<AssemblageRow>>,
}

impl Pair {
    fn name(&self) -> &str {
        let assemblage = || self.assemblage.as_ref().map_or("", |row| row.head.name.as_str());
        self.cluster
            .as_ref()
            .map_or_else(assemblage, |cluster| cluster.name.as_str())
    }

    /// The same to a module.
    fn is(&self, other: &Self, module: &str) -> bool {
        let assemblages = match (&self.assemblage, &other.assemblage) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.is_same_to(module, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        assemblages && is_same(self.cluster.as_ref(), other.cluster.as_ref())
    }
}

/// Clusters and assemblages by name; both are in that order. `before` makes it faster where nothing changed: names are not read.
pub(crate) fn pairs(
    clusters: Vec<Arc<ClusterRow>>,
    assemblages: Vec<Arc<AssemblageRow>>,
    before: &Sight,
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

/// One cluster in sight.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// What is seen of it. None: the module is not about it.
    pub cluster: Option<ClusterSeen>,
    /// It rests on more than its pair and the basis.
    pub fleeting: bool,
}

/// What became of a pair.
#[derive(Clone, Debug)]
struct Place {
    pair: Pair,
    /// Where it stands among the clusters; none: the module is not about it.
    cluster: Option<usize>,
    fleeting: bool,
}

/// A module's clusters in sight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    /// None: nothing of it outlives this decision.
    basis: Option<Basis>,
    places: Vec<Place>,
    /// The clusters, by name.
    pub clusters: Vec<ClusterSeen>,
    /// They as units.
    pub units: Units,
}

/// What of a sight is to be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Everything.
    All,
    /// These pairs.
    These(Vec<usize>),
}

impl Sight {
    /// An empty one.
    pub(crate) fn new(basis: Option<Basis>) -> Self {
        Self {
            basis,
            ..Self::default()
        }
    }

    /// Which of these pairs must be read, if this is to become what `module` sees of them on the basis of `new`, while these clusters are
    /// being changed, and the windows are asked at this instant.
    pub(crate) fn again<'a>(
        &self,
        module: &str,
        pairs: &[Pair],
        new: &Self,
        charged: impl Iterator<Item = &'a str>,
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
            // Who is being changed comes in sight, though nothing else tells of it.
            let place = |name: &str| pairs.binary_search_by(|pair| pair.name().cmp(name));
            let places = charged.filter_map(|name| place(name).ok());
            again.extend(places);
            again.sort_unstable();
            again.dedup();
        }
        Again::These(again)
    }

    /// What its windows say may be something else by now.
    fn has_window_change(&self, place: &Place, now: Timestamp) -> bool {
        let cluster = place.cluster.and_then(|cluster| self.clusters.get(cluster));
        let change = cluster.and_then(|cluster| cluster.window_change);
        change.is_some_and(|at| at <= now)
    }

    /// Adds the next pair.
    pub(crate) fn push(&mut self, pair: Pair, seen: Seen) {
        let place = Place {
            pair,
            cluster: seen.cluster.is_some().then_some(self.clusters.len()),
            fleeting: seen.fleeting,
        };
        self.clusters.extend(seen.cluster);
        self.places.push(place);
    }

    /// Goes on from these pairs, all of which were the same to the module or read again: no old version is kept for the next decision.
    pub(crate) fn adopt(&mut self, pairs: Vec<Pair>) {
        for (place, pair) in self.places.iter_mut().zip(pairs) {
            place.pair = pair;
        }
    }

    /// Puts a pair that was looked at again in its place; returns where its cluster stands. An error: it came in sight, or went out
    /// of it, so that the others have other places.
    pub(crate) fn replace(&mut self, place: usize, pair: Pair, seen: Seen) -> Result<Option<usize>, Moved> {
        let place = self.places.get_mut(place).ok_or(Moved)?;
        let cluster = place.cluster.and_then(|cluster| self.clusters.get_mut(cluster));
        match (cluster, seen.cluster) {
            (Some(cluster), Some(seen)) => *cluster = seen,
            (None, None) => {}
            _ => return Err(Moved),
        }
        place.pair = pair;
        place.fleeting = seen.fleeting;
        Ok(place.cluster)
    }
}

/// The places are not the same any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved;

/// The sights of modules that decided lately, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Sights(Mutex<Vec<(Key, Sight)>>);

impl Sights {
    /// The sight that was kept for a module, if it was; it is not kept any more.
    pub(crate) fn take(&self, module: &Key) -> Sight {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|(key, _)| key == module);
        place.map(|place| kept.remove(place).1).unwrap_or_default()
    }

    /// Keeps a sight for the next decision of a module.
    pub(crate) fn keep(&self, module: Key, sight: Sight) {
        if sight.basis.is_none() {
            return;
        }
        let mut kept = self.0.lock();
        let mut all: usize = kept.iter().map(|(_, sight)| sight.places.len()).sum();
        all = all.saturating_add(sight.places.len());
        let room = kept.iter().take_while(|(_, old)| {
            let over = all > MAX_KEPT;
            all = all.saturating_sub(if over { old.places.len() } else { 0 });
            over
        });
        let surplus = room.count();
        kept.drain(..surplus);
        kept.push((module, sight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{module::facts::CarrierSeen, registry::ClusterState};

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

    fn seen(name: &str) -> Seen {
        Seen {
            cluster: Some(ClusterSeen {
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
                heard: Vec::new(),
                carrier: CarrierSeen::default(),
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

    const NOTHING: Seen = Seen {
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

    /// `dev` and `us` are clusters of a module, `eu` is none of it, and of `gone` there is only an assemblage.
    fn fleet() -> (Clusters, Assemblages) {
        let clusters = ["dev", "eu", "us"].map(cluster).to_vec();
        (clusters, ["dev", "gone", "us"].map(assemblage).to_vec())
    }

    fn sight((clusters, assemblages): (Clusters, Assemblages)) -> Sight {
        let mut sight = Sight {
            basis: Some(basis(1)),
            ..Sight::default()
        };
        for pair in pairs(clusters, assemblages, &Sight::default()) {
            let seen = if pair.name() == "eu" {
                NOTHING
            } else {
                seen(pair.name())
            };
            sight.push(pair, seen);
        }
        sight
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
        let before = sight((clusters.clone(), assemblages.clone()));
        let check = |before: &Sight| {
            let pairs = pairs(clusters.clone(), assemblages.clone(), before);
            assert_eq!(names(&pairs), expect);
        };
        check(&Sight::default());
        check(&before);
        // One that joined before all others, one that left, and one whose assemblage is new.
        let joined = [vec![cluster("alpha")], clusters.clone()].concat();
        check(&sight((joined, assemblages.clone())));
        check(&sight((clusters[1..].to_vec(), assemblages.clone())));
        check(&sight((clusters.clone(), assemblages[1..].to_vec())));
    }

    #[test]
    fn only_what_changed_is_looked_at_again() {
        let check = |change: &dyn Fn(&mut Sight, &mut Clusters, &mut Assemblages), expect: Again| {
            let (mut clusters, mut assemblages) = fleet();
            let mut before = sight((clusters.clone(), assemblages.clone()));
            change(&mut before, &mut clusters, &mut assemblages);
            let pairs = pairs(clusters, assemblages, &before);
            let new = Sight {
                basis: Some(basis(1)),
                ..Sight::default()
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
            move |before: &mut Sight, _: &mut Clusters, _: &mut Assemblages| {
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
    fn who_is_being_changed_is_looked_at_again_though_it_is_out_of_sight() {
        let (clusters, assemblages) = fleet();
        let before = sight((clusters.clone(), assemblages.clone()));
        let pairs = pairs(clusters, assemblages, &before);
        let again = before.again("web", &pairs, &before, ["eu", "us", "unknown"].into_iter(), at(0));
        assert_eq!(again, Again::These(vec![1, 3]));
    }

    #[test]
    fn who_comes_in_sight_or_goes_out_of_it_moves_the_others() {
        let mut sight = sight(fleet());
        let pair = |sight: &Sight, place: usize| sight.places[place].pair.clone();
        let (dev, eu, us) = (pair(&sight, 0), pair(&sight, 1), pair(&sight, 3));
        assert_eq!(sight.replace(3, us.clone(), seen("us")), Ok(Some(2)));
        assert_eq!(sight.replace(1, eu.clone(), NOTHING), Ok(None));
        assert_eq!(sight.replace(1, eu, seen("eu")), Err(Moved));
        assert_eq!(sight.replace(0, dev, NOTHING), Err(Moved));
        assert_eq!(sight.replace(4, us, seen("us")), Err(Moved));
    }

    #[test]
    fn as_many_clusters_are_kept_as_there_is_room_for_the_latest_first() {
        let sights = Sights::default();
        let key = |name: &str| Key::new("fleet", name);
        let large = || {
            let mut large = sight(fleet());
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
