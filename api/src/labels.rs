//! Labels, annotations, finalizers, field managers and well-known names: one constant each.

/// Labels that muster writes or reads.
pub mod label {
    /// On our assemblages: the name of their cluster.
    pub const CLUSTER: &str = "fleet.muster.dev/cluster";
    /// On Secrets in a cluster: the management cluster brought it for git, if this is `true`.
    pub const DISTRIBUTED: &str = "fleet.muster.dev/distributed";
    /// On Jobs of plans: the uid of their run.
    pub const PLAN_RUN: &str = "fleet.muster.dev/plan-run";
    /// On our assemblages: [`super::MUSTER`].
    pub const MANAGED_BY: &str = "fleet.muster.dev/managed-by";
    /// On ModuleRevisions: the name of their module.
    pub const MODULE: &str = "fleet.muster.dev/module";
    /// On ModuleRevisions: the kind of their module.
    pub const MODULE_KIND: &str = "fleet.muster.dev/module-kind";
    /// On Flux objects that an assemblage was expanded into: the assemblage's name.
    pub const ASSEMBLAGE: &str = "fleet.muster.dev/assemblage";
    /// On Secrets with a kubeconfig that are not of Cluster API's type.
    pub const KUBECONFIG: &str = "fleet.muster.dev/kubeconfig";
    /// On ConfigMaps of muster's that record which cluster a Cluster's Secret leads to.
    pub const IDENTITY: &str = "fleet.muster.dev/identity";
    /// Kubernetes' recommended label: what manages an object; [`super::MUSTER`] on ours.
    pub const APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Kubernetes' recommended label: what an object is part of; `flux` on Flux's controllers.
    pub const APP_PART_OF: &str = "app.kubernetes.io/part-of";
    /// Cluster API: the cluster that an object, such as a kubeconfig Secret, is of.
    pub const CAPI_CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Flux, on applied objects: the name of their Kustomization.
    pub const KUSTOMIZE_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
    /// Flux, on applied objects: the namespace of their Kustomization.
    pub const KUSTOMIZE_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
    /// rollout-operator, on StatefulSets: the group whose zones are rolled one at a time.
    pub const ROLLOUT_GROUP: &str = "rollout-group";
    /// On the pod of the `muster zones` that leads: the Service of its webhooks selects it.
    pub const ZONES_LEADER: &str = "fleet.muster.dev/zones-leader";
    /// The StatefulSet controller, on pods: the revision of the template that they were made from.
    pub const CONTROLLER_REVISION: &str = "controller-revision-hash";
    /// On objects that are applied through `spec.kubeConfig`: [`crate::names::applied_from`] of the cluster with their Kustomization.
    pub const APPLIED_FROM: &str = "fleet.muster.dev/applied-from";
}

