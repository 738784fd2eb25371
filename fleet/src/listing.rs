//! Lists objects as kubectl does: tables are made by the API server, so the columns are the definitions' own.

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

/// What kubectl asks for to get a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// What is listed.
#[derive(Clone)]
pub struct Listing {
    /// Of which cluster.
    pub client: Client,
    /// Of which namespace; none: of all, or the kinds have none.
    pub namespace: Option<String>,
    /// The kinds are of the nodes of the cluster, and have no namespace.
    pub are_of_nodes: bool,
    /// Of which kinds.
    pub kinds: Vec<ApiResource>,
    /// Only those with these labels.
    pub selector: Option<String>,
    /// Only the one of this name.
    pub name: Option<String>,
    /// Only those with a condition of this type, in lower case, and this status; a condition that is not there is `Unknown`.
    pub condition: Option<(String, &'static str)>,
}

/// Objects of a kind as a table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The kind.
    pub kind: ApiResource,
    /// The columns: `name`, `priority` and what else the API server tells of them.
    pub columns: Vec<Value>,
    /// The rows: `cells`, and the `object` with its metadata.
    pub rows: Vec<Value>,
}

impl Listing {
    /// A table for each kind that has objects.
    pub async fn tables(&self) -> anyhow::Result<Vec<Table>> {
        let mut tables = Vec::new();
        for kind in &self.kinds {
            let mut answer = self.ask(kind, TABLE).await?;
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
            let mut answer = self.ask(kind, "application/json").await?;
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

    /// An error, with the names that are near, if one is listed and nothing is called so.
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

    /// The names that there are, whatever name is listed.
    async fn names(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for kind in &self.kinds {
            let mut answer = self.ask(kind, TABLE).await?;
            let rows = taken(&mut answer["rows"]);
            names.extend(rows.iter().map(|row| name(&row["object"]).to_owned()));
        }
        Ok(names)
    }

    /// Something for each change of an object that is listed. It never ends: where a watch fails, the list says what is wrong.
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

    /// One list, in the form that `accept` says.
    async fn ask(&self, kind: &ApiResource, accept: &str) -> anyhow::Result<Value> {
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
        // Rows of a table bring no more than metadata along, if they are not asked to.
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
        .context("the request cannot be made: is the selector well-formed?")?;
        let answer = self.client.request(request).await;
        if let Err(kube::Error::Api(status)) = &answer
            && status.code == 404
        {
            elsewhere(plural)?;
        }
        answer.with_context(|| format!("listing {plural}.{group}"))
    }
}

/// The names of the objects of a kind, without what else they hold.
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

/// The status of a condition; one that is not there is unknown.
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

/// Kinds that not every cluster has: where they are not served, where they are.
fn elsewhere(plural: &str) -> anyhow::Result<()> {
    match plural {
        "clusterupgrades" => bail!(
            "ClusterUpgrades are not served by this cluster: they are in a management cluster with muster controller --upgrades (docs/upgrades.md); \
             next: muster crds --management --upgrades | kubectl apply --server-side -f -, or name another with --context or --kubeconfig"
        ),
        "zonerollouts" => bail!(
            "ZoneRollouts are not served by this cluster: they are where muster zones is (docs/zones.md); next: muster install --export --zones \
             --crds, or name another with --context or --kubeconfig"
        ),
        "nodemodules" | "nodeassemblages" | "noderevisions" => bail!(NodeError::NotServed),
        _ => Ok(()),
    }
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
