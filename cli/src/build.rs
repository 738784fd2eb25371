//! `muster build`: the objects that would be applied of a folder, and what its expressions of health say.

use std::path::Path;

use muster_foresee::{folder, verdicts};
use muster_sync::build::{Manifest, print};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::{BuildFlags, FolderFlags, Format, Variable},
    output::Out,
};

/// Says what is wrong with a folder.
fn tell(wrong: &folder::Wrong, all_errors: bool, out: &Out) -> u8 {
    let shown = if all_errors { wrong.messages.len() } else { 1 };
    for message in wrong.messages.iter().take(shown) {
        complain!(out, "error: {message}");
    }
    match wrong.messages.len() - shown {
        0 => {}
        more => complain!(out, "and {more} more: --all-errors shows them"),
    }
    if wrong.is_usage { UNKNOWN } else { FAILED }
}

/// Prints the objects as one List, or says what is wrong with the files.
pub async fn run(flags: BuildFlags, out: &Out) -> anyhow::Result<u8> {
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
            Ok(plan) => {
                out.text(&plan.to_string())?;
                Ok(DONE)
            }
            Err(wrong) => Ok(tell(&wrong, all_errors, out)),
        };
    }
    let manifests = match folder::manifests(&path, substitute) {
        Ok(manifests) => manifests,
        Err(wrong) => return Ok(tell(&wrong, all_errors, out)),
    };
    if manifests.is_empty() {
        complain!(out, "{} holds no objects", path.display());
    }
    if let Some(recorded) = health {
        return health_of(&manifests, &recorded, out).await;
    }
    let list = print::list(&manifests);
    let text = match format {
        Format::Yaml => print::yaml(&list),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&list)?),
    };
    out.text(&text)?;
    Ok(DONE)
}

/// Prints where each object of a file stands; fails where an expression can never say so.
async fn health_of(manifests: &[Manifest], recorded: &Path, out: &Out) -> anyhow::Result<u8> {
    let judged = verdicts::judge(manifests, recorded).await;
    for message in &judged.wrong {
        complain!(out, "error: {message}");
    }
    match judged.lines {
        Some(lines) => out.text(&lines)?,
        None => return Ok(FAILED),
    }
    Ok(if judged.wrong.is_empty() { DONE } else { FAILED })
}
