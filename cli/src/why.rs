//! `muster why`: the chain of reasons, down to what fails, and what to do next.

use anyhow::Context as _;
use muster_dashboard::Why;

use crate::{
    DONE,
    args::{ClusterFlags, View, WhyFlags},
    connect, fleet,
};

/// Explains a module, or one cluster of it.
pub async fn run(cluster: &ClusterFlags, flags: &WhyFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let fleet = fleet::read(&client, &namespace).await?;
    let WhyFlags {
        module,
        cluster,
        output,
    } = flags;
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| module.missing(&namespace))?;
    let why = muster_dashboard::why(view, cluster.as_deref());
    match output {
        View::Json => anstream::println!("{}", serde_json::to_string_pretty(&why)?),
        View::Table => print(&why),
    }
    Ok(DONE)
}

fn print(why: &Why) {
    let Why {
        headline,
        steps,
        next,
    } = why;
    anstream::println!("{headline}");
    for step in steps {
        let since = step.since.map_or_else(String::new, |since| {
            format!("  (since {})", since.strftime("%H:%M:%S UTC"))
        });
        anstream::println!("  {} {}  {}{since}", step.shape.glyph(), step.who, step.reason);
        if !step.message.is_empty() {
            anstream::println!("      {}", step.message);
        }
    }
    if let Some(next) = next {
        anstream::println!("Next: {next}");
    }
}
