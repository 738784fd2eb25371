//! Reads a file that starts with `{`: JSON documents, one after the other.
//!
//! As in kubectl: if at most one document was JSON, the rest is read as YAML, so that `{a: b}` and JSON documents
//! separated by `---` are accepted too.

use std::sync::Arc;

use super::text::Chunk;
use super::{Document, Kind, MAX_DEPTH, Node, Position, Scalar, YamlError, YamlProblem, events};

/// All documents.
pub(super) fn json_documents(file: &Arc<str>, text: &str) -> Result<Vec<Document>, YamlError> {
    let mut reader = Reader::new(file, text);
    let mut documents = Vec::new();
    loop {
        reader.skip_space();
        if reader.rest().is_empty() {
            return Ok(documents);
        }
        let rest = Chunk {
            start: reader.position(),
            text: reader.rest(),
        };
        match reader.value(0) {
            Ok(root) => documents.push(Document {
                file: Arc::clone(file),
                root,
            }),
            Err(error) if documents.len() > 1 || !matches!(error.problem, YamlProblem::Syntax(_)) => {
                return Err(error);
            }
            Err(error) => match events::parse_documents(file, rest) {
                Ok(more) => return Ok(documents.into_iter().chain(more).collect()),
                // The reader that got further understood more of the text, so its error is used.
                Err(other) => return Err(if other.at > error.at { other } else { error }),
            },
        }
    }
}

/// A JSON reader that tracks its position.
struct Reader<'a> {
    file: &'a Arc<str>,
    text: &'a str,
    /// Number of bytes consumed.
    index: usize,
    /// The last position that was computed, and its byte offset.
    known: (usize, Position),
}

impl<'a> Reader<'a> {
    fn new(file: &'a Arc<str>, text: &'a str) -> Self {
        let known = (0, Position { line: 1, column: 1 });
        Self {
            file,
            text,
            index: 0,
            known,
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.index..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.index).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.index += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.index += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    /// The current position: computed from the last one, so that the total cost is linear even for a long line.
    fn position(&mut self) -> Position {
        let (from, mut at) = self.known;
        let passed = &self.text[from..self.index];
        match passed.rfind('\n') {
            None => at.column += passed.chars().count(),
            Some(feed) => {
                at.line += passed.matches('\n').count();
                at.column = passed[feed + 1..].chars().count() + 1;
            }
        }
        self.known = (self.index, at);
        at
    }

    fn error(&mut self, problem: YamlProblem) -> YamlError {
        YamlError::new(self.file, self.position(), problem)
    }

    fn expected(&mut self, what: &str) -> YamlError {
        self.error(YamlProblem::Syntax(format!("{what} is expected")))
    }

    fn value(&mut self, depth: usize) -> Result<Arc<Node>, YamlError> {
        let at = self.position();
        let kind = match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => return Err(self.error(YamlProblem::Depth)),
            Some(b'{') => self.object(depth + 1)?,
            Some(b'[') => self.list(depth + 1)?,
            Some(b'"') => Kind::Scalar(Scalar::quoted(self.string()?)),
            _ => Kind::Scalar(Scalar::plain(self.word()?)),
        };
        Ok(Arc::new(Node::new(at, kind)))
    }

    fn object(&mut self, depth: usize) -> Result<Kind, YamlError> {
        let mut pairs = Vec::new();
        self.index += 1;
        self.skip_space();
        while !self.eat(b'}') {
            if !pairs.is_empty() {
                self.comma('}')?;
            }
            let at = self.position();
            let key = Kind::Scalar(Scalar::quoted(self.string()?));
            self.skip_space();
            if !self.eat(b':') {
                return Err(self.expected("`:`"));
            }
            self.skip_space();
            pairs.push((Arc::new(Node::new(at, key)), self.value(depth)?));
            self.skip_space();
        }
        Ok(Kind::Mapping(pairs))
    }

    fn list(&mut self, depth: usize) -> Result<Kind, YamlError> {
        let mut items = Vec::new();
        self.index += 1;
        self.skip_space();
        while !self.eat(b']') {
            if !items.is_empty() {
                self.comma(']')?;
            }
            items.push(self.value(depth)?);
            self.skip_space();
        }
        Ok(Kind::Sequence(items))
    }

    fn comma(&mut self, end: char) -> Result<(), YamlError> {
        if !self.eat(b',') {
            return Err(self.expected(&format!("`,` or `{end}`")));
        }
        self.skip_space();
        Ok(())
    }

    fn string(&mut self) -> Result<String, YamlError> {
        let rest = self.rest();
        if !rest.starts_with('"') {
            return Err(self.expected("text in double quotes"));
        }
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return Err(self.error(YamlProblem::Syntax("the closing quote is missing".to_owned())));
        };
        let quoted = &rest[..end + 2];
        // The position in serde_json's error is not one in the file.
        let Ok(text) = serde_json::from_str(quoted) else {
            return Err(self.error(YamlProblem::Syntax(
                "an escape or a character is invalid in JSON".to_owned(),
            )));
        };
        self.index += quoted.len();
        Ok(text)
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<String, YamlError> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || "+-.".contains(c)))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        if !matches!(word, "true" | "false" | "null") {
            if !is_number(word) {
                return Err(self.expected("a value"));
            }
            if word.parse::<f64>().is_ok_and(f64::is_infinite) {
                return Err(self.error(YamlProblem::NotFinite));
            }
        }
        self.index += word.len();
        Ok(word.to_owned())
    }
}

/// `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        None => (unsigned, None),
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        ),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        None => (mantissa, None),
        Some((whole, fraction)) => (whole, Some(fraction)),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}
