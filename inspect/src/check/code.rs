//! The codes of findings. A code never changes its meaning; `docs/checks.md` has a section for each.

/// Declares the codes, each with its subject.
macro_rules! codes {
    ($($(#[doc = $doc:expr])* $name:ident = $number:literal,)+) => {
        /// The check that a finding belongs to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $doc])* $name = $number,)+
        }

        impl Code {
            /// Every code, in order.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

codes! {
    /// The API server answers, and is new enough.
    ServerVersion = 1001,
    /// The definitions of muster's kinds are installed.
    Definitions = 1002,
    /// The definitions match those of this command.
    Schemas = 1003,
    /// Flux's kinds are served, by muster's definitions or Flux's.
    FluxKinds = 1004,
    /// The Cluster kind is served.
    ClusterKind = 1005,
    /// No definition is converted by a webhook.
    Conversion = 1006,
    /// The Deployment of the controller is available.
    Deployment = 1101,
    /// The controller holds its Lease, and renews it.
    Lease = 1102,
    /// Only one installation manages the namespace.
    OneController = 1103,
    /// The service account of the controller has its rights.
    Rights = 1104,
    /// The controller and this command have the same version.
    Versions = 1105,
    /// Flux of the management cluster does not read remote bases.
    RemoteBases = 1106,
    /// Each Cluster has its Secret with a kubeconfig.
    Kubeconfig = 1201,
    /// The kubeconfigs are accepted.
    KubeconfigAccepted = 1202,
    /// The credentials of the kubeconfigs do not expire soon.
    Expiry = 1203,
    /// The clusters are reached, and accept the credential.
    Reachable = 1204,
    /// The controller has recorded the identity of each cluster.
    Contact = 1205,
    /// The clusters have what an agent needs.
    Agent = 1206,
    /// The Cluster object does not block the controller.
    ClusterReady = 1207,
    /// No two Clusters refer to the same cluster.
    Identity = 1208,
    /// Each Secret of an enrollment has its Cluster.
    Orphan = 1209,
    /// The agents of the clusters are as new as the controller.
    AgentVersion = 1210,
    /// Each module selects a cluster.
    Selects = 1301,
    /// The modules' sources can be read.
    Source = 1302,
    /// No module has been paused or suspended for long.
    Paused = 1303,
    /// Nothing has been held or pinned for long.
    Held = 1304,
    /// No module asks for a revision that is known to be bad.
    Bad = 1305,
    /// No module waits for a change by a user.
    Stalled = 1306,
    /// No withdrawal waits for its acknowledgement.
    Withdrawal = 1307,
    /// The controller has observed the current spec of every module.
    Observed = 1308,
    /// Tags still point to the same commits.
    Tag = 1309,
    /// The cluster answers with its kubeconfig, from this machine.
    DeepAnswers = 1401,
    /// The cluster is the one that the controller recorded.
    DeepIdentity = 1402,
    /// The cluster has the namespace and the kind that Modules need.
    DeepKind = 1403,
    /// The account may mirror assignments.
    DeepRights = 1404,
    /// Assignments are applied in the cluster.
    DeepAssemblage = 1405,
    /// If there are NodeModules, the agents of the nodes may write the status of their nodes.
    DeepNodes = 1406,
    /// Flux of the cluster does not read remote bases.
    DeepRemoteBases = 1407,
    /// The objects of an installation would be accepted.
    PreRights = 1501,
    /// No definitions of other owners are in conflict.
    PreDefinitions = 1502,
    /// The Cluster kind is served, or can be installed.
    PreCluster = 1503,
    /// Neither Cluster API's own checks nor workloads of the clusters would block the version.
    UpgradeWay = 1601,
    /// Each Cluster is opted in to ClusterUpgrades.
    UpgradeAsked = 1602,
    /// No failed hook call counts as a successful in-place update.
    FailurePolicy = 1701,
    /// No Machine is replaced while it may be updated in place.
    Remediation = 1702,
}

impl Code {
    /// The code in text form: `MST1001`.
    pub fn word(self) -> String {
        format!("MST{}", self as u16)
    }

    /// The URL of its documentation.
    pub fn docs(self) -> String {
        format!("docs/checks.md#mst{}", self as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_section_and_every_section_its_code() {
        let page = include_str!("../../../docs/checks.md");
        let sections = page
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .map(str::to_owned);
        let codes = Code::ALL.iter().map(|code| code.word());
        assert_eq!(sections.collect::<Vec<_>>(), codes.collect::<Vec<_>>());
    }
}
