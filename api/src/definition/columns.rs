//! The columns that `kubectl get` shows for each kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

const READY_STATUS: &str = r#".status.conditions[?(@.type=="Ready")].status"#;
const READY_REASON: &str = r#".status.conditions[?(@.type=="Ready")].reason"#;
const READY_MESSAGE: &str = r#".status.conditions[?(@.type=="Ready")].message"#;

/// Columns of Module and BootstrapModule.
pub fn module_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Version",
            "string",
            ".spec.sync.source..['tag','commit','digest']",
            "The requested tag, commit or digest.",
        ),
        column(
            "Updated",
            "string",
            ".status.summary.clusters",
            "Clusters that are confirmed at the target revision, out of all selected ones.",
        ),
        column(
            "Ready",
            "integer",
            ".status.summary.ready",
            "Clusters that are ready at any revision.",
        ),
        column(
            "Failed",
            "integer",
            ".status.summary.failed",
            "Clusters that failed.",
        ),
        column(
            "Status",
            "string",
            ".status.state",
            "The reason of Ready, plus Paused, Held or Pinned if the module is paused, or a cluster is held or pinned.",
        ),
        age(),
        wide("Revision", "string", ".status.revision", "The target revision."),
        wide(
            "Skipped",
            "integer",
            ".status.summary.skipped",
            "Clusters that cannot be changed now.",
        ),
        wide("Message", "string", READY_MESSAGE, "The message of Ready."),
    ]
}

/// Columns of ProxyAssemblage and RemoteAssemblage.
pub fn targeted_assemblage() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Cluster",
            "string",
            ".spec.clusterRef.name",
            "The cluster that the syncs are for.",
        ),
        column("Ready", "string", READY_STATUS, "Whether all syncs are ready."),
        column("Status", "string", READY_REASON, "The reason of Ready."),
        age(),
        wide("Message", "string", READY_MESSAGE, "The message of Ready."),
    ]
}

/// Columns of Assemblage.
pub fn assemblage() -> Vec<CustomResourceColumnDefinition> {
    targeted_assemblage()
        .into_iter()
        .filter(|column| column.name != "Cluster")
        .collect()
}

/// Columns of ClusterUpgrade.
pub fn cluster_upgrade() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Version",
            "string",
            ".spec.target.kubernetes",
            "The target version.",
        ),
        column(
            "Updated",
            "string",
            ".status.summary.clusters",
            "Clusters that are confirmed at the target revision, out of all selected ones.",
        ),
        column(
            "Failed",
            "integer",
            ".status.summary.failed",
            "Clusters that failed.",
        ),
        column(
            "Status",
            "string",
            ".status.state",
            "The reason of Ready, plus Paused or Held where they apply.",
        ),
        age(),
        wide(
            "Updating",
            "integer",
            ".status.summary.updating",
            "Clusters that are changing.",
        ),
        wide(
            "Skipped",
            "integer",
            ".status.summary.skipped",
            "Clusters that cannot be changed now.",
        ),
        wide("Message", "string", READY_MESSAGE, "The message of Ready."),
    ]
}

/// Columns of UpdatePlan.
pub fn update_plan() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Source",
            "string",
            ".spec.source",
            "The Machine, or the old MachineSet, that is updated.",
        ),
        column(
            "Updated",
            "string",
            ".status.updated",
            "Updated Machines, out of all Machines of the plan.",
        ),
        age(),
        wide("Target", "string", ".spec.target", "The new MachineSet."),
        wide(
            "To",
            "string",
            ".spec.to",
            "The digest that the updaters acknowledge.",
        ),
    ]
}

/// Columns of PlanRun.
pub fn plan_run() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Plan",
            "string",
            ".status.run.plan",
            "The plan of the current or last run.",
        ),
        column("Status", "string", ".status.run.status", "State of the run."),
        column("Since", "date", ".status.run.since", "When the run started."),
        age(),
        wide(
            "Revision",
            "string",
            ".status.run.revision",
            "The source revision of the run.",
        ),
        wide("Run", "string", ".status.run.uid", "The uid of the run."),
    ]
}

/// Columns of ModuleRevision.
pub fn module_revision_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Module", "string", ".spec.moduleRef.name", "The module."),
        column(
            "Version",
            "string",
            ".spec.sync.source..['tag','commit','digest']",
            "The requested tag, commit or digest.",
        ),
        column(
            "Verdict",
            "string",
            ".status.verdict",
            "The outcome of the rollout.",
        ),
        column(
            "Clusters",
            "string",
            ".status.counts.clusters",
            "Updated clusters out of all selected ones when the rollout ended.",
        ),
        column("Started", "date", ".status.started", "When the rollout started."),
        age(),
        wide("Kind", "string", ".spec.moduleRef.kind", "The module's kind."),
        wide(
            "Commit",
            "string",
            ".spec.commit",
            "The commit that the version resolved to, or the digits of the digest.",
        ),
        wide("Revision", "string", ".spec.revision", "The revision's hash."),
        wide("Finished", "date", ".status.finished", "When the rollout ended."),
        wide(
            "Message",
            "string",
            READY_MESSAGE,
            "Clusters that failed, and why, if the revision is bad.",
        ),
    ]
}

