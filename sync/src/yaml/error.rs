//! What is wrong with a text, and where.

use std::fmt;
use std::sync::Arc;

use super::{ALIAS_BUDGET, MAX_DEPTH};

/// A place in a text; both numbers start at 1, columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A text that cannot be taken: `file:line:column: what`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct YamlError {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The place.
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

/// What is wrong. No message shows a scalar of the text, which may be a Secret's, except keys as they are written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlProblem {
    /// The bytes are no text.
    #[error("not UTF-8")]
    NotUtf8,
    /// The bytes start with the mark of UTF-16.
    #[error("UTF-16; save the file as UTF-8")]
    Utf16,
    /// A character that YAML forbids, or that kubectl takes for a line feed.
    #[error("character {0} is not allowed; write it as an escape in double quotes")]
    Control(String),
    /// A line that starts with `%`.
    #[error("directives (%YAML, %TAG) are not supported; remove the line")]
    Directive,
    /// Text between `...` and the next `---`.
    #[error("text after the end of the document; start it with ---")]
    TextAfterEnd,
    /// A line that starts with `---` and is more than that.
    #[error("text after ---; write it on the next line")]
    Separator,
    /// What the parser says.
    #[error("{0}")]
    Syntax(String),
    /// What the parser says of a tab.
    #[error("{0}; put spaces where the tab is (kubectl may take it, this parser does not)")]
    Tab(String),
    /// What the parser says where it takes less than kubectl's.
    #[error("{0} (kubectl may take it, this parser does not)")]
    Stricter(String),
    /// A text without quotes that kubectl takes for something else.
    #[error("a text without quotes cannot start with {0:?} here; quote it")]
    PlainStart(char),
    /// A tab where kubectl's parser refuses it, too.
    #[error("a tab in the indentation; put spaces there")]
    TabIndentation,
    /// Collections within collections.
    #[error("nested deeper than {MAX_DEPTH}")]
    Depth,
    /// A document made of aliases.
    #[error("aliases produce more than {ALIAS_BUDGET} nodes")]
    AliasBudget,
    /// An alias within what it names.
    #[error("an alias to what contains it")]
    AliasLoop,
    /// A tag that is not of YAML's core.
    #[error("unknown tag {0}; quote the value, or remove the tag")]
    UnknownTag(String),
    /// A tag that does not fit.
    #[error("the text behind {0} cannot be read as that")]
    TagMismatch(&'static str),
    /// The same key twice in one mapping.
    #[error("duplicate key {key}, first at {first}")]
    DuplicateKey {
        /// The key as JSON has it, in quotes; `${…}` for one that a substitution made.
        key: String,
        /// Where it stands first.
        first: Position,
    },
    /// A key that JSON cannot have.
    #[error("a key must be text, a number or a boolean, not {0}")]
    Key(&'static str),
    /// A number that JSON cannot have.
    #[error("a number that JSON does not have (infinite, none, or too large); quote it if text is meant")]
    NotFinite,
    /// `<<` with something else.
    #[error("<< needs a mapping, or a list of mappings")]
    Merge,
    /// More than one document where one is wanted.
    #[error("a second document where only one is wanted")]
    SeveralDocuments,
}
