//! Parse errors and their positions.

use std::fmt;
use std::sync::Arc;

use super::{ALIAS_BUDGET, MAX_DEPTH};

/// A position in a text; both numbers start at 1, columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line number, from 1.
    pub line: usize,
    /// Column number, from 1, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A parse error: `file:line:column: what`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct YamlError {
    /// Name of the file.
    pub file: Arc<str>,
    /// Position of the problem.
    pub at: Position,
    /// What is wrong there.
    pub problem: YamlProblem,
}

impl YamlError {
    pub(super) fn new(file: &Arc<str>, at: Position, problem: YamlProblem) -> Self {
        Self {
            file: Arc::clone(file),
            at,
            problem,
        }
    }
}

/// What is wrong in a text. No message contains a scalar of the text, which may be from a Secret, except keys as they
/// are written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlProblem {
    /// The bytes are not valid UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// The bytes start with a UTF-16 byte order mark.
    #[error("UTF-16; save the file as UTF-8")]
    Utf16,
    /// A character that YAML forbids, or that kubectl treats as a line break.
    #[error("character {0} is not allowed; write it as an escape in double quotes")]
    Control(String),
    /// A directive: a line that starts with `%`.
    #[error("directives (%YAML, %TAG) are not supported; remove the line")]
    Directive,
    /// Text between `...` and the next `---`.
    #[error("text after the end of the document; start it with ---")]
    TextAfterEnd,
    /// A line that starts with `---` and continues with other characters.
    #[error("text after ---; write it on the next line")]
    Separator,
    /// An error of the parser.
    #[error("{0}")]
    Syntax(String),
    /// An error of the parser caused by a tab.
    #[error("{0}; replace the tab with spaces (kubectl may accept it, this parser does not)")]
    Tab(String),
    /// An error of the parser for something that kubectl accepts.
    #[error("{0} (kubectl may accept it, this parser does not)")]
    Stricter(String),
    /// An unquoted text that kubectl interprets differently.
    #[error("a text without quotes cannot start with {0:?} here; quote it")]
    PlainStart(char),
    /// A tab that kubectl's parser refuses, too.
    #[error("a tab in the indentation; use spaces")]
    TabIndentation,
    /// Collections are nested too deeply.
    #[error("nested deeper than {MAX_DEPTH}")]
    Depth,
    /// Aliases expand to too many nodes.
    #[error("aliases produce more than {ALIAS_BUDGET} nodes")]
    AliasBudget,
    /// An alias inside the node that it refers to.
    #[error("an alias to a node that contains it")]
    AliasLoop,
    /// A tag that is not in YAML's core schema.
    #[error("unknown tag {0}; quote the value, or remove the tag")]
    UnknownTag(String),
    /// A tag that does not match the value.
    #[error("the text after {0} is not a valid value of that type")]
    TagMismatch(&'static str),
    /// A duplicate key in a mapping.
    #[error("duplicate key {key}, first at {first}")]
    DuplicateKey {
        /// The key in JSON notation, quoted; `${…}` for one that a substitution created.
        key: String,
        /// Position of the first occurrence.
        first: Position,
    },
    /// A key that JSON cannot represent.
    #[error("a key must be text, a number or a boolean, not {0}")]
    Key(&'static str),
    /// A number that JSON cannot represent.
    #[error("a number that JSON cannot represent (infinite, NaN, or too large); quote it if it is text")]
    NotFinite,
    /// `<<` with a value that is not a mapping.
    #[error("<< needs a mapping, or a list of mappings")]
    Merge,
    /// More than one document where one is expected.
    #[error("a second document where only one is expected")]
    SeveralDocuments,
}
