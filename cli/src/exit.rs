//! Exit codes.

/// Done, healthy, or no difference.
pub(crate) const DONE: u8 = 0;
/// Failed, aborted, timed out.
pub(crate) const FAILED: u8 = 1;
/// Usage error, or could not find out.
pub(crate) const UNKNOWN: u8 = 2;
/// Interrupted by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// The reader closed the output, as shells report SIGPIPE (128 + 13): the output is incomplete, so 0 would be wrong.
pub(crate) const READER_GONE: u8 = 141;

/// The exit code of a verb: [`DONE`] if it did what it was asked for, else [`FAILED`].
pub(crate) const fn code(is_done: bool) -> u8 {
    if is_done { DONE } else { FAILED }
}
