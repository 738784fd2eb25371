//! The first table, by group and kind.
//!
//! `failed` ends the wait at once. It is set only where the controller reports that it gave up on the object's own
//! spec, never where it retries or where the failure may come from an earlier version of something else.

use super::Entry;

/// The conditions of prometheus-operator: it updates pods one by one, and sets the generation that the condition is
/// about.
const PROMETHEUS_OPERATOR: &str = "has(status.conditions) && ['Available', 'Reconciled'].all(t, status.conditions.exists(c, c.type == t && c.status == 'True' && (!has(c.observedGeneration) || c.observedGeneration == metadata.generation))) && status.?updatedReplicas.orValue(0) == status.?replicas.orValue(-1)";

/// As many parents as the route names have accepted this generation, and none reports a problem.
const ROUTE: &str = "has(status.parents) && size(status.parents) > 0 && status.parents.filter(p, p.conditions.exists(c, c.type == 'Accepted' && c.status == 'True' && (!has(c.observedGeneration) || c.observedGeneration == metadata.generation))).size() >= size(spec.?parentRefs.orValue([])) && !status.parents.exists(p, p.conditions.exists(c, c.type in ['Accepted', 'ResolvedRefs', 'Programmed'] && c.status != 'True' && (!has(c.observedGeneration) || c.observedGeneration == metadata.generation)))";

/// The condition of a completed Tekton run.
const SUCCEEDED: &str =
    "has(status.conditions) && status.conditions.exists(c, c.type == 'Succeeded' && c.status == 'True')";

/// The condition of a Tekton run that failed, was cancelled or timed out.
const NOT_SUCCEEDED: &str =
    "has(status.conditions) && status.conditions.exists(c, c.type == 'Succeeded' && c.status == 'False')";

/// The state of a database managed by Percona's operators.
const PERCONA: &str = "status.?state.orValue('') == (spec.?pause.orValue(false) ? 'paused' : 'ready')";

