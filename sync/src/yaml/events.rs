//! Builds trees from the parser's events: aliases, tags, depth.

use std::collections::BTreeMap;
use std::sync::Arc;

use yaml_rust2::Event;
use yaml_rust2::parser::{Parser, Tag as RawTag};
use yaml_rust2::scanner::{Marker, ScanError, TScalarStyle};

use super::lenient::{self, Lenient};
use super::source::Source;
use super::text::{self, Chunk};
use super::{ALIAS_BUDGET, Document, Kind, MAX_DEPTH, Node, Position, Scalar, Tag, YamlError, YamlProblem};

/// All documents of a text, including empty ones.
pub(super) fn parse_documents(file: &Arc<str>, text: Chunk<'_>) -> Result<Vec<Document>, YamlError> {
    let mut documents = Vec::new();
    let mut again = lenient::budget(text.text);
    for chunk in text::split_documents(file, text)? {
        documents.extend(document(file, chunk, &mut again)?.map(|root| Document {
            file: Arc::clone(file),
            root,
        }));
    }
    Ok(documents)
}

/// The only document of a chunk. `again`: the remaining bytes of the file that may be parsed again.
fn document(file: &Arc<str>, chunk: Chunk<'_>, again: &mut usize) -> Result<Option<Arc<Node>>, YamlError> {
    let mut text = Lenient::new(chunk);
    loop {
        match read(file, &text) {
            Ok(root) => return Ok(root),
            Err(Stop::Text(error)) => return Err(error),
            Err(Stop::Parser(error)) if text.put_right(&error, again) => {}
            Err(Stop::Parser(error)) => return Err(syntax(file, &text, &error)),
        }
    }
}

/// Why a document could not be parsed.
enum Stop {
    /// The parser failed.
    Parser(ScanError),
    /// The parser succeeded, but the content is refused.
    Text(YamlError),
}

fn read(file: &Arc<str>, text: &Lenient<'_>) -> Result<Option<Arc<Node>>, Stop> {
    let mut parser = Parser::new_from_str(text.text());
    let mut builder = Builder::new(file, text);
    loop {
        let (event, marker) = parser.next_token().map_err(Stop::Parser)?;
        match event {
            Event::StreamEnd => return Ok(builder.root),
            Event::Nothing | Event::StreamStart | Event::DocumentStart | Event::DocumentEnd => {}
            node => builder.take(node, &marker).map_err(Stop::Text)?,
        }
    }
}

/// Builds the tree of one document.
struct Builder<'a> {
    file: &'a Arc<str>,
    source: Source<'a>,
    /// Open collections, outermost first.
    open: Vec<Open>,
    /// Complete nodes, by the parser's number of their anchor.
    anchors: BTreeMap<usize, Arc<Node>>,
    /// The number of nodes that aliases have produced.
    aliased: usize,
    root: Option<Arc<Node>>,
}

/// A collection that is still open.
struct Open {
    at: Position,
    marker: Marker,
    anchor: usize,
    /// Keys and values alternate for a mapping.
    nodes: Vec<Arc<Node>>,
    is_mapping: bool,
}

impl<'a> Builder<'a> {
    fn new(file: &'a Arc<str>, text: &'a Lenient<'a>) -> Self {
        Self {
            file,
            source: Source::new(text),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            aliased: 0,
            root: None,
        }
    }