/// Columns of RolloutWindow.
pub fn rollout_window() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Open",
            "boolean",
            ".status.open",
            "Whether changes may start now.",
        ),
        column(
            "Next Change",
            "string",
            ".status.nextChange",
            "When the window opens or closes next.",
        ),
        column(
            "Clusters",
            "integer",
            ".status.clusters",
            "Clusters that the window selects.",
        ),
        column("Ready", "string", READY_STATUS, "Whether the window is valid."),
        age(),
        wide("Why", "string", ".spec.message", "Why the window exists."),
        wide("Message", "string", READY_MESSAGE, "The message of Ready."),
    ]
}

/// Columns of ZoneRollout.
pub fn zone_rollout_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Group",
            "string",
            ".spec.group",
            "The value of the label rollout-group.",
        ),
        column(
            "Done",
            "integer",
            ".status.progress.done",
            "Pods that are Ready at the revision of their StatefulSet.",
        ),
        column(
            "Pods",
            "integer",
            ".status.progress.total",
            "Desired number of pods of all StatefulSets.",
        ),
        column(
            "Operation",
            "string",
            ".status.operation.kind",
            "The operation in progress.",
        ),
        column(
            "Set",
            "string",
            ".status.operation.set",
            "The StatefulSet of the operation.",
        ),
        column("Ready", "string", READY_STATUS, "Whether all zones are done."),
        column("Reason", "string", READY_REASON, "The reason of Ready."),
        age(),
        wide(
            "Waiting",
            "string",
            ".status.progress.waiting",
            "The pause or soak that the rollout waits for.",
        ),
        wide(
            "Message",
            "string",
            READY_MESSAGE,
            "The first zone that is not done, and why.",
        ),
    ]
}

fn age() -> CustomResourceColumnDefinition {
    column(
        "Age",
        "date",
        ".metadata.creationTimestamp",
        "When the object was created.",
    )
}

fn wide(name: &str, type_: &str, path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        priority: Some(1),
        ..column(name, type_, path, description)
    }
}

/// Columns of NodeModule.
pub fn node_module_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Updated",
            "string",
            ".status.summary.nodes",
            "Nodes that are confirmed at the target revision, out of all selected ones.",
        ),
        column(
            "Ready",
            "integer",
            ".status.summary.ready",
            "Nodes that are confirmed at any revision.",
        ),
        column(
            "Failed",
            "integer",
            ".status.summary.failed",
            "Nodes that failed.",
        ),
        column(
            "Status",
            "string",
            ".status.state",
            "The reason of Ready, plus Paused, Held or Pinned where they apply.",
        ),
        age(),
        wide("Revision", "string", ".status.revision", "The target revision."),
        wide(
            "Skipped",
            "integer",
            ".status.summary.skipped",
            "Nodes that cannot be changed now.",
        ),
        wide("Message", "string", READY_MESSAGE, "The message of Ready."),
    ]
}

/// Columns of NodeRevision.
pub fn node_revision_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "NodeModule",
            "string",
            ".spec.module",
            "The NodeModule that the revision belongs to.",
        ),
        column("Revision", "string", ".spec.revision", "The hash of the content."),
        column(
            "Verdict",
            "string",
            ".status.verdict",
            "The outcome of the rollout.",
        ),
        age(),
    ]
}

/// Columns of NodeAssemblage.
pub fn node_assemblage() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Ready", "string", READY_STATUS, "Whether every row is applied."),
        column("Status", "string", READY_REASON, "The reason of Ready."),
        column(
            "Agent",
            "string",
            ".status.agent.version",
            "The version of the node's agent.",
        ),
        age(),
        wide("Message", "string", READY_MESSAGE, "The message of Ready."),
    ]
}

/// Columns of NodeBudget.
pub fn node_budget() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Control-Plane",
            "string",
            ".spec.controlPlane",
            "Nodes of the control plane that may be changing or not ready.",
        ),
        column(
            "Workers",
            "string",
            ".spec.workers",
            "Other nodes that may be changing or not ready.",
        ),
        column(
            "Changing",
            "string",
            ".status.claims[*].node",
            "The nodes that are being changed.",
        ),
        age(),
    ]
}

fn column(name: &str, type_: &str, path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        description: Some(description.to_owned()),
        ..Default::default()
    }
}