/// Version 1 of the table.
pub const V1: &[Entry] = &[
    Entry {
        api_version: "acid.zalan.do/v1",
        kind: "postgresql",
        operator: "postgres-operator (Zalando)",
        versions: "v1; its list of states, and statuses of 2024",
        why: "no conditions: `PostgresClusterStatus` says it",
        in_progress: None,
        failed: Some(
            "status.?PostgresClusterStatus.orValue('') in ['CreateFailed', 'UpdateFailed', 'Invalid']",
        ),
        current: "status.?PostgresClusterStatus.orValue('') == 'Running'",
    },
    Entry {
        api_version: "argoproj.io/v1alpha1",
        kind: "Rollout",
        operator: "Argo Rollouts",
        versions: "v1alpha1; statuses of 1.0 (2021)",
        why: "no condition `Ready`, and `observedGeneration` is a text",
        in_progress: Some(
            "!has(status.observedGeneration) || string(status.observedGeneration) != string(metadata.generation) || (has(spec.workloadRef) && metadata.?annotations[?'rollout.argoproj.io/workload-generation'].orValue('') != status.?workloadObservedGeneration.orValue(''))",
        ),
        failed: Some("status.?phase.orValue('') == 'Degraded'"),
        current: "status.?phase.orValue('') == 'Healthy'",
    },
    Entry {
        api_version: "ceph.rook.io/v1",
        kind: "CephCluster",
        operator: "Rook",
        versions: "v1; statuses of Ceph 19.2 (2025)",
        why: "no condition at all until it was created once, and none for the health of Ceph",
        in_progress: None,
        failed: None,
        current: "status.?phase.orValue('') in ['Ready', 'Connected'] && status.?state.orValue('') in ['Created', 'Connected'] && status.?ceph.?health.orValue('') == 'HEALTH_OK'",
    },
    Entry {
        api_version: "elasticsearch.k8s.elastic.co/v1",
        kind: "Elasticsearch",
        operator: "Elastic Cloud on Kubernetes",
        versions: "v1; statuses of Elasticsearch 7.12",
        why: "no condition `Ready`: `phase` and `health` say it; yellow is the best that a single node can be",
        in_progress: None,
        failed: Some("status.?phase.orValue('') == 'Invalid'"),
        current: "status.?phase.orValue('') == 'Ready' && (status.?health.orValue('') == 'green' || (status.?health.orValue('') == 'yellow' && status.?availableNodes.orValue(0) == 1))",
    },
    Entry {
        api_version: "flagger.app/v1beta1",
        kind: "Canary",
        operator: "Flagger",
        versions: "v1beta1; its list of phases, and statuses of 1.0 (2020)",
        why: "no condition `Ready`: `phase` says it. A failure may be of the version before, and is waited out",
        in_progress: None,
        failed: None,
        current: "status.?phase.orValue('') in ['Initialized', 'Succeeded'] && status.?lastAppliedSpec.orValue('') == status.?lastPromotedSpec.orValue('-')",
    },
    Entry {
        api_version: "gateway.networking.k8s.io/v1",
        kind: "GRPCRoute",
        operator: "Gateway API",
        versions: "v1; statuses of 2023 and 2025",
        why: "its conditions are those of its parents",
        in_progress: None,
        failed: None,
        current: ROUTE,
    },
    Entry {
        api_version: "gateway.networking.k8s.io/v1",
        kind: "Gateway",
        operator: "Gateway API",
        versions: "v1; statuses of 2023",
        why: "no condition `Ready`: `Accepted`, `Programmed` and those of its listeners say it",
        in_progress: None,
        failed: None,
        current: "has(status.conditions) && ['Accepted', 'Programmed'].all(t, status.conditions.exists(c, c.type == t && c.status == 'True' && (!has(c.observedGeneration) || c.observedGeneration == metadata.generation))) && status.?listeners.orValue([]).all(l, l.conditions.all(c, !(c.type in ['Accepted', 'Programmed', 'ResolvedRefs']) || c.status == 'True'))",
    },
    Entry {
        api_version: "gateway.networking.k8s.io/v1",
        kind: "HTTPRoute",
        operator: "Gateway API",
        versions: "v1; statuses of 2023 and of Envoy Gateway (2025)",
        why: "its conditions are those of its parents",
        in_progress: None,
        failed: None,
        current: ROUTE,
    },
    Entry {
        api_version: "jaegertracing.io/v1",
        kind: "Jaeger",
        operator: "Jaeger Operator",
        versions: "v1; statuses of 1.17",
        why: "no conditions: `phase` says it",
        in_progress: None,
        failed: Some("status.?phase.orValue('') == 'Failed'"),
        current: "status.?phase.orValue('') == 'Running'",
    },
    Entry {
        api_version: "kubevirt.io/v1",
        kind: "VirtualMachine",
        operator: "KubeVirt",
        versions: "v1; statuses of 2021",
        why: "`Ready` is False while a machine is stopped, also where it is to be stopped",
        in_progress: None,
        failed: None,
        current: "status.?printableStatus.orValue('') == 'Stopped' ? spec.?running.orValue(true) == false || spec.?runStrategy.orValue('') in ['Halted', 'Manual'] : status.?printableStatus.orValue('') == 'Running' && status.?ready.orValue(false) && spec.?running.orValue(true) && spec.?runStrategy.orValue('') != 'Halted'",
    },
    Entry {
        api_version: "minio.min.io/v2",
        kind: "Tenant",
        operator: "MinIO Operator",
        versions: "v2; statuses of Argo CD's health tests",
        why: "no conditions: `currentState` says it",
        in_progress: None,
        failed: Some(
            "status.?currentState.orValue('') in ['Statefulset not controlled by operator', 'Another MinIO Tenant already exists in the namespace', 'Different versions across MinIO Pools']",
        ),
        current: "status.?currentState.orValue('') == 'Initialized' && status.?healthStatus.orValue('green') in ['green', '']",
    },
    Entry {
        api_version: "monitoring.coreos.com/v1",
        kind: "Alertmanager",
        operator: "Prometheus Operator",
        versions: "v1; statuses of 2022",
        why: "no condition `Ready`: `Available` and `Reconciled` say it",
        in_progress: None,
        failed: None,
        current: PROMETHEUS_OPERATOR,
    },
    Entry {
        api_version: "monitoring.coreos.com/v1",
        kind: "Prometheus",
        operator: "Prometheus Operator",
        versions: "v1; statuses of 2022, Prometheus 2.37",
        why: "no condition `Ready`: `Available` and `Reconciled` say it",
        in_progress: None,
        failed: None,
        current: PROMETHEUS_OPERATOR,
    },
    Entry {
        api_version: "monitoring.coreos.com/v1",
        kind: "ThanosRuler",
        operator: "Prometheus Operator",
        versions: "v1; statuses of 2022",
        why: "no condition `Ready`: `Available` and `Reconciled` say it",
        in_progress: None,
        failed: None,
        current: PROMETHEUS_OPERATOR,
    },
    Entry {
        api_version: "operators.coreos.com/v1alpha1",
        kind: "Subscription",
        operator: "Operator Lifecycle Manager",
        versions: "v1alpha1; statuses of 2021 and 2025",
        why: "no condition `Ready`: `state` says it; with manual approval an installed operator may wait for the next one",
        in_progress: None,
        failed: Some(
            "has(status.conditions) && status.conditions.exists(c, c.type == 'InstallPlanFailed' && c.status == 'True')",
        ),
        current: "status.?state.orValue('') == 'AtLatestKnown' || (spec.?installPlanApproval.orValue('') == 'Manual' && has(status.installedCSV))",
    },
    Entry {
        api_version: "psmdb.percona.com/v1",
        kind: "PerconaServerMongoDB",
        operator: "Percona Operator for MongoDB",
        versions: "v1; statuses of Argo CD's health tests",
        why: "no condition `Ready`: `state` says it; after an error it tries again",
        in_progress: None,
        failed: None,
        current: PERCONA,
    },
    Entry {
        api_version: "pxc.percona.com/v1",
        kind: "PerconaXtraDBCluster",
        operator: "Percona Operator for MySQL (XtraDB Cluster)",
        versions: "v1; statuses of XtraDB Cluster 8.0",
        why: "no condition `Ready`: `state` says it; after an error it tries again",
        in_progress: None,
        failed: None,
        current: PERCONA,
    },
    Entry {
        api_version: "rabbitmq.com/v1beta1",
        kind: "RabbitmqCluster",
        operator: "RabbitMQ Cluster Operator",
        versions: "v1beta1; its status in source, and statuses of RabbitMQ 3.10 (2023)",
        why: "no condition `Ready`: `AllReplicasReady`, `ClusterAvailable` and `ReconcileSuccess` say it",
        in_progress: None,
        failed: None,
        current: "has(status.conditions) && status.conditions.exists(c, c.type == 'ReconcileSuccess' && c.status == 'True') && (spec.?replicas.orValue(1) == 0 || ['AllReplicasReady', 'ClusterAvailable'].all(t, status.conditions.exists(c, c.type == t && c.status == 'True')))",
    },
    Entry {
        api_version: "snapshot.storage.k8s.io/v1",
        kind: "VolumeSnapshot",
        operator: "external-snapshotter",
        versions: "v1; statuses of 2023",
        why: "no conditions: `readyToUse` says it; after an error it tries again",
        in_progress: None,
        failed: None,
        current: "status.?readyToUse.orValue(false)",
    },
    Entry {
        api_version: "sparkoperator.k8s.io/v1beta2",
        kind: "SparkApplication",
        operator: "Spark Operator (Kubeflow)",
        versions: "v1beta2; statuses of 2020",
        why: "no conditions: `applicationState` says it; `FAILED` is what is left after its retries",
        in_progress: None,
        failed: Some("status.?applicationState.?state.orValue('') == 'FAILED'"),
        current: "status.?applicationState.?state.orValue('') in ['RUNNING', 'COMPLETED']",
    },
    Entry {
        api_version: "tekton.dev/v1",
        kind: "PipelineRun",
        operator: "Tekton Pipelines",
        versions: "v1; statuses of Argo CD's health tests",
        why: "no condition `Ready`: `Succeeded` says it",
        in_progress: None,
        failed: Some(NOT_SUCCEEDED),
        current: SUCCEEDED,
    },
    Entry {
        api_version: "tekton.dev/v1",
        kind: "TaskRun",
        operator: "Tekton Pipelines",
        versions: "v1; statuses of Argo CD's health tests",
        why: "no condition `Ready`: `Succeeded` says it",
        in_progress: None,
        failed: Some(NOT_SUCCEEDED),
        current: SUCCEEDED,
    },
];
