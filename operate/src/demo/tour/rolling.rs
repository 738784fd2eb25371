//! The steps about one module: first rollout, a good version, a bad one, why, and recovery.

use super::{
    Tour,
    guide::CheckResult,
    world::{BACKUP, PODINFO, Versions, ready},
};

/// The clusters at the start, in rollout order: by name.
pub(crate) const FIVE: [&str; 5] = ["dev-1", "eu-1", "eu-2", "us-1", "us-2"];
/// The first cluster of a rollout.
const FIRST: &str = "dev-1";
/// The clusters after it.
const OTHERS: [&str; 4] = ["eu-1", "eu-2", "us-1", "us-2"];

impl Tour<'_> {
    pub(super) async fn first_rollout(&mut self) -> anyhow::Result<()> {
        self.guide.step(
            "First rollout",
            "The management plane syncs the directory modules/ of the git repository itself. It has three modules: a web application \
             (podinfo), an operator for production (backup), and what every cluster needs first (base). Each allows one cluster, base two, \
             to change at a time.",
        );
        let world = &self.world;
        self.guide
            .until("the modules have come from git", async || {
                for module in ["podinfo", "backup"] {
                    world.module(module).await?;
                }
                Ok(Ok(String::new()))
            })
            .await?;
        self.guide
            .types("kubectl wait --for=condition=Ready --timeout=60s modules/podinfo modules/backup bootstrapmodules/base")
            .await?;
        let matrix = self.guide.types("muster matrix").await?;
        self.guide.check(
            "the matrix shows that all is ready",
            contains_all(&matrix, &["14 ready"]),
        )?;
        let running = self.world.runs(PODINFO, "6.0.0", &FIVE).await?;
        self.guide.check(
            "podinfo 6.0.0 runs in all five clusters, as they report themselves",
            running,
        )?;
        let running = self.world.runs(BACKUP, "2.3.0", &OTHERS).await?;
        self.guide
            .check("backup runs in the four of production, and not in dev-1", running)?;
        let none = self.world.deployment(FIRST, BACKUP).await?;
        self.guide.check(
            "dev-1 has no operator",
            none.map_or(Ok(String::new()), |_| Err("it has one".to_owned())),
        )?;
        self.limits()
    }

    pub(super) async fn good_version(&mut self) -> anyhow::Result<()> {
        self.guide.step(
            "A good version",
            "A commit changes the image and the version that the module names; a tag is that exact state. Nothing else is needed: no \
             push to a cluster, no command to muster.",
        );
        self.edit("6.0.0", "6.1.0", "v1.0.0", "v1.1.0").await?;
        let plan = self.guide.types_expecting("muster plan -f modules", 1).await?;
        self.guide.check(
            "the plan knows the variables, the order, and that the tag is still to come",
            contains_all(&plan, &["dev-1 → eu-1 → eu-2 → us-1 → us-2", "no tag v1.1.0 yet"]),
        )?;
        self.record("6.1.0", "v1.1.0").await?;
        self.guide
            .types("muster rollout status module/podinfo --tag v1.1.0 --timeout 60s")
            .await?;
        let running = self.world.runs(PODINFO, "6.1.0", &FIVE).await?;
        self.guide
            .check("podinfo 6.1.0 runs in all five clusters", running)?;
        let order = self.observer.had(PODINFO, "6.1.0").map_err(anyhow::Error::msg)?;
        self.guide
            .check("one after another, in order", equal(&order, &FIVE))?;
        self.limits()
    }

    pub(super) async fn bad_version(&mut self) -> anyhow::Result<()> {
        let before = self.world.versions(PODINFO).await?;
        self.guide.step(
            "A bad version",
            "An image with 'bad' in its name cannot be pulled in a simulated cluster. One cluster must discover that; no other may ever get it.",
        );
        self.commit("6.1.0", "bad", "v1.1.0", "v1.2.0").await?;
        self.guide
            .types_expecting(
                "muster rollout status module/podinfo --tag v1.2.0 --timeout 60s",
                1,
            )
            .await?;
        self.only_the_first_has_it(&before).await?;
        let status = self.world.module("podinfo").await?.status.unwrap_or_default(); // none: then nothing of it is true
        let failed = status.summary.as_ref().map_or(0, |summary| summary.failed);
        let halted = status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Halted" && condition.status == "True");
        self.guide.check(
            "the module counts one failure, and is halted",
            holds(failed == 1 && halted, || {
                format!("failed: {failed}, halted: {halted}")
            }),
        )?;
        let revisions = self.world.revisions().await?;
        let of = |tag: &str| {
            let found = revisions
                .iter()
                .find(|revision| revision.spec.sync.source.version().tag.as_deref() == Some(tag));
            found
                .and_then(|revision| revision.status.as_ref()?.verdict)
                .map(|verdict| format!("{verdict:?}"))
        };
        let verdicts = (of("v1.1.0"), of("v1.2.0"));
        let right = (Some("Good".to_owned()), Some("Bad".to_owned()));
        self.guide.check(
            "on record, v1.1.0 is good and v1.2.0 is bad",
            holds(verdicts == right, || format!("{verdicts:?}")),
        )
    }

    pub(super) async fn why(&mut self) -> anyhow::Result<()> {
        self.guide.step(
            "Why?",
            "Each cluster has one reason, down to the object that fails, and there is one thing to do next.",
        );
        let why = self.guide.types("muster why module/podinfo").await?;
        self.guide.check(
            "it names the cluster, the object, the cause and what to do",
            contains_all(
                &why,
                &[
                    FIRST,
                    "Failed",
                    "Deployment/web/podinfo",
                    "ImagePullBackOff",
                    "Next: ",
                ],
            ),
        )?;
        let tree = self.guide.types("muster tree module/podinfo").await?;
        self.guide.check(
            "the tree shows one problem, and four clusters on one line",
            contains_all(&tree, &["Cluster/dev-1", "Clusters eu-1, eu-2, us-1, us-2"]),
        )?;
        let status = self.world.module("podinfo").await?.status.unwrap_or_default(); // none: no unit has a reason
        let mut clusters: Vec<String> = status
            .attention
            .iter()
            .map(|attention| attention.cluster.clone())
            .collect();
        clusters.sort();
        self.guide
            .check("each of the five has exactly one reason", equal(&clusters, &FIVE))
    }

    pub(super) async fn recovery(&mut self) -> anyhow::Result<()> {
        let before = self.world.versions(PODINFO).await?;
        self.guide.step(
            "Recovery",
            "Only through git: the commit is reverted, and with it the version that the module names.",
        );
        self.guide.types("git revert --no-edit HEAD").await?;
        self.guide
            .types("muster rollout status module/podinfo --tag v1.1.0 --timeout 60s")
            .await?;
        let running = self.world.runs(PODINFO, "6.1.0", &FIVE).await?;
        self.guide
            .check("podinfo 6.1.0 runs in all five clusters", running)?;
        let untouched = self.world.untouched(PODINFO, &before, &OTHERS).await?;
        self.guide.check("only dev-1 was written to", untouched)?;
        self.limits()?;

        self.guide.say("And if someone reintroduces the bad version? It is known, and no cluster gets it, not even dev-1.");
        let before = self.world.versions(PODINFO).await?;
        self.guide.types("git revert --no-edit HEAD").await?;
        let output = self
            .guide
            .types_expecting(
                "muster rollout status module/podinfo --tag v1.2.0 --timeout 60s",
                1,
            )
            .await?;
        self.guide.check(
            "it is refused as known to be bad",
            contains_all(&output, &["KnownBad"]),
        )?;
        let untouched = self.world.untouched(PODINFO, &before, &FIVE).await?;
        self.guide.check("no cluster was written to", untouched)?;
        self.guide.types("git revert --no-edit HEAD").await?;
        self.guide
            .types("muster rollout status module/podinfo --tag v1.1.0 --timeout 60s")
            .await?;
        Ok(())
    }

    /// The commit and the tag of a version, as in the README.
    pub(super) async fn commit(
        &mut self,
        from: &str,
        to: &str,
        from_tag: &str,
        to_tag: &str,
    ) -> anyhow::Result<()> {
        self.edit(from, to, from_tag, to_tag).await?;
        self.record(to, to_tag).await
    }

    /// Writes the version to the files.
    async fn edit(&mut self, from: &str, to: &str, from_tag: &str, to_tag: &str) -> anyhow::Result<()> {
        self.guide
            .types(&format!(
                "sed -i 's/podinfo:{from}/podinfo:{to}/' apps/podinfo/deployment.yaml"
            ))
            .await?;
        self.guide
            .types(&format!(
                "sed -i 's/tag: {from_tag}/tag: {to_tag}/' modules/podinfo.yaml"
            ))
            .await?;
        Ok(())
    }

    /// Commits and tags it.
    async fn record(&mut self, version: &str, tag: &str) -> anyhow::Result<()> {
        self.guide
            .types(&format!("git commit -qam 'podinfo {version}' && git tag {tag}"))
            .await?;
        Ok(())
    }

    /// Checks the limit that must never be exceeded, for everything so far.
    pub(super) fn limits(&mut self) -> anyhow::Result<()> {
        let (guide, observer) = (&mut self.guide, &self.observer);
        guide.check(
            "podinfo: one cluster at a time, by the clusters' own logs",
            observer.changing(PODINFO, 1),
        )?;
        guide.check("backup: one cluster at a time", observer.changing(BACKUP, 1))?;
        guide.check(
            "podinfo: the next was assigned only when the last was done",
            observer.assigned("proxyassemblages", "podinfo", 1),
        )?;
        guide.check(
            "base: two clusters at a time",
            observer.assigned("remoteassemblages", "base", 2),
        )
    }

    async fn only_the_first_has_it(&mut self, before: &Versions) -> anyhow::Result<()> {
        let had = self.observer.had(PODINFO, "bad").map_err(anyhow::Error::msg)?;
        self.guide.check(
            "of all writes to all clusters, the bad version went only to dev-1",
            equal(&had, &[FIRST]),
        )?;
        let untouched = self.world.untouched(PODINFO, before, &OTHERS).await?;
        self.guide
            .check("the other four were not written to", untouched)?;
        let running = self.world.runs(PODINFO, "6.1.0", &OTHERS).await?;
        self.guide.check("they run 6.1.0 as before", running)?;
        let (status, reason, _) = ready(&self.world.module("podinfo").await?);
        self.guide.check(
            "the module is not ready, and reports that dev-1 failed",
            holds(status == "False" && reason == "Failed", || {
                format!("Ready is {status}: {reason}")
            }),
        )
    }
}

/// Whether a text contains all these words.
pub(crate) fn contains_all(text: &str, words: &[&str]) -> CheckResult {
    let missing: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| !text.contains(word))
        .collect();
    holds(missing.is_empty(), || {
        format!("{} not in\n{text}", missing.join(", "))
    })
}

/// Whether two lists are equal.
pub(crate) fn equal(observed: &[String], expected: &[&str]) -> CheckResult {
    if observed == expected {
        Ok(observed.join(", "))
    } else {
        Err(observed.join(", "))
    }
}

/// The observed state, as expected if the condition is true.
pub(crate) fn holds(it: bool, describe: impl FnOnce() -> String) -> CheckResult {
    if it { Ok(String::new()) } else { Err(describe()) }
}
