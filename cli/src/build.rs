//! `muster build`: the objects that would be applied of a folder, and what its expressions of health say.

use std::path::Path;

use muster_foresee::{folder, verdicts};
use muster_sync::build::{Manifest, print};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::{BuildFlags, FolderFlags, Format, Variable},
    output,
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
pub(crate) async fn run(flags: BuildFlags) -> anyhow::Result<u8> {
    let BuildFlags {
        folder,
        output: format,
        all_errors,
        plan,
        health,
    } = flags;
    let FolderFlags { path, substitute } = folder;
    let substitute = Variable::map(substitute);
    if let Some(name) = plan {
        return match folder::plan(&path, substitute, &name) {
            Ok(plan) => output::text(&plan.to_string()).map(|()| DONE),
            Err(wrong) => Ok(tell(&wrong, all_errors)),
        };
    }
    let manifests = match folder::manifests(&path, substitute) {
        Ok(manifests) => manifests,
        Err(wrong) => return Ok(tell(&wrong, all_errors)),
    };
    if manifests.is_empty() {
        complain!("{} holds no objects", path.display());
    }
    if let Some(recorded) = health {
        return health_of(&manifests, &recorded).await;
    }
    let list = print::list(&manifests);
    let text = match format {
        Format::Yaml => print::yaml(&list),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&list)?),
    };
    output::text(&text)?;
    Ok(DONE)
}

/// Prints where each object of a file stands; fails where an expression can never say so.
async fn health_of(manifests: &[Manifest], recorded: &Path) -> anyhow::Result<u8> {
    let judged = verdicts::judge(manifests, recorded).await;
    for message in &judged.wrong {
        complain!("error: {message}");
    }
    match judged.lines {
        Some(lines) => output::text(&lines)?,
        None => return Ok(FAILED),
    }
    Ok(if judged.wrong.is_empty() { DONE } else { FAILED })
}
