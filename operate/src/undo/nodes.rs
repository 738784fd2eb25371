//! Rolls back a NodeModule: prints its manifest with the content of an earlier revision, to be committed where the
//! NodeModule is maintained.

use anyhow::Context as _;
use kube::{Client, ResourceExt as _};
use muster_api::node::{NodeModule, NodeRevision, content::NodeContent, module::NodeModuleSpec};
use muster_controllers::runtime::Api;
use muster_dashboard::RevisionOutcome;
use muster_fleet::{Reporter, history, name::ModuleName};
use muster_sync::build::print;
use serde_json::{Value, json};

/// Prints the NodeModule with the content of a revision, or of the last good one. False if that revision is known to be
/// bad.
pub async fn nodes(
    client: &Client,
    module: &ModuleName,
    to_revision: Option<&str>,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let history = history::read_history(client, "", module).await?;
    let mut good = history.revisions.iter();
    let past = match to_revision {
        Some(given) => history.find(given)?,
        None => good
            .find(|past| past.verdict == RevisionOutcome::Good && !past.is_target)
            .with_context(|| {
                format!(
                    "no other revision of {module} is on record as good; next: muster rollout history {module}, and choose one with --to-revision"
                )
            })?,
    };
    if past.is_target || past.verdict == RevisionOutcome::Bad {
        let is = if past.is_target {
            "is already the one it asks for"
        } else {
            "is known to be bad"
        };
        reporter.warn(&format!(
            "error: revision {} of {module} {is}; next: choose another (muster rollout history {module})",
            past.short_hash()
        ));
        return Ok(past.is_target);
    }
    let revisions: Api<NodeRevision> = Api::all(client.clone());
    let what = || format!("reading NodeRevision {}", past.name);
    let revision = revisions.get(&past.name).await.with_context(what)?;
    let live: NodeModule = Api::<NodeModule>::all(client.clone())
        .get(&module.name)
        .await
        .with_context(|| format!("reading {module}"))?;
    reporter.text(&print::yaml(&with_content(&live, &revision.spec.content)?))?;
    reporter.warn(&format!(
        "This is {module} with the content of revision {} ({}); next: commit it where the NodeModule is maintained: usually in git.",
        past.short_hash(),
        past.verdict.as_str()
    ));
    Ok(true)
}

/// The manifest of a NodeModule with another content.
fn with_content(live: &NodeModule, content: &NodeContent) -> anyhow::Result<Value> {
    let spec = NodeModuleSpec {
        content: content.clone(),
        ..live.spec.clone()
    };
    Ok(json!({
        "apiVersion": "fleet.muster.dev/v1alpha1",
        "kind": "NodeModule",
        "metadata": {"name": live.name_any()},
        "spec": serde_json::to_value(spec)?,
    }))
}
