//! Scans a pack while it is received, before libgit2 gets it: the declared sizes, and the memory that they would need.
//!
//! libgit2 trusts a pack: it allocates memory for the declared number of objects, and holds the result of a delta in
//! memory, however large. [`Scanner`] reads the response of `git-upload-pack` (packet lines, with or without side
//! band), walks the objects of the pack in it and stops at the first one beyond a limit.
//!
//! Invariant: no byte of an object beyond a limit reaches libgit2. The scanner itself only stores an entry for each
//! object, and 32 KiB.
//!
//! Formats: gitformat-pack(5), gitprotocol-pack(5).

use std::collections::BTreeMap;

use flate2::{Decompress, FlushDecompress, Status};

use super::{Limits, SourceError};

/// Length of an object id, and of the checksum at the end of a pack, in bytes.
const ID: u8 = 20;

/// Maximum length of a number in a pack: seven bits per byte, 64 bits in total.
const MAX_VARINT: u8 = 10;

/// Scans one response.
pub(super) struct Scanner {
    url: String,
    line: Line,
    pack: Pack,
}

/// Position in the packet lines.
enum Line {
    /// In the four digits of a length.
    Length { digits: [u8; 4], have: usize },
    /// At the start of a packet; the first byte is its side band.
    Start { left: usize },
    /// In the rest of a packet.
    Rest { left: usize, pack: bool },
    /// There are no packets: everything that follows is the pack.
    Raw,
}

/// Position in the pack.
struct Pack {
    limits: Limits,
    at: Part,
    /// Number of bytes so far.
    offset: u64,
    /// Number of objects still to come.
    left: u32,
    object: Object,
    inflate: Decompress,
    room: Vec<u8>,
    /// The cost of resolving the object at an offset: the sum of the sizes of all results in its delta chain.
    chains: BTreeMap<u64, Chain>,
    /// The cost of all objects whose chain starts with an unknown base.
    loose: u64,
}

/// The parts of a pack, in order.
enum Part {
    Header { bytes: [u8; 12], have: usize },
    Size { bits: u8 },
    Base { left: u8 },
    Offset { value: u64, bytes: u8 },
    Content,
    End { left: u8 },
    Done,
}

/// The object being read.
#[derive(Default)]
struct Object {
    offset: u64,
    kind: u8,
    size: u64,
    chain: Chain,
    made: u64,
    sizes: DeltaSizes,
}

/// A delta chain.
#[derive(Default, Clone, Copy)]
struct Chain {
    cost: u64,
    /// Whether the chain starts with an object that is referenced by id, whose cost is unknown.
    loose: bool,
}

/// The two numbers at the start of a delta: the size of its base and of its result.
#[derive(Default)]
struct DeltaSizes {
    values: [u64; 2],
    which: usize,
    bytes: u8,
}

/// Why a pack is refused.
enum Problem {
    Damaged(&'static str),
    TooMany(u64),
    TooLarge { what: &'static str, size: u64 },
    TooWhole { size: u64 },
}

mod kind {
    pub(crate) const BLOB: u8 = 3;
    pub(crate) const BY_OFFSET: u8 = 6;
    pub(crate) const BY_ID: u8 = 7;
}

impl Scanner {
    /// A scanner for one response of the server at `url`.
    pub(super) fn new(url: &str, limits: &Limits) -> Self {
        Self {
            url: url.to_owned(),
            line: Line::length(),
            pack: Pack::new(limits.clone()),
        }
    }

    /// Scans the next bytes.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), SourceError> {
        while !bytes.is_empty() {
            let used = self.step(bytes).map_err(|problem| self.error(&problem))?;
            bytes = &bytes[used..];
        }
        Ok(())
    }

    fn step(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        match &mut self.line {
            Line::Length { digits, have } => {
                digits[*have] = bytes[0];
                *have += 1;
                if *have == digits.len() {
                    let digits = *digits;
                    self.begin(digits)?;
                }
                Ok(1)
            }
            Line::Start { left } => {
                let (left, pack) = (*left, bytes[0] == 1);
                let used = usize::from(bytes[0] < 4);
                self.line = Line::rest(left - used, pack);
                Ok(used)
            }
            Line::Rest { left, pack } => {
                let used = (*left).min(bytes.len());
                let (left, pack) = (*left - used, *pack);
                if pack {
                    self.pack.feed(&bytes[..used])?;
                }
                self.line = Line::rest(left, pack);
                Ok(used)
            }
            Line::Raw => self.pack.feed(bytes).map(|()| bytes.len()),
        }
    }

    /// The four digits are complete: a packet, or the start of a pack without packets.
    fn begin(&mut self, digits: [u8; 4]) -> Result<(), Problem> {
        if &digits == b"PACK" {
            self.line = Line::Raw;
            return self.pack.feed(&digits);
        }
        let length = std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| usize::from_str_radix(digits, 16).ok());
        self.line = match length {
            // Packets without content: flush, delimiter, response end.
            Some(0..=3) => Line::length(),
            Some(length) => Line::start(length - digits.len()),
            None => return Err(Problem::Damaged("a packet has no length")),
        };
        Ok(())
    }

