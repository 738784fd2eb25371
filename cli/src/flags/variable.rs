//! A variable of manifests, given as `--substitute NAME=VALUE`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use muster_sync::substitute::Variables;

/// A variable to substitute.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Value that replaces it.
    pub value: String,
}

impl fmt::Debug for Variable {
    /// Omits the value, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variable({})", self.name)
    }
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("write NAME=VALUE, such as REPLICAS=3")?;
        let (name, value) = (name.to_owned(), value.to_owned());
        Variables::new(&BTreeMap::from([(name.clone(), String::new())]))
            .map_err(|error| error.to_string())?;
        Ok(Self { name, value })
    }
}

impl Variable {
    /// Variables by name; if a name is given several times, the last one applies.
    pub(crate) fn map(all: Vec<Self>) -> BTreeMap<String, String> {
        all.into_iter()
            .map(|variable| (variable.name, variable.value))
            .collect()
    }
}
