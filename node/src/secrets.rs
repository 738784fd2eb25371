//! Secrets of the node: they are substituted in files, and never stored elsewhere or printed.

use std::fmt;

use crate::{config::Config, host::Host, outcome::RowRefusal, piece::Piece, sealed::hash};

/// Maximum size of a secret's file, in bytes.
pub const MAX_SECRET: u64 = 64 * 1024;
/// Maximum size of a content with its secrets, in bytes.
const MAX_FILLED: usize = 1024 * 1024;
/// Shorter lines of a secret are not masked individually, as they would mask ordinary words in messages.
const SHORTEST_LINE: usize = 4;

/// The secrets that a content names.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    values: Vec<(String, String)>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.values.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl Secrets {
    /// All readable secrets of the node's configuration: output after a restart may contain any of them.
    pub(crate) fn all(config: &Config, host: &dyn Host) -> Self {
        let mut all = Self::default();
        for name in config.secrets.keys() {
            // An unreadable secret was not substituted either.
            let _ = all.value(name, config, host);
        }
        all
    }

    /// The content with each secret substituted from its file, without the last line break.
    pub(crate) fn fill(
        &mut self,
        pieces: &[Piece],
        config: &Config,
        host: &dyn Host,
    ) -> Result<String, RowRefusal> {
        let mut filled = String::new();
        for piece in pieces {
            filled.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Secret(name) => self.value(name, config, host)?,
            });
            if filled.len() > MAX_FILLED {
                let problem = format!("it has more than {MAX_FILLED} bytes with its secrets");
                return Err(RowRefusal::invalid("content", problem));
            }
        }
        Ok(filled)
    }

    fn value(&mut self, name: &str, config: &Config, host: &dyn Host) -> Result<&str, RowRefusal> {
        if let Some(known) = self.values.iter().position(|(known, _)| known == name) {
            return Ok(&self.values[known].1);
        }
        let unknown =
            || RowRefusal::not_allowed("content", name, "the node's configuration has no such secret");
        let file = config.secrets.get(name).ok_or_else(unknown)?;
        let unreadable = |problem: &str| RowRefusal::not_allowed("content", name, problem);
        let bytes = host
            .secret(file)
            .map_err(|problem| unreadable(&format!("the file of the secret cannot be read: {problem}")))?;
        let value =
            String::from_utf8(bytes).map_err(|_| unreadable("the file of the secret is not UTF-8"))?;
        let value = value.strip_suffix('\n').unwrap_or(&value);
        self.values.push((name.to_owned(), value.to_owned()));
        Ok(self.values.last().map_or("", |(_, value)| value.as_str()))
    }

    /// A hash of all secrets: it changes when one of them does.
    pub(crate) fn hash(&self) -> String {
        let parts = self
            .values
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        hash(&parts.collect::<Vec<_>>())
    }

    /// The text with all secrets, and lines of them, masked.
    pub(crate) fn mask(&self, text: &str) -> String {
        let values = self.values.iter().map(|(_, value)| value.as_str());
        let lines = values
            .clone()
            .flat_map(str::lines)
            .filter(|line| line.len() >= SHORTEST_LINE);
        let hidden = values.chain(lines).filter(|value| !value.is_empty());
        hidden.fold(text.to_owned(), |text, value| text.replace(value, "***"))
    }
}