    fn error(&self, problem: &Problem) -> SourceError {
        let url = &self.url;
        let limits = &self.pack.limits;
        let (what, limit, option) = match *problem {
            Problem::Damaged(why) => {
                return SourceError::Protocol {
                    url: url.clone(),
                    why: format!("the pack is damaged: {why}"),
                };
            }
            Problem::TooMany(count) => (
                format!("the number of objects ({count}) in {url}"),
                limits.objects as u64,
                "--git-max-objects",
            ),
            Problem::TooLarge { what, size } => (
                format!("{what} of {size} bytes in {url}"),
                limits.bytes,
                "--git-max-bytes",
            ),
            Problem::TooWhole { size } => (
                format!("an object of {size} bytes in {url} that must be held in memory"),
                limits.object_bytes,
                "--git-max-object-bytes",
            ),
        };
        SourceError::LimitExceeded { what, limit, option }
    }
}

impl Line {
    fn length() -> Self {
        Self::Length {
            digits: [0; 4],
            have: 0,
        }
    }

    fn start(left: usize) -> Self {
        if left == 0 {
            Self::length()
        } else {
            Self::Start { left }
        }
    }

    fn rest(left: usize, pack: bool) -> Self {
        if left == 0 {
            Self::length()
        } else {
            Self::Rest { left, pack }
        }
    }
}

impl Pack {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            at: Part::Header {
                bytes: [0; 12],
                have: 0,
            },
            offset: 0,
            left: 0,
            object: Object::default(),
            inflate: Decompress::new(true),
            room: vec![0; 32 << 10],
            chains: BTreeMap::new(),
            loose: 0,
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() {
            let used = self.step(bytes)?;
            self.offset += used as u64;
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// Consumes at least one byte, except for content whose end needs none.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        let byte = bytes[0];
        match &mut self.at {
            Part::Header { bytes: header, have } => {
                header[*have] = byte;
                *have += 1;
                if *have == header.len() {
                    let header = *header;
                    self.header(header)?;
                }
            }
            Part::Size { bits } => {
                let bits = *bits;
                self.size(byte, bits)?;
            }
            Part::Base { left: 1 } => self.based_on(None)?,
            Part::Base { left } | Part::End { left } if *left > 1 => *left -= 1,
            Part::End { .. } => self.at = Part::Done,
            Part::Offset { value, bytes } => {
                let (value, bytes) = (*value, *bytes);
                self.base_offset(byte, value, bytes)?;
            }
            Part::Content => return self.content(bytes),
            Part::Base { .. } | Part::Done => return Err(Problem::Damaged("there is data after its end")),
        }
        Ok(1)
    }

    fn header(&mut self, header: [u8; 12]) -> Result<(), Problem> {
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if !header.starts_with(b"PACK") || !matches!(number(4), 2 | 3) {
            return Err(Problem::Damaged("it has no pack header"));
        }
        self.left = number(8);
        if u64::from(self.left) > self.limits.objects as u64 {
            return Err(Problem::TooMany(self.left.into()));
        }
        self.advance();
        Ok(())
    }

    /// Proceeds to the next object, or to the checksum at the end.
    fn advance(&mut self) {
        self.at = if self.left == 0 {
            Part::End { left: ID }
        } else {
            self.left -= 1;
            Part::Size { bits: 0 }
        };
    }

    /// Type and size of an object: three bits and four bits in the first byte, seven bits in each further one.
    fn size(&mut self, byte: u8, bits: u8) -> Result<(), Problem> {
        if bits == 0 {
            self.object = Object {
                offset: self.offset,
                kind: byte >> 4 & 7,
                size: u64::from(byte & 15),
                ..Object::default()
            };
        } else {
            self.object.size |= shifted(byte, bits)?;
        }
        if byte & 128 != 0 {
            self.at = Part::Size {
                bits: if bits == 0 { 4 } else { bits + 7 },
            };
            return Ok(());
        }
        let size = self.object.size;
        let what = "an object";
        let limits = &self.limits;
        match self.object.kind {
            kind::BLOB if size > limits.bytes => Err(Problem::TooLarge { what, size }),
            1 | 2 | 4 | kind::BY_OFFSET | kind::BY_ID if size > limits.object_bytes => {
                Err(Problem::TooWhole { size })
            }
            kind::BY_OFFSET => {
                self.at = Part::Offset { value: 0, bytes: 0 };
                Ok(())
            }
            kind::BY_ID => {
                self.at = Part::Base { left: ID };
                Ok(())
            }
            1..=4 => {
                self.open();
                Ok(())
            }
            _ => Err(Problem::Damaged("an object is of an unknown kind")),
        }
    }

