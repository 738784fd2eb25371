//! The codes of findings. A code never changes its meaning; `docs/checks.md` has a section for each.

/// Declares the codes, each with what it is about.
macro_rules! codes {
    ($($(#[doc = $doc:expr])* $name:ident = $number:literal,)+) => {
        /// What a finding is about.
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
    /// The definitions of muster's kinds are there.
    Definitions = 1002,
    /// They are those of this command.
    Schemas = 1003,
    /// Flux's kinds are served, by muster's definitions or Flux's.
    FluxKinds = 1004,
    /// The kind Cluster is served.
    ClusterKind = 1005,
    /// No definition is converted by a webhook.
    Conversion = 1006,
    /// The Deployment of the controller is available.
    Deployment = 1101,
    /// The controller holds its Lease, and renews it.
    Lease = 1102,
    /// One installation works in the namespace.
    OneController = 1103,
    /// The controller's account has its rights.
    Rights = 1104,
    /// The controller and this command are of one version.
    Versions = 1105,
    /// Flux of the management cluster reads no remote bases.
    RemoteBases = 1106,
    /// Each Cluster has its Secret with a kubeconfig.
    Kubeconfig = 1201,
    /// The kubeconfigs are accepted.
    KubeconfigAccepted = 1202,
    /// Their credentials last.
    Expiry = 1203,
    /// The clusters are reached, and accept the credential.
    Reachable = 1204,
    /// The controller has recorded which cluster each is.
    Contact = 1205,
    /// The clusters have what an agent needs.
    Agent = 1206,
    /// Nothing of the Cluster object forbids work on it.
    ClusterReady = 1207,
    /// No two Clusters lead to one cluster.
    Identity = 1208,
    /// Each Secret of an enrolment has its Cluster.
    Orphan = 1209,
    /// The clusters' agents are as new as the controller.
    AgentVersion = 1210,
    /// Each module selects a cluster.
    Selects = 1301,
    /// The modules' sources can be read.
    Source = 1302,
    /// No module has been paused or suspended for long.
    Paused = 1303,
    /// Nothing has been held or pinned for long.
    Held = 1304,
    /// No module wants what is known to be bad.
    Bad = 1305,
    /// No module waits for a change by a person.
    Stalled = 1306,
    /// No withdrawal waits for its acknowledgement.
    Withdrawal = 1307,
    /// The controller has seen every module as it is.
    Observed = 1308,
    /// Tags name the commits that they named.
    Tag = 1309,
    /// The cluster answers with its kubeconfig, from here.
    DeepAnswers = 1401,
    /// It is the cluster that the controller recorded.
    DeepIdentity = 1402,
    /// It has the namespace and the kind that Modules need.
    DeepKind = 1403,
    /// The account may mirror assignments.
    DeepRights = 1404,
    /// What is assigned is carried out there.
    DeepAssemblage = 1405,
    /// Where NodeModules are, the agents of its nodes may write about their nodes.
    DeepNodes = 1406,
    /// Flux of the cluster reads no remote bases.
    DeepRemoteBases = 1407,
    /// What an installation has would be taken.
    PreRights = 1501,
    /// No definitions of somebody else are in the way.
    PreDefinitions = 1502,
    /// The kind Cluster is served, or can be brought along.
    PreCluster = 1503,
    /// What Cluster API does of itself, and what runs in a cluster, would let a version begin.
    UpgradeWay = 1601,
    /// Each Cluster asks for ClusterUpgrades.
    UpgradeAsked = 1602,
    /// No error of a call counts as an update in place.
    FailurePolicy = 1701,
    /// No Machine is replaced while it may be updated in place.
    Remediation = 1702,
}

impl Code {
    /// As it is written: `MST1001`.
    pub fn word(self) -> String {
        format!("MST{}", self as u16)
    }

    /// Where it is explained.
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
