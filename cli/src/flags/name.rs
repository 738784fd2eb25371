//! Names as arguments: the type of a name decides which names completion offers (`names`).

use std::{fmt, ops::Deref, str::FromStr};

/// Defines the type of an argument that is a name.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl FromStr for $name {
            type Err = std::convert::Infallible;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(Self(text.to_owned()))
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    )* };
}

names! {
    /// The name of a Cluster.
    ClusterName;
    /// The name of a Node.
    NodeName;
    /// The name of a RolloutWindow.
    WindowName;
    /// A context of the kubeconfig.
    ContextName;
    /// The name of an object of the listed kind.
    ListedName;
}

/// Converts names to the type that the libraries take.
pub(crate) fn strings<N: Into<String> + Clone>(names: &[N]) -> Vec<String> {
    names.iter().cloned().map(Into::into).collect()
}
