//! The tour: a fleet's life in nine steps, narrated, and checked from outside the controllers.
//!
//! ```text
//!   Guide ── runs the same commands as a user (git, kubectl, muster, enrol.sh), in the work tree
//!     └───── checks ◄── World: objects as the API servers have them
//!                   ◄── Observer: every write since the start, from the logs of all API servers
//!                   ◄── what the commands print
//! ```
//!
//! Invariant: no check asks a controller; a failed check ends the tour with the expected and the observed state.

mod fleet;
mod guide;
mod observer;
mod planning;
mod rights;
mod rolling;
mod world;

use std::path::Path;

use super::{cluster::Cluster, directory::Directory, narrator::Narrator, plane::Plane};
use guide::{Failed, Guide};
use observer::Observer;
use world::World;

/// What the steps share.
struct Tour<'a> {
    guide: Guide,
    world: World<'a>,
    observer: Observer<'a>,
}

/// Runs the tour; true only if all checks passed.
pub(crate) async fn run_tour(
    directory: &Directory,
    plane: &Plane,
    fleet: &[Cluster],
    spare: &Cluster,
    reporter: Narrator,
) -> anyhow::Result<bool> {
    let clusters: Vec<&Cluster> = fleet.iter().chain([spare]).collect();
    let mut tour = Tour {
        guide: Guide::new(directory, reporter.clone())?,
        world: World::new(plane, &clusters),
        observer: Observer::new(plane, &clusters),
    };
    begin(directory.path(), fleet.len(), &reporter);
    match tour.steps().await {
        Ok(()) => {
            tour.guide.end();
            Ok(true)
        }
        Err(error) => match error.downcast_ref::<Failed>() {
            Some(failed) => {
                tour.guide.ended_by(failed);
                Ok(false)
            }
            None => Err(error),
        },
    }
}

impl Tour<'_> {
    async fn steps(&mut self) -> anyhow::Result<()> {
        self.first_rollout().await?;
        self.good_version().await?;
        self.bad_version().await?;
        self.why().await?;
        self.recovery().await?;
        self.a_cluster_joins().await?;
        self.a_cluster_goes_away().await?;
        self.a_plan().await?;
        self.a_withdrawal().await
    }
}

fn begin(directory: &Path, clusters: usize, reporter: &Narrator) {
    reporter.line(&format!(
        "A tour of muster: {clusters} clusters and a management plane, on this machine, in {}",
        directory.display()
    ));
    reporter.line("The clusters are simulated; git, HTTPS, kubectl, the controller and the agents are real.");
    reporter.line("  $  a command, run in the directory fleet (KUBECONFIG names the management plane)");
    reporter.line(
        "  ✓  checked from outside muster: by API servers' objects and logs, git, and what commands print",
    );
}
