//! Exit codes.

/// Done, healthy, no difference.
pub(crate) const DONE: u8 = 0;
/// Failed, aborted, timed out.
pub(crate) const FAILED: u8 = 1;
/// Usage, or could not find out.
pub(crate) const UNKNOWN: u8 = 2;
/// Interrupted by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// The reader of the output went away, as a shell gives it for SIGPIPE (128 and 13): what was to be printed or followed is not at its end,
/// and 0 would say so.
pub(crate) const READER_GONE: u8 = 141;

/// The code of a verb that has done what it was asked for, or has not.
pub(crate) const fn code(is_done: bool) -> u8 {
    if is_done { DONE } else { FAILED }
}
