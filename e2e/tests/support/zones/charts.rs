//! StatefulSets as charts create them for several zones: their labels, annotations and fields, as far as the API
//! server, its controllers or muster read them. From loki 6.29.0 and mimir-distributed 6.1.1.

use super::{NS, kubectl::Kubectl};

/// A chart with ingesters in three zones.
pub(super) struct Chart {
    pub name: &'static str,
    repository: &'static str,
    pub replicas: usize,
    /// Labels of sets and pods, in addition to those that both charts have.
    labels: &'static [(&'static str, &'static str)],
    /// Labels and annotations of sets only.
    of_sets: [&'static str; 2],
    /// The Service of a zone.
    service: fn(&str) -> String,
}

pub(super) const CHARTS: [Chart; 2] = [
    Chart {
        name: "loki",
        repository: "grafana/loki",
        replicas: 2,
        labels: &[
            ("app.kubernetes.io/name", "loki"),
            ("app.kubernetes.io/instance", "loki"),
            ("app.kubernetes.io/component", "ingester"),
            ("app.kubernetes.io/part-of", "memberlist"),
        ],
        of_sets: ["", "rollout-max-unavailable: \"1\""],
        service: |zone| format!("loki-ingester-{zone}"),
    },
    Chart {
        name: "mimir",
        repository: "grafana/mimir",
        replicas: 2,
        labels: &[
            ("app.kubernetes.io/name", "mimir"),
            ("app.kubernetes.io/instance", "mimir"),
            ("app.kubernetes.io/component", "ingester"),
            ("app.kubernetes.io/part-of", "memberlist"),
            ("zone", "ZONE"),
        ],
        of_sets: [
            ", grafana.com/prepare-downscale: \"true\", grafana.com/min-time-between-zones-downscale: 12h",
            "rollout-max-unavailable: \"50\", grafana.com/prepare-downscale-http-path: ingester/prepare-shutdown, \
             grafana.com/prepare-downscale-http-port: \"8080\"",
        ],
        service: |_zone| "mimir-ingester-headless".to_owned(),
    },
];

impl Chart {
    pub(super) fn image(&self, version: &str) -> String {
        format!("{}:{version}", self.repository)
    }

    /// Three StatefulSets.
    pub(super) fn manifests(&self, version: &str) -> String {
        ["zone-a", "zone-b", "zone-c"]
            .map(|zone| self.set(zone, version))
            .concat()
    }

    fn set(&self, zone: &str, version: &str) -> String {
        let own = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}: {}", value.replace("ZONE", zone)));
        let common = [
            format!("name: ingester-{zone}"),
            "rollout-group: ingester".to_owned(),
        ];
        let labels = own.chain(common).collect::<Vec<_>>().join(", ");
        let (chart, image, service) = (self.name, self.image(version), (self.service)(zone));
        let (replicas, [labels_of_set, annotations]) = (self.replicas, self.of_sets);
        format!(
            r#"---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {chart}-ingester-{zone}
  namespace: {NS}
  labels: {{{labels}{labels_of_set}}}
  annotations: {{{annotations}}}
spec:
  podManagementPolicy: Parallel
  replicas: {replicas}
  revisionHistoryLimit: 10
  serviceName: {service}
  persistentVolumeClaimRetentionPolicy: {{whenDeleted: Delete, whenScaled: Delete}}
  updateStrategy: {{type: OnDelete}}
  selector:
    matchLabels: {{{labels}}}
  template:
    metadata:
      labels: {{{labels}}}
      annotations: {{checksum/config: "{version}"}}
    spec:
      terminationGracePeriodSeconds: 300
      securityContext: {{fsGroup: 10001, runAsNonRoot: true, runAsUser: 10001}}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector:
              matchExpressions:
              - {{key: rollout-group, operator: In, values: [ingester]}}
              - {{key: name, operator: NotIn, values: [ingester-{zone}]}}
            topologyKey: kubernetes.io/hostname
      containers:
      - name: ingester
        image: {image}
        args: [-target=ingester, -ingester.availability-zone={zone}]
        ports:
        - {{name: http-metrics, containerPort: 3100}}
        - {{name: http-memberlist, containerPort: 7946}}
        readinessProbe:
          httpGet: {{path: /ready, port: http-metrics}}
        volumeMounts:
        - {{name: data, mountPath: /data}}
      volumes:
      - name: data
        emptyDir: {{}}
"#
        )
    }
}

/// One node per pod: pods of two zones never share one.
pub(super) fn nodes(kubectl: &Kubectl) {
    for number in 2..6 {
        kubectl.apply(&format!(
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: c1-node-{number}\n  annotations: {{kwok.x-k8s.io/node: fake}}\n  \
             labels: {{type: kwok, kubernetes.io/hostname: c1-node-{number}, kubernetes.io/os: linux, kubernetes.io/arch: amd64}}\n"
        ));
    }
}
