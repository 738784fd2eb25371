//! The clients of controllers: writes are counted, and refused once this process has lost the right to act. Reads are
//! always allowed.

use std::sync::{Arc, OnceLock};

use http::{Request, Response};
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

use crate::{
    lease::Leadership,
    metrics::{Metrics, Target, Verb, WriteResult},
    runtime::refused::NotLeading,
};

/// The check before every write.
#[derive(Clone)]
pub(super) struct Outgoing {
    /// The right to write; `None` in it: this process is the only one. Not set: it is not the leader yet.
    leadership: Arc<OnceLock<Option<Leadership>>>,
    /// The metrics of writes.
    pub metrics: Metrics,
}

impl Outgoing {
    /// A check with this right.
    pub(super) fn new(leadership: Option<Leadership>, metrics: Metrics) -> Self {
        let outgoing = Self::before_the_lease(metrics);
        outgoing.lead(leadership);
        outgoing
    }

    /// A check without a right until the process is the leader.
    pub(super) fn before_the_lease(metrics: Metrics) -> Self {
        Self {
            leadership: Arc::default(),
            metrics,
        }
    }

    /// Sets the right.
    pub(super) fn lead(&self, leadership: Option<Leadership>) {
        // A process becomes the leader once: a second call is unreachable.
        let _ = self.leadership.set(leadership);
    }

    fn check(&self) -> Result<(), NotLeading> {
        match self.leadership.get() {
            None => Err(NotLeading),
            Some(None) => Ok(()),
            Some(Some(leadership)) => leadership.check(),
        }
    }

    /// A client that sends everything to `inner`, after the check.
    pub(super) fn client(&self, inner: Client, target: Target) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let outgoing = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (outgoing, inner) = (outgoing.clone(), inner.clone());
            async move { outgoing.send(inner, target, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(
        self,
        inner: Client,
        target: Target,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let Some(verb) = Verb::of(&request) else {
            return Ok(inner.send(request).await?);
        };
        let writing = self.metrics.writing(target, verb);
        if let Err(refused) = self.check() {
            writing.ended(WriteResult::Withheld);
            return Err(refused.into());
        }
        let answer = inner.send(request).await?;
        let done = answer.status().is_success();
        writing.ended(if done {
            WriteResult::Done
        } else {
            WriteResult::Refused
        });
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api, ResourceExt,
        api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    };
    use muster_apiserver::ApiServer;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::runtime::call::{call, error_chain};

    fn config_map(name: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    }

    /// Every writing verb; each fails with the message of the lease.
    async fn write(maps: &Api<ConfigMap>) -> Vec<String> {
        let (post, patch) = (PostParams::default(), PatchParams::apply("test"));
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        let errors = [
            call("creating", maps.create(&post, &config_map("new")))
                .await
                .err(),
            call("updating", maps.replace("old", &post, &config_map("old")))
                .await
                .err(),
            call(
                "patching",
                maps.patch("old", &PatchParams::default(), &Patch::Merge(&body)),
            )
            .await
            .err(),
            call("applying", maps.patch("old", &patch, &Patch::Apply(&body)))
                .await
                .err(),
            call(
                "trying",
                maps.patch("old", &patch.dry_run(), &Patch::Apply(&body)),
            )
            .await
            .err(),
            call("deleting", maps.delete("old", &DeleteParams::default()))
                .await
                .err(),
        ];
        errors.iter().flatten().map(|error| error_chain(error)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_time_nothing_is_sent_but_reads() {
        let server = ApiServer::in_process().unwrap();
        let leadership = Leadership::until(Instant::now() + Duration::from_secs(10));
        let metrics = Metrics::default();
        let outgoing = Outgoing::new(Some(leadership), metrics.clone());
        let client = outgoing.client(server.client_as("muster"), Target::Own);
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        maps.create(&PostParams::default(), &config_map("old"))
            .await
            .unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        server.recorder().clear();
        let messages = write(&maps).await;
        insta::assert_snapshot!(messages.join("\n"), @"
        creating: not sent: the lease of this process was not renewed in time, another process may act
        updating: not sent: the lease of this process was not renewed in time, another process may act
        patching: not sent: the lease of this process was not renewed in time, another process may act
        applying: not sent: the lease of this process was not renewed in time, another process may act
        trying: not sent: the lease of this process was not renewed in time, another process may act
        deleting: not sent: the lease of this process was not renewed in time, another process may act
        ");
        let requests = server.recorder().requests();
        assert_eq!(
            requests
                .iter()
                .filter(|request| request.client == "muster")
                .count(),
            0
        );
        assert_eq!(maps.get("old").await.unwrap().name_any(), "old");
        assert_eq!(
            maps.list(&ListParams::default()).await.unwrap().items.len(),
            2,
            "and the CA's"
        );
        let counted = metrics.scrape().unwrap();
        for verb in ["create", "update", "patch", "apply", "dry-run", "delete"] {
            let line =
                format!("muster_writes_total{{target=\"own\",verb=\"{verb}\",outcome=\"withheld\"}} 1");
            assert!(counted.contains(&line), "{line}\n{counted}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn before_its_time_is_over_all_is_sent_and_counted() {
        let server = ApiServer::in_process().unwrap();
        let metrics = Metrics::default();
        let outgoing = Outgoing::new(None, metrics.clone());
        let client = outgoing.client(server.client(), Target::Cluster);
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        maps.create(&PostParams::default(), &config_map("old"))
            .await
            .unwrap();
        assert!(write(&maps).await.is_empty());
        maps.create(&PostParams::default(), &config_map("new"))
            .await
            .unwrap_err();
        let counted = metrics.scrape().unwrap();
        let lines = counted
            .lines()
            .filter(|line| line.starts_with("muster_writes_total"));
        let mut lines: Vec<&str> = lines.collect();
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        muster_writes_total{target="cluster",verb="apply",outcome="done"} 1
        muster_writes_total{target="cluster",verb="create",outcome="done"} 2
        muster_writes_total{target="cluster",verb="create",outcome="refused"} 1
        muster_writes_total{target="cluster",verb="delete",outcome="done"} 1
        muster_writes_total{target="cluster",verb="dry-run",outcome="done"} 1
        muster_writes_total{target="cluster",verb="patch",outcome="done"} 1
        muster_writes_total{target="cluster",verb="update",outcome="done"} 1
        "#);
    }
}
