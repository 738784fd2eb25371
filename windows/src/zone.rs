//! Time zones, from the database compiled into the program.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::Problem;

/// Never that of the system: a name in an object must not refer to a file, and every replica must get the same result.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Names in the database that mean an unknown time zone.
const UNKNOWN: [&str; 2] = ["Etc/Unknown", "Factory"];

/// The time zone with this name.
pub(crate) fn zone(name: &str) -> Result<TimeZone, Problem> {
    let unknown = || Problem::UnknownTimeZone(name.chars().take(64).collect());
    if UNKNOWN.iter().any(|none| none.eq_ignore_ascii_case(name)) {
        return Err(unknown());
    }
    DATABASE.get(name).map_err(|_| unknown())
}
