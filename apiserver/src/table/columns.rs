//! The columns of each kind.

use super::Column;
use crate::resources::Resource;

/// The columns of a kind, in the order of its cells.
pub(super) fn kind_columns(resource: &Resource) -> Vec<Column> {
    let Some(custom) = resource.custom() else {
        return builtin(&resource.kind);
    };
    let mut columns = vec![Column::new("Name", "string", 0)];
    if custom.columns.is_empty() {
        columns.push(Column::new("Age", "date", 0));
    }
    columns.extend(custom.columns.iter().map(|column| {
        let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
        let described = text("description");
        Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: if described.is_empty() {
                format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text("jsonPath")
                )
            } else {
                described
            },
            priority: column["priority"].as_i64().unwrap_or_default(), // absent: always shown
        }
    }));
    columns
}

/// The columns of the built-in kinds: `Name:type`, with `+` for wide output only.
fn builtin(kind: &str) -> Vec<Column> {
    let list = match kind {
        "Pod" => "Name Ready Status Restarts Age +IP +Node +Nominated_Node +Readiness_Gates",
        "Node" => {
            "Name Status Roles Age Version +Internal-IP +External-IP +OS-Image +Kernel-Version +Container-Runtime"
        }
        "Namespace" => "Name Status Age",
        "Service" => "Name Type Cluster-IP External-IP Port(s) Age +Selector",
        "Deployment" => "Name Ready Up-to-date:integer Available:integer Age +Containers +Images +Selector",
        "ReplicaSet" | "ReplicationController" => {
            "Name Desired:integer Current:integer Ready:integer Age +Containers +Images +Selector"
        }
        "StatefulSet" => "Name Ready Age +Containers +Images",
        "DaemonSet" => {
            "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector Age +Containers +Images +Selector"
        }
        "Job" => "Name Status Completions Duration Age +Containers +Images +Selector",
        "ConfigMap" => "Name Data:integer Age",
        "Secret" => "Name Type Data:integer Age",
        "ServiceAccount" => "Name Secrets:integer Age",
        "Event" => "Last_Seen Type Reason Object +Subobject +Source Message +First_Seen +Count:integer Name",
        "Lease" => "Name Holder Age",
        "Endpoints" => "Name Endpoints Age",
        "EndpointSlice" => "Name AddressType Ports Endpoints Age",
        "RoleBinding" | "ClusterRoleBinding" => "Name Role Age +Users +Groups +ServiceAccounts",
        "Ingress" => "Name Class Hosts Address Ports Age",
        "PersistentVolumeClaim" => "Name Status Volume Capacity Access_Modes StorageClass Age",
        "CustomResourceDefinition" | "Role" | "ClusterRole" => "Name Created_At:date",
        _ => "Name Age",
    };
    list.split(' ').map(column).collect()
}

fn column(text: &str) -> Column {
    let (text, priority) = text.strip_prefix('+').map_or((text, 0), |rest| (rest, 1));
    let (name, kind) = text.split_once(':').unwrap_or((text, "string"));
    Column::new(&name.replace('_', " "), kind, priority)
}
