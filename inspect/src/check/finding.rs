//! Findings: what a check came to, and the report of all. Pure.

use serde::Serialize;

use super::code::Code;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth a look; nothing is broken.
    Warning,
    /// It could not be found out.
    Unknown,
    /// Something does not work.
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

/// What checks are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Group {
    /// The API server and what is defined there.
    Management,
    /// The process.
    Controller,
    /// The clusters of the fleet.
    Clusters,
    /// What is rolled out.
    Modules,
    /// One cluster, deep.
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

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The code, as `MST1001`.
    pub code: String,
    /// What it came to.
    pub level: Level,
    /// What it is about.
    pub group: Group,
    /// The object that it is about, as `cluster/eu-1`; none if it is about the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What is so.
    pub text: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do: a command, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Where it is explained.
    pub docs: String,
}

impl Finding {
    /// A finding of a code.
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

    /// As it should be.
    pub fn ok(code: Code, text: impl Into<String>) -> Self {
        Self::new(code, Level::Ok, text)
    }

    /// Something does not work.
    pub fn problem(code: Code, text: impl Into<String>) -> Self {
        Self::new(code, Level::Problem, text)
    }

    /// Worth a look.
    pub fn warning(code: Code, text: impl Into<String>) -> Self {
        Self::new(code, Level::Warning, text)
    }

    /// It could not be looked at.
    pub fn unknown(code: Code, what: &str, why: &str) -> Self {
        Self::new(code, Level::Unknown, format!("{what} could not be checked"))
            .reason(why)
            .remedy("see that the API server is well and that you may read this (kubectl auth can-i), then check again")
    }

    /// Which object it is about.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Self {
        self.about = Some(object.into());
        self
    }

    /// Why; an empty text says nothing.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        self
    }

    /// What to do.
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

/// All findings. Fields may be added within `check/v1`; what there is keeps its name and meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `check/v1`.
    pub schema: &'static str,
    /// The namespace of modules and clusters.
    pub namespace: String,
    /// The worst of all findings.
    pub result: Level,
    /// The findings, in the order of their codes.
    pub findings: Vec<Finding>,
}

impl Report {
    /// A report of findings.
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

/// One finding for many objects that are all well, or one for each that is not.
pub(crate) fn each(code: Code, all_well: impl FnOnce() -> String, problems: Vec<Finding>) -> Vec<Finding> {
    if problems.is_empty() {
        vec![Finding::ok(code, all_well())]
    } else {
        problems
    }
}
