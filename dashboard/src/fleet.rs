//! The fleet as one value: every module on every cluster.

use std::{collections::BTreeMap, sync::Arc};

use kube::{ResourceExt, core::DynamicObject};
use muster_api::{
    assemblage::{AssemblageStatus, TargetedAssemblageSpec},
    module::ModuleObject,
};

use crate::{
    Fleet, Kind, Member, ModuleRef, ModuleView, Objects,
    group::natural,
    rolling::{Rolling, Row},
    upgrades::Upgradable,
};

impl Objects {
    /// A module, as pages show it.
    pub fn module(&self, module: &ModuleRef) -> Option<Rolling<'_>> {
        fn find<'a, K: ModuleObject>(all: &'a [Arc<K>], name: &str) -> Option<Rolling<'a>> {
            let found = all.iter().find(|module| module.name_any() == name)?;
            Some(Rolling::of(&**found))
        }
        match module.kind {
            Kind::Module => find(&self.modules, &module.name),
            Kind::BootstrapModule => find(&self.bootstrap_modules, &module.name),
            Kind::ClusterUpgrade => {
                let mut all = self.upgrades.iter();
                let found = all.find(|upgrade| upgrade.name_any() == module.name)?;
                Some(Rolling::of_upgrade(found))
            }
            Kind::NodeModule => self.nodes.module(&module.name).map(Rolling::of_nodes),
        }
    }
}

impl Fleet {
    /// Computes the view.
    pub fn of(objects: &Objects) -> Self {
        let Objects {
            modules,
            bootstrap_modules,
            upgrades,
            proxies,
            remotes,
            clusters,
            ..
        } = objects;
        let mut members: Vec<Member> = clusters
            .iter()
            .map(|cluster| Member {
                name: cluster.name_any(),
                labels: cluster.labels().clone(),
            })
            .collect();
        members.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        let proxied = rows(
            proxies
                .iter()
                .map(|proxy| (proxy.name_any(), &proxy.spec, proxy.status.as_ref())),
        );
        let remote = rows(
            remotes
                .iter()
                .map(|remote| (remote.name_any(), &remote.spec, remote.status.as_ref())),
        );
        let mut views: Vec<ModuleView> = modules
            .iter()
            .map(|module| module_view(&**module, &members, &proxied))
            .collect();
        views.extend(
            bootstrap_modules
                .iter()
                .map(|module| module_view(&**module, &members, &remote)),
        );
        if !upgrades.is_empty() {
            let by_name: BTreeMap<String, &DynamicObject> = clusters
                .iter()
                .map(|cluster| (cluster.name_any(), &**cluster))
                .collect();
            views.extend(upgrades.iter().map(|upgrade| {
                let rows = members
                    .iter()
                    .map(|member| Upgradable::of(by_name.get(&member.name)?, upgrade));
                Rolling::of_upgrade(upgrade).view(&members, rows.collect())
            }));
        }
        views.sort_by(|a, b| (a.kind, natural(&a.name)).cmp(&(b.kind, natural(&b.name))));
        Self {
            kind: Kind::Module,
            clusters: members,
            modules: views,
        }
    }
}

/// Assignments by cluster and sync.
type Rows<'a> = BTreeMap<(String, &'a str), Row<'a>>;

fn rows<'a>(
    assemblages: impl Iterator<Item = (String, &'a TargetedAssemblageSpec, Option<&'a AssemblageStatus>)>,
) -> Rows<'a> {
    let mut rows = Rows::new();
    for (name, spec, status) in assemblages {
        for row in &spec.syncs {
            rows.insert((name.clone(), &row.name), Row::reported(row, status));
        }
    }
    rows
}

fn module_view<K: ModuleObject>(module: &K, members: &[Member], rows: &Rows<'_>) -> ModuleView {
    let name = module.name_any();
    let rows = members
        .iter()
        .map(|member| rows.get(&(member.name.clone(), &*name)).copied());
    Rolling::of(module).view(members, rows.collect())
}
