//! The output of `-h`.

use std::fmt::Write as _;

use super::{Effect, FLAGS};

/// The help for all flags, in the format of Go programs.
pub fn help() -> String {
    let mut text = "Usage of muster zones:\n".to_owned();
    for flag in FLAGS {
        let default = match flag.default {
            "" => String::new(),
            default => format!(" (default {default})"),
        };
        let effect = match flag.effect {
            Effect::Works => String::new(),
            Effect::None(why) => format!("; has no effect: {why}"),
        };
        let kind = flag.kind.as_str();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  -{} {kind}\n    \t{}{default}{effect}",
            flag.name, flag.help
        );
    }
    text.trim_end().to_owned()
}