    /// The offset of the base before this object: seven bits per byte, plus one for each byte but the last.
    fn base_offset(&mut self, byte: u8, value: u64, bytes: u8) -> Result<(), Problem> {
        if bytes >= MAX_VARINT || value > u64::MAX >> 8 {
            return Err(Problem::Damaged("a number does not end"));
        }
        let value = value << 7 | u64::from(byte & 127);
        if byte & 128 != 0 {
            self.at = Part::Offset {
                value: value + 1,
                bytes: bytes + 1,
            };
            return Ok(());
        }
        let base = self.object.offset.checked_sub(value).filter(|_| value > 0);
        self.based_on(Some(base.ok_or(Problem::Damaged("a delta has no base"))?))
    }

    /// The base is known: an object of this pack, or one referenced by id.
    fn based_on(&mut self, offset: Option<u64>) -> Result<(), Problem> {
        self.object.chain = match offset {
            None => Chain { cost: 0, loose: true },
            Some(offset) => *self
                .chains
                .get(&offset)
                .ok_or(Problem::Damaged("a delta has no base"))?,
        };
        self.open();
        Ok(())
    }

    fn open(&mut self) {
        self.inflate.reset(true);
        self.at = Part::Content;
    }

    fn content(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        let (before, made_before) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self
            .inflate
            .decompress(bytes, &mut self.room, FlushDecompress::None)
            .map_err(|_| Problem::Damaged("the compressed data of an object is invalid"))?;
        let used = usize::try_from(self.inflate.total_in() - before).unwrap_or(bytes.len());
        let made = usize::try_from(self.inflate.total_out() - made_before).unwrap_or(self.room.len());
        self.object.made += made as u64;
        if self.object.made > self.object.size {
            return Err(Problem::Damaged("an object is larger than declared"));
        }
        if self.object.is_delta() {
            self.object.sizes.feed(&self.room[..made])?;
            self.object.sizes.check(&self.limits)?;
        }
        match status {
            Status::StreamEnd => self.close()?,
            _ if used == 0 && made == 0 => {
                return Err(Problem::Damaged("the compressed data of an object is invalid"));
            }
            _ => {}
        }
        Ok(used)
    }

    /// The object is complete: checks the cost of resolving it.
    fn close(&mut self) -> Result<(), Problem> {
        let object = &self.object;
        if object.made != object.size {
            return Err(Problem::Damaged("an object is smaller than declared"));
        }
        let size = if object.is_delta() {
            object
                .sizes
                .result()
                .ok_or(Problem::Damaged("a delta is truncated"))?
        } else {
            object.size
        };
        let chain = Chain {
            cost: object.chain.cost + size,
            loose: object.chain.loose,
        };
        if chain.loose {
            self.loose += size;
        }
        let cost = if chain.loose { self.loose } else { chain.cost };
        if cost > self.limits.bytes {
            let what = "a delta chain with results";
            return Err(Problem::TooLarge { what, size: cost });
        }
        self.chains.insert(object.offset, chain);
        self.advance();
        Ok(())
    }
}

impl Object {
    fn is_delta(&self) -> bool {
        matches!(self.kind, kind::BY_OFFSET | kind::BY_ID)
    }
}

impl DeltaSizes {
    fn feed(&mut self, made: &[u8]) -> Result<(), Problem> {
        for byte in made {
            let Some(value) = self.values.get_mut(self.which) else {
                return Ok(());
            };
            *value |= shifted(*byte, self.bytes * 7)?;
            self.bytes += 1;
            if byte & 128 == 0 {
                self.which += 1;
                self.bytes = 0;
            }
        }
        Ok(())
    }

    /// The size of the delta's result, once it is known.
    fn result(&self) -> Option<u64> {
        (self.which == self.values.len()).then(|| self.values[1])
    }

    fn check(&self, limits: &Limits) -> Result<(), Problem> {
        match self.values.into_iter().find(|size| *size > limits.object_bytes) {
            Some(size) => Err(Problem::TooWhole { size }),
            None => Ok(()),
        }
    }
}

/// Shifts seven bits of a number to their position.
fn shifted(byte: u8, bits: u8) -> Result<u64, Problem> {
    let value = u64::from(byte & 127);
    if u32::from(bits) > value.leading_zeros() {
        return Err(Problem::Damaged("a number does not end"));
    }
    Ok(value.checked_shl(bits.into()).unwrap_or_default())
}
