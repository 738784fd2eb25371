//! The steps about the fleet: a cluster joins, one disconnects and returns, and a withdrawal is stopped.

use super::{
    Tour,
    rolling::{FIVE, contains_all, holds},
    world::{BACKUP, PODINFO, ready},
};

/// All clusters once the sixth has joined.
const SIX: [&str; 6] = ["ap-1", "dev-1", "eu-1", "eu-2", "us-1", "us-2"];
/// Without the one that disconnects.
const REACHABLE: [&str; 5] = ["ap-1", "dev-1", "eu-1", "eu-2", "us-1"];
/// The clusters from which the application is withdrawn.
const LEFT: [&str; 2] = ["us-1", "us-2"];
/// The clusters that keep it.
const KEPT: [&str; 4] = ["ap-1", "dev-1", "eu-1", "eu-2"];

impl Tour<'_> {
    pub(super) async fn a_cluster_joins(&mut self) -> anyhow::Result<()> {
        let before = self.world.versions(PODINFO).await?;
        self.guide.step(
            "A cluster joins",
            "ap-1 already runs, with only an agent. A script that needs only kubectl enrolls it; modules select it by its labels.",
        );
        self.guide
            .types("../enrol.sh ap-1 --downstream-kubeconfig ../clusters/ap-1.kubeconfig --labels env=prod,region=ap,stage=fleet --bootstrap")
            .await?;
        let world = &self.world;
        self.guide
            .until("podinfo 6.1.0 runs in ap-1", async || {
                world.runs(PODINFO, "6.1.0", &["ap-1"]).await
            })
            .await?;
        self.guide
            .until("so does backup", async || {
                world.runs(BACKUP, "2.3.0", &["ap-1"]).await
            })
            .await?;
        self.guide
            .types("kubectl wait --for=jsonpath='{.status.summary.clusters}'=6/6 --timeout=60s modules/podinfo bootstrapmodules/base")
            .await?;
        let untouched = self.world.untouched(PODINFO, &before, &FIVE).await?;
        self.guide
            .check("the other five were not written to", untouched)?;
        let tree = self.guide.types("muster tree cluster/ap-1").await?;
        self.guide.check(
            "all modules are ready on it",
            contains_all(&tree, &["3 of 3 modules ready"]),
        )?;
        self.limits()
    }

    pub(super) async fn a_cluster_goes_away(&mut self) -> anyhow::Result<()> {
        self.guide.step(
            "A cluster goes offline, and returns",
            "us-2 is unplugged (in the demo: by a file). It is skipped, counted and named; the rest of the fleet goes on without it.",
        );
        let before = self.world.versions(PODINFO).await?;
        self.guide.types("touch ../clusters/us-2.unplugged").await?;
        let world = &self.world;
        self.guide
            .until("muster says that us-2 is unreachable", async || {
                let status = world.module("podinfo").await?.status.unwrap_or_default(); // none: then nothing is said
                let attention = status
                    .attention
                    .iter()
                    .find(|attention| attention.cluster == "us-2");
                Ok(match attention {
                    Some(attention) if attention.reason == "Unreachable" => Ok(String::new()),
                    other => Err(format!("{other:?}")),
                })
            })
            .await?;
        self.commit("6.1.0", "6.2.0", "v1.1.0", "v1.3.0").await?;
        self.guide
            .types("muster rollout status module/podinfo --tag v1.3.0 --timeout 60s")
            .await?;
        let running = self.world.runs(PODINFO, "6.2.0", &REACHABLE).await?;
        self.guide
            .check("podinfo 6.2.0 runs in the five that are online", running)?;
        let untouched = self.world.untouched(PODINFO, &before, &["us-2"]).await?;
        self.guide.check("us-2 was not written to", untouched)?;
        let matrix = self.guide.types("muster matrix").await?;
        self.guide.check(
            "the matrix shows it with its symbol",
            contains_all(&matrix, &["? v1.1.0", "skipped"]),
        )?;

        self.guide.types("rm ../clusters/us-2.unplugged").await?;
        let world = &self.world;
        self.guide
            .until(
                "it updates automatically: podinfo 6.2.0 runs in us-2",
                async || world.runs(PODINFO, "6.2.0", &["us-2"]).await,
            )
            .await?;
        self.guide
            .types(
                "kubectl wait --for=jsonpath='{.status.summary.clusters}'=6/6 --timeout=60s module/podinfo",
            )
            .await?;
        self.limits()
    }

    pub(super) async fn a_withdrawal(&mut self) -> anyhow::Result<()> {
        self.guide.step(
            "A withdrawal, stopped by the brake",
            "A change of the selector drops two of six clusters, more than the brake of 20 %: it might be a mistake. Nothing is withdrawn until a user acknowledges it.",
        );
        let (before, backup) = (
            self.world.versions(PODINFO).await?,
            self.world.versions(BACKUP).await?,
        );
        self.guide
            .types("sed -i '/key: env/a\\      - {key: region, operator: NotIn, values: [us]}' modules/podinfo.yaml")
            .await?;
        self.guide
            .types("git commit -qam 'podinfo leaves the US'")
            .await?;
        let world = &self.world;
        self.guide
            .until("the withdrawal is held", async || {
                let (_, reason, message) = ready(&world.module("podinfo").await?);
                Ok(holds(reason == "WithdrawalHeld", || {
                    format!("{reason}: {message}")
                }))
            })
            .await?;
        let events = self.guide.types("kubectl get events --field-selector reason=WithdrawalHeld -o jsonpath='{.items[0].type}{\"\\n\"}'").await?;
        self.guide
            .check("a Warning event says so", contains_all(&events, &["Warning"]))?;
        let untouched = self.world.untouched(PODINFO, &before, &SIX).await?;
        self.guide.check("podinfo is in all six, untouched", untouched)?;

        self.guide
            .say("muster names the clusters that would lose it, and the command that acknowledges it:");
        let shown = self.guide.types("muster rollout withdraw module/podinfo").await?;
        self.guide.check(
            "us-1 and us-2 would lose it, of six",
            contains_all(
                &shown,
                &["2 of 6 clusters would lose it (us-1, us-2)", "--acknowledge"],
            ),
        )?;
        self.guide
            .types("muster rollout withdraw module/podinfo --acknowledge --reason 'podinfo leaves the US'")
            .await?;
        let world = &self.world;
        self.guide
            .until(
                "podinfo is gone from us-1 and us-2, with its namespace",
                async || world.is_gone(PODINFO.namespace, &LEFT).await,
            )
            .await?;
        self.guide
            .types("kubectl wait --for=condition=Ready --timeout=60s module/podinfo")
            .await?;
        let untouched = self.world.untouched(PODINFO, &before, &KEPT).await?;
        self.guide
            .check("the four that keep it were not written to", untouched)?;
        let untouched = self.world.untouched(BACKUP, &backup, &LEFT).await?;
        self.guide
            .check("nothing else in us-1 and us-2 was touched", untouched)?;
        let matrix = self.guide.types("muster matrix").await?;
        self.guide.check(
            "the matrix has no problem left",
            holds(!matrix.contains(['✗', '◆', '?', '◐', '○']), || {
                matrix.clone()
            }),
        )?;
        self.limits()?;
        self.guide.check(
            "throughout, muster needed no more than the rights of `muster install --export`",
            self.observer.rights(),
        )
    }
}
