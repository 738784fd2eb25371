//! `muster build`: the objects that would be applied of a folder, and what its expressions of health say.

use std::collections::BTreeMap;

use muster_sync::build::print;

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::{BuildFlags, Format},
    folder, output, verdicts,
};

/// Says what is wrong with a folder.
fn tell(wrong: &folder::Wrong, all_errors: bool) -> u8 {
    let shown = if all_errors { wrong.messages.len() } else { 1 };
    for message in wrong.messages.iter().take(shown) {
        complain!("error: {message}");
    }
    match wrong.messages.len() - shown {
        0 => {}
        more => complain!("and {more} more: --all-errors shows them"),
    }
    if wrong.is_usage { UNKNOWN } else { FAILED }
}

/// Prints the objects as one List, or says what is wrong with the files.
pub async fn run(flags: BuildFlags) -> anyhow::Result<u8> {
    let BuildFlags {
        folder,
        output: format,
        all_errors,
        plan,
        health,
    } = flags;
    if let Some(name) = plan {
        return match folder::plan(&folder, &name) {
            Ok(plan) => output::text(&plan.to_string()).map(|()| DONE),
            Err(wrong) => Ok(tell(&wrong, all_errors)),
        };
    }
    let manifests = match folder::manifests(&folder, BTreeMap::new()) {
        Ok(manifests) => manifests,
        Err(wrong) => return Ok(tell(&wrong, all_errors)),
    };
    if manifests.is_empty() {
        complain!("{} holds no objects", folder.path.display());
    }
    if let Some(recorded) = health {
        return verdicts::run(&manifests, &recorded).await;
    }
    let list = print::list(&manifests);
    let text = match format {
        Format::Yaml => print::yaml(&list),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&list)?),
    };
    output::text(&text)?;
    Ok(DONE)
}
