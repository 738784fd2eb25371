//! Time zones, from the database that is built into the program.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::Problem;

/// Never the system's: a name in an object must not lead to a file, and every replica must come to the same answer.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Names that the database has for a time zone that is not known.
const UNKNOWN: [&str; 2] = ["Etc/Unknown", "Factory"];

/// The time zone of this name.
pub(crate) fn zone(name: &str) -> Result<TimeZone, Problem> {
    let unknown = || Problem::UnknownTimeZone(name.chars().take(64).collect());
    if UNKNOWN.iter().any(|none| none.eq_ignore_ascii_case(name)) {
        return Err(unknown());
    }
    DATABASE.get(name).map_err(|_| unknown())
}
