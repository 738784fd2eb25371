//! Lists objects as kubectl does: the API server makes the tables, so the columns are those of the definitions.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, stream, stream::BoxStream};
use kube::{
    Client, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::path;
use muster_controllers::runtime::Api;
use serde_json::Value;

use crate::{near, nodes::NodeError};

/// The media type by which kubectl requests tables.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// What to list.
#[derive(Clone)]
pub struct Listing {
    /// Client of the cluster.
    pub client: Client,
    /// The namespace; `None` for all, or for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Whether the kinds are cluster-scoped kinds about nodes.
    pub are_of_nodes: bool,
    /// The kinds to list.
    pub kinds: Vec<ApiResource>,
    /// Label selector.
    pub selector: Option<String>,
    /// Name of a single object.
    pub name: Option<String>,
    /// Only objects with a condition of this type, in lower case, and this status; a missing condition is `Unknown`.
    pub condition: Option<(String, &'static str)>,
}

/// The objects of a kind as a table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Resource of the objects.
    pub kind: ApiResource,
    /// Column definitions: `name`, `priority` and other fields of the API server.
    pub columns: Vec<Value>,
    /// Rows: `cells`, and the `object` with its metadata.
    pub rows: Vec<Value>,
}

impl Listing {
    /// A table for each kind that has objects.
    pub async fn tables(&self) -> anyhow::Result<Vec<Table>> {
        let mut tables = Vec::new();
        for kind in &self.kinds {
            let mut answer = self.request_list(kind, TABLE).await?;
            let mut rows = taken(&mut answer["rows"]);
            rows.retain(|row| self.wants(&row["object"]));
            if !rows.is_empty() {
                tables.push(Table {
                    kind: kind.clone(),
                    columns: taken(&mut answer["columnDefinitions"]),
                    rows,
                });
            }
        }
        Ok(tables)
    }

    /// The objects, each with its kind.
    pub async fn items(&self) -> anyhow::Result<Vec<(ApiResource, Value)>> {
        let mut items = Vec::new();
        for kind in &self.kinds {
            let mut answer = self.request_list(kind, "application/json").await?;
            for mut item in taken(&mut answer["items"]) {
                if self.wants(&item) {
                    item["apiVersion"] = Value::from(kind.api_version.clone());
                    item["kind"] = Value::from(kind.kind.clone());
                    items.push((kind.clone(), item));
                }
            }
        }
        Ok(items)
    }

    /// Fails with similar names if the listed object does not exist.
    pub async fn check_name(&self) -> anyhow::Result<()> {
        let Some(wanted) = &self.name else {
            return Ok(());
        };
        let names = self.names().await?;
        if names.contains(wanted) {
            return Ok(());
        }
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.plural.as_str()).collect();
        let place = match &self.namespace {
            Some(namespace) => format!("namespace {namespace}"),
            None if self.are_of_nodes => "this cluster".to_owned(),
            None => "any namespace".to_owned(),
        };
        bail!(
            "no resource named {wanted} among {} in {place}{}",
            kinds.join(", "),
            near::offer(wanted, names.iter().map(String::as_str))
        )
    }

    /// All names, whichever name is listed.
    async fn names(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for kind in &self.kinds {
            let mut answer = self.request_list(kind, TABLE).await?;
            let rows = taken(&mut answer["rows"]);
            names.extend(rows.iter().map(|row| name(&row["object"]).to_owned()));
        }
        Ok(names)
    }

    /// Yields for each change of a listed object. It never ends: if a watch fails, the next list reports the error.
    pub fn changes(&self) -> anyhow::Result<BoxStream<'static, ()>> {
        let mut config = watcher::Config::default();
        config.label_selector.clone_from(&self.selector);
        let all = self.kinds.iter().map(|kind| {
            let api: Api<PartialObjectMeta<DynamicObject>> = match &self.namespace {
                None => Api::all_with(self.client.clone(), kind),
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            };
            let events = watcher(api.for_watching()?, config.clone()).default_backoff();
            Ok(events.map(drop).boxed())
        });
        Ok(stream::select_all(all.collect::<anyhow::Result<Vec<_>>>()?).boxed())
    }

    fn wants(&self, object: &Value) -> bool {
        let condition = self.condition.as_ref();
        self.name.as_ref().is_none_or(|wanted| name(object) == wanted)
            && condition.is_none_or(|(condition, wanted)| status(object, condition) == *wanted)
    }

    /// One list, in the representation that `accept` requests.
    async fn request_list(&self, kind: &ApiResource, accept: &str) -> anyhow::Result<Value> {
        let ApiResource {
            group,
            version,
            plural,
            ..
        } = kind;
        let within = match &self.namespace {
            None => String::new(),
            Some(namespace) => format!("/namespaces/{}", path::segment(namespace)?),
        };
        // By default, rows of a table contain only the metadata of their object.
        let rows = self.condition.as_ref().map(|_| "includeObject=Object".to_owned());
        let selector = self.selector.as_ref();
        let selector = selector.map(|selector| format!("labelSelector={}", encoded(selector)));
        let query: Vec<String> = rows.into_iter().chain(selector).collect();
        let request = http::Request::get(format!(
            "/apis/{group}/{version}{within}/{plural}?{}",
            query.join("&")
        ))
        .header(http::header::ACCEPT, accept)
        .body(Vec::new())
        .context("the request is invalid: is the selector valid?")?;
        let answer = self.client.request(request).await;
        if let Err(kube::Error::Api(status)) = &answer
            && status.code == 404
        {
            elsewhere(plural)?;
        }
        answer.with_context(|| format!("listing {plural}.{group}"))
    }
}

/// The names of the objects of a kind; only metadata is requested.
pub async fn names(
    client: &Client,
    namespace: Option<&str>,
    kind: &ApiResource,
) -> anyhow::Result<Vec<String>> {
    let api: Api<DynamicObject> = match namespace {
        None => Api::all_with(client.clone(), kind),
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
    };
    let list = api.list_metadata(&ListParams::default()).await?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn taken(list: &mut Value) -> Vec<Value> {
    list.as_array_mut().map(std::mem::take).unwrap_or_default()
}

/// The status of a condition; a missing one is unknown.
fn status<'a>(object: &'a Value, condition: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|found| {
            found["type"]
                .as_str()
                .is_some_and(|kind| kind.eq_ignore_ascii_case(condition))
        })
        .and_then(|found| found["status"].as_str())
        .unwrap_or("Unknown")
}

/// For kinds that not every cluster serves: where they are served.
fn elsewhere(plural: &str) -> anyhow::Result<()> {
    match plural {
        "clusterupgrades" => bail!(
            "ClusterUpgrades are not served by this cluster: they are in a management cluster with muster controller --upgrades (docs/upgrades.md); \
             next: muster crds --management --upgrades | kubectl apply --server-side -f -, or name another with --context or --kubeconfig"
        ),
        "zonerollouts" => bail!(
            "ZoneRollouts are not served by this cluster: they exist where muster zones is installed (docs/zones.md); next: muster install --export --zones \
             --crds, or name another with --context or --kubeconfig"
        ),
        "nodemodules" | "nodeassemblages" | "noderevisions" => bail!(NodeError::NotServed),
        _ => Ok(()),
    }
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
