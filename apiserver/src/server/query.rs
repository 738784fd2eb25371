//! Query parameters.

use std::collections::BTreeMap;

use serde_json::json;

use crate::schema::Cause;
use crate::status::{About, ApiError};

/// The parameters of a request; of a repeated one the first wins (but see [`Query::all`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    values: BTreeMap<String, Vec<String>>,
}

/// How unknown fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Reject the request.
    Strict,
    /// Drop them and warn.
    Warn,
    /// Drop them.
    Ignore,
}

impl Query {
    /// Parses the query string of a URL.
    pub(crate) fn parse(text: &str) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            values
                .entry(decoded(key, true))
                .or_default()
                .push(decoded(value, true));
        }
        Self { values }
    }

    /// A parameter, empty if absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.all(name).first().map_or("", String::as_str)
    }

    /// All values of a parameter, in order.
    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map(Vec::as_slice).unwrap_or_default() // absent
    }

    /// A boolean parameter as in Go's URL conversion: everything but `false` and `0` is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.all(name).first()?;
        Some(!matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// Whether the request is a watch.
    pub(crate) fn is_watch(&self) -> bool {
        self.flag("watch").unwrap_or(false)
    }

    /// A numeric parameter.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let text = self.get(name);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse::<i64>().map_err(|_| {
            ApiError::bad_request(&format!(
                "unable to decode \"{name}\": strconv.ParseInt: parsing \"{text}\": invalid syntax"
            ))
        })?;
        Ok(u64::try_from(number).ok()) // negative numbers mean "not given", as for the real server
    }

    /// Whether the write is a dry run.
    pub(crate) fn dry_run(&self) -> Result<bool, ApiError> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let message = format!("Unsupported value: {}: supported values: \"All\"", json!([other]));
                Err(options_error(Cause::new(
                    crate::schema::reason::NOT_SUPPORTED,
                    "dryRun",
                    message,
                )))
            }
        }
    }

    /// How unknown fields are handled.
    pub(crate) fn field_validation(&self) -> Result<FieldValidation, ApiError> {
        match self.get("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => {
                let message = format!(
                    "Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\""
                );
                Err(options_error(Cause::new(
                    crate::schema::reason::NOT_SUPPORTED,
                    "fieldValidation",
                    message,
                )))
            }
        }
    }
}

/// An error about the options of a write.
pub(super) fn options_error(cause: Cause) -> ApiError {
    let about = About {
        group: "meta.k8s.io",
        kind: "PatchOptions",
        name: "",
    };
    ApiError::invalid(about, &[cause])
}

/// Percent-decodes; with `plus` a plus sign is a space.
pub(super) fn decoded(text: &str, plus: bool) -> String {
    let text = if plus {
        text.replace('+', " ")
    } else {
        text.to_owned()
    };
    percent_encoding::percent_decode_str(&text)
        .decode_utf8_lossy()
        .into_owned()
}
