//! Labels, annotations, finalizers, field managers and well-known names: one constant for each.

/// Labels that muster writes or reads.
pub mod label {
    /// On muster's assemblages: the name of the cluster.
    pub const CLUSTER: &str = "fleet.muster.dev/cluster";
    /// On Secrets in a cluster: `true` if the Secret was distributed from the management cluster for git access.
    pub const DISTRIBUTED: &str = "fleet.muster.dev/distributed";
    /// On Jobs of plans: the uid of the run.
    pub const PLAN_RUN: &str = "fleet.muster.dev/plan-run";
    /// On muster's assemblages: [`super::MUSTER`].
    pub const MANAGED_BY: &str = "fleet.muster.dev/managed-by";
    /// On ModuleRevisions: the name of the module.
    pub const MODULE: &str = "fleet.muster.dev/module";
    /// On ModuleRevisions: the kind of the module.
    pub const MODULE_KIND: &str = "fleet.muster.dev/module-kind";
    /// On Flux objects that were generated from an assemblage: the assemblage's name.
    pub const ASSEMBLAGE: &str = "fleet.muster.dev/assemblage";
    /// On Secrets with a kubeconfig that do not have Cluster API's Secret type.
    pub const KUBECONFIG: &str = "fleet.muster.dev/kubeconfig";
    /// On muster's ConfigMaps that record which cluster the kubeconfig Secret of a Cluster connects to.
    pub const IDENTITY: &str = "fleet.muster.dev/identity";
    /// Kubernetes' recommended label for the tool that manages an object; [`super::MUSTER`] on muster's objects.
    pub const APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Kubernetes' recommended label for the application that an object is part of; `flux` on Flux's controllers.
    pub const APP_PART_OF: &str = "app.kubernetes.io/part-of";
    /// Cluster API: name of the cluster that an object, such as a kubeconfig Secret, belongs to.
    pub const CAPI_CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Flux, on applied objects: the name of the Kustomization.
    pub const KUSTOMIZE_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
    /// Flux, on applied objects: the namespace of the Kustomization.
    pub const KUSTOMIZE_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
    /// rollout-operator, on StatefulSets: the group whose zones are rolled one at a time.
    pub const ROLLOUT_GROUP: &str = "rollout-group";
    /// On the leader pod of `muster zones`: the Service of its webhooks selects this label.
    pub const ZONES_LEADER: &str = "fleet.muster.dev/zones-leader";
    /// StatefulSet controller, on pods: the template revision that the pod was created from.
    pub const CONTROLLER_REVISION: &str = "controller-revision-hash";
    /// On objects that are applied through `spec.kubeConfig`: [`crate::names::applied_from`] of the cluster that
    /// contains the Kustomization.
    pub const APPLIED_FROM: &str = "fleet.muster.dev/applied-from";
}

