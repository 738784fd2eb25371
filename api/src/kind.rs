//! The macro that makes a Kubernetes object from a spec and a status, so that two kinds can share one spec.

/// The API group of all muster kinds.
pub const GROUP: &str = "fleet.muster.dev";
/// The API version of all muster kinds.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of all muster kinds.
pub const API_VERSION: &str = "fleet.muster.dev/v1alpha1";

/// Defines a root object with `metadata`, `spec` and `status`, and implements `kube::Resource`, `HasSpec` and
/// `HasStatus` for it.
///
/// A kind that ends with `, cluster` is cluster-scoped.
///
/// kube's derive attaches the root to the spec type, which allows only one kind per spec; `Module` and
/// `BootstrapModule` share one.
macro_rules! kind {
    ($(#[doc = $doc:expr])* $(#[schemars($($schema:tt)*)])? $root:ident, $plural:literal, $short:literal, $columns:path, $spec:ty, $status:ty $(, $scope:ident)?) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[schemars($($schema)*)])?
        pub struct $root {
            /// Standard object metadata.
            #[schemars(skip)]
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// Desired state.
            pub spec: $spec,
            /// Observed state; written only by muster.
            #[serde(default)]
            pub status: Option<$status>,
        }

        impl $root {
            /// A new object without namespace and status.
            pub fn new(name: &str, spec: $spec) -> Self {
                Self {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    spec,
                    status: None,
                }
            }
        }

        impl serde::Serialize for $root {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let fields = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($root), fields)?;
                object.serialize_field("apiVersion", $crate::kind::API_VERSION)?;
                object.serialize_field("kind", stringify!($root))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }

        impl kube::Resource for $root {
            type DynamicType = ();
            type Scope = $crate::kind::scope!(type $($scope)?);

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($root).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $crate::kind::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $crate::kind::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube::CustomResourceExt for $root {
            fn crd() -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
                $crate::definition::definition::<Self>($short, $crate::kind::scope!(name $($scope)?), $columns())
            }

            fn crd_name() -> &'static str {
                concat!($plural, ".fleet.muster.dev")
            }

            fn api_resource() -> kube::core::ApiResource {
                kube::core::ApiResource::erase::<Self>(&())
            }

            fn shortnames() -> &'static [&'static str] {
                &[$short]
            }
        }

        impl kube::core::object::HasSpec for $root {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        impl kube::core::object::HasStatus for $root {
            type Status = $status;

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<$status> {
                &mut self.status
            }
        }
    };
}

/// Kinds are namespaced unless declared with `cluster`.
macro_rules! scope {
    (type) => {
        k8s_openapi::NamespaceResourceScope
    };
    (type cluster) => {
        k8s_openapi::ClusterResourceScope
    };
    (name) => {
        "Namespaced"
    };
    (name cluster) => {
        "Cluster"
    };
}

pub(crate) use {kind, scope};
