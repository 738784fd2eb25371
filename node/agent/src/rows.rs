//! What the rows of a NodeAssemblage ask of this node: the agent renders each from its NodeRevision, and rejects
//! content whose hash differs from the one that the controller wrote. Pure.

use std::{collections::BTreeMap, sync::Arc};

use muster_api::{
    assemblage::FailureClass,
    names,
    node::{
        assemblage::{NodePhase, NodeRow, NodeRowState},
        content::{NodeChecks, NodeContent},
        module::NodeOnDelete,
        render::{self, Piece, RenderError, Rendered},
        revision,
    },
};
use muster_node::{Assignment, Checks, Content, File, FileState, OnDelete, Report};
use thiserror::Error;

/// The contents of NodeRevisions, by name. None: the object does not exist.
pub type Contents = BTreeMap<String, Option<Arc<NodeContent>>>;

/// The request of a row.
#[derive(Clone, Debug)]
pub enum RowRequest {
    /// A change, or that content remains in place.
    Assignment(Box<Assignment>),
    /// Nothing: the row only has a token.
    Nothing,
    /// The content of the NodeRevision with this name, which was not read yet.
    Unread(String),
    /// Content that cannot be applied as it is written.
    Refused(RowError),
}

/// Why a row cannot be applied as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RowError {
    /// The NodeRevision does not exist.
    #[error("there is no NodeRevision {0}")]
    NoRevision(String),
    /// The content differs from the one that the row names.
    #[error("NodeRevision {0} does not have the content of its name: it was changed")]
    OtherContent(String),
    /// The content cannot be rendered with the values of the row.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Controller and agent render the same content differently.
    #[error("the row asks for {wanted}, but its content renders to {rendered} here")]
    OtherDigest {
        /// The digest of the row.
        wanted: String,
        /// The digest of the content as rendered here.
        rendered: String,
    },
}

impl RowError {
    /// The reason, for conditions.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoRevision(_) => "RevisionMissing",
            Self::Render(_) => "BindingFailed",
            Self::OtherContent(_) | Self::OtherDigest { .. } => "RenderMismatch",
        }
    }

    /// The report of the row: nothing was written.
    pub fn state(&self, row: &NodeRow) -> NodeRowState {
        NodeRowState {
            name: row.name.clone(),
            digest: row.digest.clone(),
            token: row.token,
            state: NodePhase::Failed,
            class: Some(FailureClass::Unit),
            // A missing NodeRevision may be re-created; content with a different hash stays different.
            terminal: !matches!(self, Self::NoRevision(_)),
            reason: Some(self.reason().to_owned()),
            message: Some(self.to_string()),
            ..NodeRowState::default()
        }
    }
}

/// The name of the NodeRevision that a row names, if it names one.
pub fn revision_name(row: &NodeRow) -> Option<String> {
    let uid = row.uid.as_deref().unwrap_or_default();
    let revision = row.revision.as_deref()?;
    Some(names::node_revision_name(&row.name, uid, revision))
}

/// The request of a row, with the contents that were read.
pub fn row_request(row: &NodeRow, contents: &Contents) -> RowRequest {
    match (row.withdraw, &row.digest) {
        (None, None) => RowRequest::Nothing,
        (Some(NodeOnDelete::Orphan), _) => leaving(row, Content::default(), OnDelete::Orphan),
        (Some(NodeOnDelete::Restore), _) if row.revision.is_none() => {
            leaving(row, Content::default(), OnDelete::Restore)
        }
        (Some(NodeOnDelete::Restore), _) => match rendered(row, contents) {
            Ok(rendered) => leaving(row, content(rendered), OnDelete::Restore),
            Err(request) => *request,
        },
        (None, Some(wanted)) => match rendered(row, contents) {
            Ok(rendered) => carried(row, wanted, rendered),
            Err(request) => *request,
        },
    }
}

fn carried(row: &NodeRow, wanted: &str, rendered: Rendered) -> RowRequest {
    let digest = rendered.digest();
    if digest != wanted {
        return RowRequest::Refused(RowError::OtherDigest {
            wanted: wanted.to_owned(),
            rendered: digest,
        });
    }
    RowRequest::Assignment(Box::new(Assignment {
        content: content(rendered),
        ..assignment(row, digest)
    }))
}

/// The digest of a withdrawal: there is no content to compare. Each withdrawal has its own, so that a failed one, which
/// is known to be bad, blocks neither another NodeModule's files nor a later attempt.
fn withdrawal(row: &NodeRow) -> String {
    format!("withdrawal/{}/{}", row.name, row.token)
}

/// Whether a report is about this row: a token alone may occur again if the object was re-created.
pub fn is_about(row: &NodeRow, report: &Report) -> bool {
    let digest = match row.withdraw {
        Some(_) => Some(withdrawal(row)),
        None => row.digest.clone(),
    };
    digest.as_ref() == Some(&report.digest) && row.token == report.token && row.attempt == report.attempt
}

fn leaving(row: &NodeRow, content: Content, on_delete: OnDelete) -> RowRequest {
    RowRequest::Assignment(Box::new(Assignment {
        deleting: true,
        content: Content { on_delete, ..content },
        ..assignment(row, withdrawal(row))
    }))
}

fn assignment(row: &NodeRow, digest: String) -> Assignment {
    Assignment {
        name: row.name.clone(),
        revision: row.revision.clone().unwrap_or_default(),
        digest,
        token: row.token,
        attempt: row.attempt,
        deleting: false,
        content: Content::default(),
    }
}

fn rendered(row: &NodeRow, contents: &Contents) -> Result<Rendered, Box<RowRequest>> {
    let refused = |error: RowError| Box::new(RowRequest::Refused(error));
    let name = revision_name(row).unwrap_or_default();
    let content = match contents.get(&name) {
        None => return Err(Box::new(RowRequest::Unread(name))),
        Some(None) => return Err(refused(RowError::NoRevision(name))),
        Some(Some(content)) => content,
    };
    if row.revision.as_deref() != Some(&revision::content_revision(content)) {
        return Err(refused(RowError::OtherContent(name)));
    }
    render::render(content, &row.parts, &row.values).map_err(|error| refused(error.into()))
}

fn content(rendered: Rendered) -> Content {
    let Rendered {
        files,
        reload,
        checks,
        settle,
        hold_for,
        confirm_within,
    } = rendered;
    let NodeChecks {
        interfaces,
        tcp,
        services,
        api_server,
    } = checks;
    Content {
        files: files.into_iter().map(file).collect(),
        reload,
        checks: Checks {
            interfaces,
            tcp,
            services,
            api_server,
        },
        settle: Some(settle.to_string()),
        hold_for: Some(hold_for.to_string()),
        confirm_within: Some(confirm_within.to_string()),
        on_delete: OnDelete::Orphan,
    }
}

fn file(file: render::RenderedFile) -> File {
    let state = if file.content.is_some() {
        FileState::Present
    } else {
        FileState::Absent
    };
    File {
        path: file.path,
        mode: Some(file.mode),
        owner: Some(file.owner),
        group: Some(file.group),
        state,
        content: file.content.into_iter().flatten().map(piece).collect(),
    }
}

fn piece(piece: Piece) -> muster_node::Piece {
    match piece {
        Piece::Text(text) => muster_node::Piece::Text(text),
        Piece::Secret(name) => muster_node::Piece::Secret(name),
    }
}
