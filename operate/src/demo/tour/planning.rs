//! The steps about the plan: a database whose migration fails, is fixed, and is copied by hand.

use super::{
    Tour,
    rolling::{contains_all, holds},
    world::{DB, ready},
};

/// The clusters that have the database, in rollout order.
const BOTH: [&str; 2] = ["eu-1", "eu-2"];

impl Tour<'_> {
    pub(super) async fn a_plan(&mut self) -> anyhow::Result<()> {
        self.guide.step(
            "A plan",
            "A database needs an order: a copy before the migration, the migration before the new server, a smoke test after it. A file in git defines it (examples/plan), and each cluster records its progress.",
        );
        self.guide
            .types("cp -r ../plan/db apps/db && cp ../plan/module.yaml modules/db.yaml && git add . && git commit -qm 'A database' && git tag db-v1")
            .await?;
        self.db_is_at("db-v1", "1").await?;

        self.guide
            .say("A version whose migration fails (in a simulated cluster: by an annotation):");
        self.guide
            .types("sed -i 's/metadata: {name: migrate,/metadata: {name: migrate, annotations: {player.muster-apiserver.dev\\/fail: crash},/' apps/db/jobs/migrate.yaml")
            .await?;
        let before = self.world.versions(DB).await?;
        self.db_version("1", "2", "db-v1", "db-v2").await?;
        self.guide
            .types_expecting("muster rollout status module/db --tag db-v2 --timeout 60s", 1)
            .await?;
        let why = self.guide.types("muster why module/db --cluster eu-1").await?;
        let words = [
            "update 3/5 schema/migrate FatalError",
            "Job/db/migrate-",
            "muster plan-run retry module/db",
        ];
        self.guide.check(
            "it names the step, its Job, and what can be done",
            contains_all(&why, &words),
        )?;
        let untouched = self.world.untouched(DB, &before, &BOTH).await?;
        self.guide.check("the database is as it was in both", untouched)?;
        let none = self.jobs("migrate", &["eu-2"]).await?;
        self.guide
            .check("in eu-2 the migration never ran a second time", none)?;

        self.guide
            .types("sed -i 's/annotations: {[^}]*}, //' apps/db/jobs/migrate.yaml")
            .await?;
        self.db_version("2", "3", "db-v2", "db-v3").await?;
        self.db_is_at("db-v3", "3").await?;
        self.guide
            .say("Jobs belong to runs: finished Jobs are not drift.");
        self.guide
            .types("muster diff module/db --allow-insecure-sources")
            .await?;
        self.guide
            .types("muster plan-run start backup module/db --cluster eu-1 --reason 'before the audit'")
            .await?;
        let world = &self.world;
        self.guide
            .until("eu-1 has made a copy, and reports it", async || {
                let plan = world.plan("eu-1", "db").await?;
                Ok(holds(plan == "backup 1/1 Complete", || plan))
            })
            .await?;
        let (status, reason, message) = ready(&self.world.module("db").await?);
        self.guide.check(
            "the module stays ready",
            holds(status == "True", || format!("{reason}: {message}")),
        )?;
        self.guide.check(
            "db: one cluster at a time, by the clusters' own logs",
            self.observer.changing(DB, 1),
        )?;
        self.limits()
    }

    /// A version of the database in the files, with its commit and its tag.
    async fn db_version(&mut self, from: &str, to: &str, from_tag: &str, to_tag: &str) -> anyhow::Result<()> {
        self.guide
            .types(&format!(
                "sed -i 's/db:{from}/db:{to}/' apps/db/database.yaml && sed -i 's/db-tools:{from}/db-tools:{to}/' apps/db/jobs/*.yaml && \
                 sed -i 's/tag: {from_tag}/tag: {to_tag}/' modules/db.yaml && git commit -qam 'db {to}' && git tag {to_tag}"
            ))
            .await?;
        Ok(())
    }

    async fn db_is_at(&mut self, tag: &str, version: &str) -> anyhow::Result<()> {
        let world = &self.world;
        self.guide
            .until(&format!("module db has come from git, at {tag}"), async || {
                let module = world.module("db").await?;
                let wanted = module.spec.sync.source.version().tag.unwrap_or_default();
                Ok(holds(wanted == tag, || wanted))
            })
            .await?;
        self.guide
            .types(&format!(
                "muster rollout status module/db --tag {tag} --timeout 60s"
            ))
            .await?;
        let running = self.world.runs(DB, version, &BOTH).await?;
        self.guide.check(
            &format!("the database runs at {version} in eu-1 and eu-2"),
            running,
        )
    }

    /// Whether each of these clusters has exactly one Job of this name, from the last run.
    async fn jobs(&self, name: &str, clusters: &[&str]) -> anyhow::Result<Result<String, String>> {
        for cluster in clusters {
            let jobs = self.world.jobs(cluster, DB.namespace, name).await?;
            if jobs.len() != 1 {
                return Ok(Err(format!("{cluster} has {}", jobs.join(", "))));
            }
        }
        Ok(Ok(String::new()))
    }
}
