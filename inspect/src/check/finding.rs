//! Findings: the results of checks, and their report. Pure.

use serde::Serialize;

use super::code::Code;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Healthy.
    Ok,
    /// A warning; nothing is broken.
    Warning,
    /// The check could not be made.
    Unknown,
    /// Something is broken.
    Problem,
}

impl Level {
    /// The mark before its line.
    pub const fn mark(self) -> char {
        match self {
            Self::Ok => '√',
            Self::Warning => '‼',
            Self::Unknown => '?',
            Self::Problem => '×',
        }
    }
}

/// A group of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Group {
    /// The API server and its definitions.
    Management,
    /// The controller process.
    Controller,
    /// The clusters of the fleet.
    Clusters,
    /// The modules.
    Modules,
    /// One cluster in depth.
    Cluster,
    /// Before a ClusterUpgrade.
    Upgrade,
    /// Machines that are updated in place.
    Machines,
    /// Before an installation.
    Installation,
}

impl Group {
    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Management => "management cluster",
            Self::Controller => "controller",
            Self::Clusters => "clusters",
            Self::Modules => "modules",
            Self::Cluster => "the cluster",
            Self::Upgrade => "before an upgrade",
            Self::Machines => "machines updated in place",
            Self::Installation => "before an installation",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Code, such as `MST1001`.
    pub code: String,
    /// Level of the finding.
    pub level: Level,
    /// Group of the check.
    pub group: Group,
    /// The object of the finding, such as `cluster/eu-1`; null if it is about the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What was found.
    pub text: String,
    /// Why it is so; may be null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do: a command, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// URL of the documentation of the code.
    pub docs: String,
}

impl Finding {
    /// Creates a finding with this code and level.
    pub fn new(code: Code, level: Level, text: impl Into<String>) -> Self {
        Self {
            code: code.word(),
            level,
            group: group(code),
            about: None,
            text: text.into(),
            reason: None,
            remedy: None,
            docs: code.docs(),
        }
    }

    /// A healthy result.
    pub fn ok(code: Code, text: impl Into<String>) -> Self {
        Self::new(code, Level::Ok, text)
    }

    /// Something is broken.
    pub fn problem(code: Code, text: impl Into<String>) -> Self {
        Self::new(code, Level::Problem, text)
    }

    /// A warning.
    pub fn warning(code: Code, text: impl Into<String>) -> Self {
        Self::new(code, Level::Warning, text)
    }

    /// The check could not be made.
    pub fn unknown(code: Code, what: &str, why: &str) -> Self {
        Self::new(code, Level::Unknown, format!("{what} could not be checked"))
            .reason(why)
            .remedy("make sure that the API server is healthy and that you may read this (kubectl auth can-i), then check again")
    }

    /// Sets the object that it is about.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Self {
        self.about = Some(object.into());
        self
    }

    /// Sets the reason; an empty text sets none.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

const fn group(code: Code) -> Group {
    match code as u16 {
        1000..1100 => Group::Management,
        1100..1200 => Group::Controller,
        1200..1300 => Group::Clusters,
        1300..1400 => Group::Modules,
        1400..1500 => Group::Cluster,
        1600..1700 => Group::Upgrade,
        1700..1800 => Group::Machines,
        _ => Group::Installation,
    }
}

/// All findings. Fields may be added within `check/v1`; existing ones keep their name and meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of this schema: `check/v1`.
    pub schema: &'static str,
    /// Namespace of modules and clusters.
    pub namespace: String,
    /// The worst level of all findings.
    pub result: Level,
    /// The findings, ordered by code.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Creates a report.
    pub fn new(namespace: &str, mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| (&a.code, b.level, &a.about).cmp(&(&b.code, a.level, &b.about)));
        Self {
            schema: "check/v1",
            namespace: namespace.to_owned(),
            result: findings
                .iter()
                .map(|finding| finding.level)
                .max()
                .unwrap_or(Level::Ok),
            findings,
        }
    }
}

/// One finding for many objects that are all healthy, or one for each that is not.
pub(crate) fn each(code: Code, all_well: impl FnOnce() -> String, problems: Vec<Finding>) -> Vec<Finding> {
    if problems.is_empty() {
        vec![Finding::ok(code, all_well())]
    } else {
        problems
    }
}