/// Annotations that muster writes or reads.
pub mod annotation {
    /// On a Cluster: its version is changed by ClusterUpgrades, if this is muster.
    pub const UPGRADES: &str = "fleet.muster.dev/upgrades";
    /// On a mirror: the Secrets for git that were brought with it.
    pub const DISTRIBUTED: &str = "fleet.muster.dev/distributed";
    /// Control of a module: nothing new is started.
    pub const PAUSED: &str = "fleet.muster.dev/paused";
    /// Control of a module or Cluster: it is not touched.
    pub const HOLD: &str = "fleet.muster.dev/hold";
    /// Control of a module: clusters that stay at a revision. On a Cluster see [`PIN_PREFIX`].
    pub const PIN: &str = "fleet.muster.dev/pin";
    /// Control of a Cluster: `fleet.muster.dev/pin.<module>` names the revision that it stays at.
    pub const PIN_PREFIX: &str = "fleet.muster.dev/pin.";
    /// Control of a module: a stage is approved.
    pub const APPROVE: &str = "fleet.muster.dev/approve";
    /// Control of a module: a stage is approved, and its soak and gates are not waited for.
    pub const PROMOTE: &str = "fleet.muster.dev/promote";
    /// Of a Node: the UpdatePlan for which `muster machines` cordoned it.
    pub const CORDONED_FOR: &str = "fleet.muster.dev/cordoned-for";
    /// Control of a module: the run is ended.
    pub const ABORT: &str = "fleet.muster.dev/abort";
    /// Control of a module: a condemned revision is tried again.
    pub const RETRY: &str = "fleet.muster.dev/retry";
    /// Control of a module: a mass withdrawal, by its digest, is meant.
    pub const ACKNOWLEDGE_WITHDRAWAL: &str = "fleet.muster.dev/acknowledge-withdrawal";
    /// Control of a module that is being deleted: clusters that are given up.
    pub const ABANDON: &str = "fleet.muster.dev/abandon";
    /// On a NodeModule: nodes that vanished in their change are waited for no more.
    pub const RELEASE: &str = "fleet.muster.dev/release";
    /// On a module: the empty selector, which selects all clusters, is meant.
    pub const SELECT_ALL: &str = "fleet.muster.dev/select-all";
    /// On an `Assemblage`: `<uid of the management cluster's kube-system>/<namespace>/<name>` of its ProxyAssemblage.
    pub const ORIGIN: &str = "fleet.muster.dev/origin";
    /// On a ProxyAssemblage: the old origin of an `Assemblage` that it takes over.
    pub const ADOPT: &str = "fleet.muster.dev/adopt";
    /// On a Cluster: it has no control plane of Cluster API and is usable nevertheless.
    pub const ENROLLED: &str = "fleet.muster.dev/enrolled";
    /// On a Cluster: the uid of the kube-system that its Secret may lead to from now on.
    pub const ACCEPT_IDENTITY: &str = "fleet.muster.dev/accept-identity";
    /// On a Kustomization: an empty path is meant, and prunes everything.
    pub const ALLOW_EMPTY: &str = "fleet.muster.dev/allow-empty";
    /// On a Kustomization: how long custom resources must stay healthy where their controllers give no evidence.
    pub const SETTLE: &str = "fleet.muster.dev/settle";
    /// On a Kustomization: `Never` takes no object to be healthy without evidence.
    pub const ASSUME: &str = "fleet.muster.dev/assume";
    /// On a Module: what is done to the runs of its plan, once, as `CLUSTER@start/PLAN`, `CLUSTER@abort/RUN`, `CLUSTER@retry/RUN/PHASE/STEP` or
    /// `CLUSTER@skip/RUN/PHASE/STEP`, by comma.
    pub const PLAN_RUN: &str = "fleet.muster.dev/plan-run";
    /// On a Kustomization: the digest of the spec of the PlanRun of its name, by which it is carried out.
    pub const PLAN: &str = "fleet.muster.dev/plan";
    /// On an applied StatefulSet or DaemonSet whose pods are replaced by hand: `true` waits until all of them are at the new revision.
    pub const WAIT_FOR_PODS: &str = "fleet.muster.dev/wait-for-pods";
    /// On a ModuleRevision: `notify.fleet.muster.dev/<receiver>` is what a receiver of notifications was told of it.
    pub const TOLD_PREFIX: &str = "notify.fleet.muster.dev/";
    /// Flux: reconcile now; echoed in `status.lastHandledReconcileAt`.
    pub const RECONCILE_REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
    /// Flux, on an applied object: `disabled` leaves it alone.
    pub const KUSTOMIZE_RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
    /// Flux, on an applied object: `disabled` keeps it from being pruned.
    pub const KUSTOMIZE_PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
    /// Flux, on an applied object: `Ignore`, `Merge` or `IfNotPresent`.
    pub const KUSTOMIZE_SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
    /// Flux, on an applied object: `enabled` re-creates it when an immutable field changed.
    pub const KUSTOMIZE_FORCE: &str = "kustomize.toolkit.fluxcd.io/force";
    /// Flux, on an applied object, also as a label: `disabled` leaves variables in it alone.
    pub const KUSTOMIZE_SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";
    /// Cluster API: the cluster is paused.
    pub const CAPI_PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Cluster API: the cluster's infrastructure is managed by something else; `muster` on enrolled Clusters.
    pub const CAPI_MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
}

/// Finalizers that muster sets.
pub mod finalizer {
    /// On modules: rows are withdrawn before the module is gone.
    pub const MODULE: &str = "fleet.muster.dev/withdraw";
    /// On assemblages: their objects are let go before the assemblage is gone.
    pub const ASSEMBLAGE: &str = "fleet.muster.dev/release";
    /// On Kustomizations and GitRepositories that are carried out here; Flux's own word, so that either may finish the other's.
    pub const FLUX: &str = "finalizers.fluxcd.io";
}

/// Field managers of muster's writes.
pub mod manager {
    /// `muster controller`.
    pub const CONTROLLER: &str = "muster-controller";
    /// `muster agent`.
    pub const AGENT: &str = "muster-agent";
    /// What is applied from git.
    pub const SYNC: &str = "muster-sync";
    /// Dry runs that compare what a Kustomization declares with an object that another one holds; it never writes.
    pub const SYNC_COMPARE: &str = "muster-sync-compare";
    /// What Flux's kustomize-controller applies from git.
    pub const FLUX_SYNC: &str = "kustomize-controller";
    /// The version of a Cluster, by a ClusterUpgrade.
    pub const UPGRADES: &str = "muster-upgrades";
    /// What receivers of notifications were told.
    pub const NOTIFY: &str = "muster-notify";
    /// Controls of people; Flux leaves fields of this manager alone, unlike those of `kubectl*`.
    pub const CLI: &str = "muster-cli";
    /// The prefix of managers whose fields Flux takes over.
    pub const KUBECTL_PREFIX: &str = "kubectl";
}

/// The value of the labels `managed-by` on what is ours.
pub const MUSTER: &str = "muster";
/// The category of all kinds of muster: `kubectl get muster`.
pub const CATEGORY: &str = "muster";
/// The namespace of muster in downstream clusters.
pub const SYSTEM_NAMESPACE: &str = "muster-system";
/// The type of Cluster API's Secrets.
pub const CAPI_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// What Cluster API appends to a cluster's name for its kubeconfig Secret.
pub const KUBECONFIG_SUFFIX: &str = "-kubeconfig";
/// The key of a kubeconfig in its Secret.
pub const KUBECONFIG_KEY: &str = "value";