    fn take(&mut self, event: Event, marker: &Marker) -> Result<(), YamlError> {
        let at = self.source.position(marker);
        if !matches!(event, Event::SequenceEnd | Event::MappingEnd)
            && self.source.is_indented_by_tab(marker)
            && !self.is_in_flow()
        {
            return Err(self.error(at, YamlProblem::TabIndentation));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag
                    .map(|tag| scalar_tag(&tag).ok_or_else(|| self.error(at, unknown(&tag))))
                    .transpose()?;
                let text = self.checked(text, style, marker)?;
                let scalar = Scalar {
                    text,
                    plain: style == TScalarStyle::Plain,
                    tag,
                    expanded: false,
                };
                self.complete(Node::new(at, Kind::Scalar(scalar)), anchor);
                Ok(())
            }
            Event::SequenceStart(anchor, tag) => self.open(marker, anchor, tag.as_ref(), "seq"),
            Event::MappingStart(anchor, tag) => self.open(marker, anchor, tag.as_ref(), "map"),
            Event::Alias(anchor) => self.alias(anchor, at),
            _ => {
                self.close();
                Ok(())
            }
        }
    }

    /// The text of a scalar as kubectl reads it, corrected where the parser reads it differently.
    fn checked(&self, text: String, style: TScalarStyle, marker: &Marker) -> Result<String, YamlError> {
        let is_block = matches!(style, TScalarStyle::Literal | TScalarStyle::Folded);
        match text.trim_start_matches('\n').chars().next() {
            // The parser turns an empty block scalar at the end of a text into a newline.
            None if is_block && !text.is_empty() && !self.source.block_header(marker).contains('+') => {
                Ok(String::new())
            }
            Some('\t')
                if is_block
                    && !self
                        .source
                        .block_header(marker)
                        .contains(|c: char| c.is_ascii_digit()) =>
            {
                Err(self.error(self.source.position(marker), YamlProblem::TabIndentation))
            }
            Some(c @ ('|' | '>' | '?' | ':')) if style == TScalarStyle::Plain && self.is_in_flow() => {
                Err(self.error(self.source.position(marker), YamlProblem::PlainStart(c)))
            }
            _ => Ok(text),
        }
    }

    /// Whether a `[` or `{` is open.
    fn is_in_flow(&self) -> bool {
        self.open.iter().any(|open| self.source.opens_flow(&open.marker))
    }

    fn open(
        &mut self,
        marker: &Marker,
        anchor: usize,
        tag: Option<&RawTag>,
        expected: &str,
    ) -> Result<(), YamlError> {
        let at = self.source.position(marker);
        if let Some(tag) = tag
            && core_name(tag) != Some(expected)
        {
            return Err(self.error(at, unknown(tag)));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(self.error(at, YamlProblem::Depth));
        }
        self.open.push(Open {
            at,
            marker: *marker,
            anchor,
            nodes: Vec::new(),
            is_mapping: expected == "map",
        });
        Ok(())
    }

    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        // The parser reports a block mapping at the colon of its first key.
        let at = open.nodes.first().map_or(open.at, |first| open.at.min(first.at));
        let kind = if open.is_mapping {
            let mut nodes = open.nodes.into_iter();
            Kind::Mapping(std::iter::from_fn(|| Some((nodes.next()?, nodes.next()?))).collect())
        } else {
            Kind::Sequence(open.nodes)
        };
        self.complete(Node::new(at, kind), open.anchor);
    }

    fn complete(&mut self, node: Node, anchor: usize) {
        let node = Arc::new(node);
        if anchor > 0 {
            self.anchors.insert(anchor, Arc::clone(&node));
        }
        self.put(node);
    }

    fn put(&mut self, node: Arc<Node>) {
        match self.open.last_mut() {
            Some(open) => open.nodes.push(node),
            None => self.root = Some(node),
        }
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), YamlError> {
        let Some(node) = self.anchors.get(&anchor).map(Arc::clone) else {
            return Err(self.error(at, YamlProblem::AliasLoop));
        };
        self.aliased = self.aliased.saturating_add(node.size);
        if self.aliased > ALIAS_BUDGET {
            return Err(self.error(at, YamlProblem::AliasBudget));
        }
        if self.open.len() + depth(&node) > MAX_DEPTH {
            return Err(self.error(at, YamlProblem::Depth));
        }
        self.put(node);
        Ok(())
    }

    fn error(&self, at: Position, problem: YamlProblem) -> YamlError {
        YamlError::new(self.file, at, problem)
    }
}

/// Depth of the collections in a node, including the node itself.
fn depth(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar(_) => 0,
        Kind::Sequence(items) => 1 + items.iter().map(|item| depth(item)).max().unwrap_or(0),
        Kind::Mapping(pairs) => {
            1 + pairs
                .iter()
                .map(|(key, value)| depth(key).max(depth(value)))
                .max()
                .unwrap_or(0)
        }
    }
}

/// The name of a tag of YAML's core schema: the part after `!!`.
fn core_name(tag: &RawTag) -> Option<&str> {
    const CORE: &str = "tag:yaml.org,2002:";
    if tag.handle == CORE {
        Some(&tag.suffix)
    } else {
        tag.suffix.strip_prefix(CORE).filter(|_| tag.handle.is_empty())
    }
}

fn scalar_tag(tag: &RawTag) -> Option<Tag> {
    if format!("{}{}", tag.handle, tag.suffix) == "!" {
        return Some(Tag::Str);
    }
    Some(match core_name(tag)? {
        "str" => Tag::Str,
        "int" => Tag::Int,
        "float" => Tag::Float,
        "bool" => Tag::Bool,
        "null" => Tag::Null,
        "timestamp" => Tag::Timestamp,
        "binary" => Tag::Binary,
        "merge" => Tag::Merge,
        _ => return None,
    })
}

fn unknown(tag: &RawTag) -> YamlProblem {
    let name = match core_name(tag) {
        Some(name) => format!("!!{name}"),
        None => format!("{}{}", tag.handle, tag.suffix),
    };
    // `%1B` in a tag is a control character, which must not reach a terminal.
    YamlProblem::UnknownTag(name.escape_debug().to_string())
}

/// Parts of the parser's errors for text that kubectl's parser accepts.
const STRICTER: &[&str] = &[
    "invalid indentation",
    "comments must be separated",
    "plain scalar cannot start with '-'",
    "unknown escape character",
    "must be followed by a valid YAML whitespace",
];

fn syntax(file: &Arc<str>, text: &Lenient<'_>, error: &ScanError) -> YamlError {
    let message = error.info().to_owned();
    let problem = if message.contains("recursion limit") {
        YamlProblem::Depth
    } else if message.contains("tab") {
        YamlProblem::Tab(message)
    } else if STRICTER.iter().any(|part| message.contains(part)) {
        YamlProblem::Stricter(message)
    } else {
        YamlProblem::Syntax(message)
    };
    YamlError::new(file, text.position(error.marker()), problem)
}
