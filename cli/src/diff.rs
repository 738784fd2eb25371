//! `muster diff`: what applying a folder would change in a cluster, and what in clusters is not as a module has it.

use anyhow::bail;
use muster_fleet::connect::{self, Target};
use muster_foresee::diff::{self, Compared, Differs, Options};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::{DiffFlags, Variable},
    nodes, output,
};

/// Shows what would be created, changed and deleted. Writes nothing.
pub(crate) async fn run(target: &Target, flags: DiffFlags) -> anyhow::Result<u8> {
    if let Some(wrong) = flags.misplaced() {
        bail!(wrong);
    }
    let module = flags.module().transpose()?;
    let (client, namespace) = connect::client(target).await?;
    let compared = match module {
        Some(module) if module.is_of_nodes() => return nodes::diff(&client, &module, &flags).await,
        Some(module) => {
            let options = Options {
                clusters: flags.cluster,
                clones: flags.source,
                allow_insecure_sources: flags.allow_insecure_sources,
            };
            diff::module((&client, &namespace), &module, &options).await?
        }
        None => {
            let given = Variable::map(flags.substitute);
            let kustomization = flags.kustomization.as_deref();
            diff::folder((client, &namespace), &flags.what, given, kustomization).await?
        }
    };
    show(&compared)
}

fn show(compared: &Compared) -> anyhow::Result<u8> {
    for message in &compared.errors {
        complain!("error: {message}");
    }
    for text in &compared.texts {
        output::text(text)?;
    }
    if let Some(note) = &compared.note {
        complain!("{note}");
    }
    Ok(match compared.differs {
        Differs::No => DONE,
        Differs::Yes => FAILED,
        Differs::Unknown => UNKNOWN,
    })
}