/// Annotations that muster writes or reads.
pub mod annotation {
    /// On a Cluster: `muster` if ClusterUpgrades may change its version.
    pub const UPGRADES: &str = "fleet.muster.dev/upgrades";
    /// On a mirrored Assemblage: the git Secrets that were distributed with it.
    pub const DISTRIBUTED: &str = "fleet.muster.dev/distributed";
    /// Control of a module: the rollout is paused.
    pub const PAUSED: &str = "fleet.muster.dev/paused";
    /// Control of a module or Cluster: it is left unchanged.
    pub const HOLD: &str = "fleet.muster.dev/hold";
    /// Control of a module: clusters that are pinned to a revision. On a Cluster see [`PIN_PREFIX`].
    pub const PIN: &str = "fleet.muster.dev/pin";
    /// Control of a Cluster: `fleet.muster.dev/pin.<module>` names the revision that the Cluster is pinned to.
    pub const PIN_PREFIX: &str = "fleet.muster.dev/pin.";
    /// Control of a module: a stage is approved.
    pub const APPROVE: &str = "fleet.muster.dev/approve";
    /// Control of a module: a stage is approved, skipping its soak and gates.
    pub const PROMOTE: &str = "fleet.muster.dev/promote";
    /// On a Node: the UpdatePlan for which `muster machines` cordoned the Node.
    pub const CORDONED_FOR: &str = "fleet.muster.dev/cordoned-for";
    /// Control of a module: the run is aborted.
    pub const ABORT: &str = "fleet.muster.dev/abort";
    /// Control of a module: a condemned revision is retried.
    pub const RETRY: &str = "fleet.muster.dev/retry";
    /// Control of a module: acknowledges a mass withdrawal, by its digest.
    pub const ACKNOWLEDGE_WITHDRAWAL: &str = "fleet.muster.dev/acknowledge-withdrawal";
    /// Control of a module that is being deleted: clusters from which the withdrawal is abandoned.
    pub const ABANDON: &str = "fleet.muster.dev/abandon";
    /// On a NodeModule: nodes that disappeared during their change and are no longer waited for.
    pub const RELEASE: &str = "fleet.muster.dev/release";
    /// On a module: confirms that the empty selector, which selects all clusters, is intended.
    pub const SELECT_ALL: &str = "fleet.muster.dev/select-all";
    /// On an `Assemblage`: `<uid of the management cluster's kube-system>/<namespace>/<name>` of its ProxyAssemblage.
    pub const ORIGIN: &str = "fleet.muster.dev/origin";
    /// On a ProxyAssemblage: the previous origin of an `Assemblage` that it takes over.
    pub const ADOPT: &str = "fleet.muster.dev/adopt";
    /// On a Cluster: it is usable although it has no Cluster API control plane.
    pub const ENROLLED: &str = "fleet.muster.dev/enrolled";
    /// On a Cluster: the new uid of the kube-system namespace of the cluster that its kubeconfig Secret may connect to.
    pub const ACCEPT_IDENTITY: &str = "fleet.muster.dev/accept-identity";
    /// On a Kustomization: confirms that an empty path is intended; everything is pruned.
    pub const ALLOW_EMPTY: &str = "fleet.muster.dev/allow-empty";
    /// On a Kustomization: how long custom resources must stay healthy if their controllers give no evidence.
    pub const SETTLE: &str = "fleet.muster.dev/settle";
    /// On a Kustomization: `Never` means that no object is assumed healthy without evidence.
    pub const ASSUME: &str = "fleet.muster.dev/assume";
    /// On a Module: one-time actions on runs of its plan, separated by commas: `CLUSTER@start/PLAN`,
    /// `CLUSTER@abort/RUN`, `CLUSTER@retry/RUN/PHASE/STEP` or `CLUSTER@skip/RUN/PHASE/STEP`.
    pub const PLAN_RUN: &str = "fleet.muster.dev/plan-run";
    /// On a Kustomization that is applied by a plan: the digest of the spec of the PlanRun of the same name.
    pub const PLAN: &str = "fleet.muster.dev/plan";
    /// On an applied StatefulSet or DaemonSet whose pods are replaced manually: `true` waits until all pods are at the
    /// new revision.
    pub const WAIT_FOR_PODS: &str = "fleet.muster.dev/wait-for-pods";
    /// On a ModuleRevision: `notify.fleet.muster.dev/<receiver>` records which notifications of the revision a receiver
    /// has been sent.
    pub const NOTIFIED_PREFIX: &str = "notify.fleet.muster.dev/";
    /// Flux: requests a reconciliation; reported back in `status.lastHandledReconcileAt`.
    pub const RECONCILE_REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
    /// Flux, on an applied object: `disabled` excludes the object from reconciliation.
    pub const KUSTOMIZE_RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
    /// Flux, on an applied object: `disabled` excludes the object from pruning.
    pub const KUSTOMIZE_PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
    /// Flux, on an applied object: `Ignore`, `Merge` or `IfNotPresent`.
    pub const KUSTOMIZE_SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
    /// Flux, on an applied object: `enabled` re-creates the object when an immutable field changed.
    pub const KUSTOMIZE_FORCE: &str = "kustomize.toolkit.fluxcd.io/force";
    /// Flux, on an applied object, also as a label: `disabled` turns off variable substitution in the object.
    pub const KUSTOMIZE_SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";
    /// Cluster API: the cluster is paused.
    pub const CAPI_PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Cluster API: the cluster's infrastructure is managed externally; `muster` on enrolled Clusters.
    pub const CAPI_MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
}

/// Finalizers that muster sets.
pub mod finalizer {
    /// On modules: the rows are withdrawn before the module is removed.
    pub const MODULE: &str = "fleet.muster.dev/withdraw";
    /// On assemblages: their objects are released before the assemblage is removed.
    pub const ASSEMBLAGE: &str = "fleet.muster.dev/release";
    /// On Kustomizations and GitRepositories that muster reconciles; the same as Flux's finalizer, so that either can
    /// finalize the objects of the other.
    pub const FLUX: &str = "finalizers.fluxcd.io";
}

/// Field managers of muster's writes.
pub mod manager {
    /// `muster controller`.
    pub const CONTROLLER: &str = "muster-controller";
    /// `muster agent`.
    pub const AGENT: &str = "muster-agent";
    /// Applies objects from git.
    pub const SYNC: &str = "muster-sync";
    /// Dry runs that compare what a Kustomization declares with an object that another Kustomization owns; nothing is
    /// persisted.
    pub const SYNC_COMPARE: &str = "muster-sync-compare";
    /// Flux's kustomize-controller when it applies objects from git.
    pub const FLUX_SYNC: &str = "kustomize-controller";
    /// Writes the version of a Cluster for a ClusterUpgrade.
    pub const UPGRADES: &str = "muster-upgrades";
    /// Records which notifications receivers have been sent.
    pub const NOTIFY: &str = "muster-notify";
    /// Writes controls on behalf of users; Flux leaves fields of this manager alone, unlike those of `kubectl*`.
    pub const CLI: &str = "muster-cli";
    /// Prefix of field managers whose fields Flux takes over.
    pub const KUBECTL_PREFIX: &str = "kubectl";
}

/// Value of the labels `managed-by` on muster's objects.
pub const MUSTER: &str = "muster";
/// The category of all muster kinds: `kubectl get muster`.
pub const CATEGORY: &str = "muster";
/// The namespace of muster in downstream clusters.
pub const SYSTEM_NAMESPACE: &str = "muster-system";
/// The type of Cluster API's Secrets.
pub const CAPI_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// Suffix that Cluster API appends to a cluster's name for its kubeconfig Secret.
pub const KUBECONFIG_SUFFIX: &str = "-kubeconfig";
/// The key of the kubeconfig in its Secret.
pub const KUBECONFIG_KEY: &str = "value";
