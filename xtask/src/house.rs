//! House rules that no lint covers.

use anyhow::Context;
use regex::Regex;

use crate::{Problems, tree};

/// A pattern that product code must not contain.
struct Rule {
    /// The regular expression.
    pattern: &'static str,
    /// Why, and what to do instead.
    why: &'static str,
    /// Files in which it is allowed, by a part of the path.
    except: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        pattern: r"\b(SystemTime::now|Timestamp::now|Utc::now|std::time::Instant::now)\b",
        why: "time is an argument: use the runtime's clock",
        except: &["/clock.rs", "sync/src/source/deadline.rs"],
    },
    Rule {
        pattern: r"\b(rand::rng|thread_rng|rand::random)\b",
        why: "randomness is an argument: use the context's",
        except: &["/jitter.rs", "apiserver/src/door/", "apiserver/src/api_server.rs"],
    },
    Rule {
        pattern: r"\b(TODO|FIXME|XXX)\b",
        why: "open tasks belong in an issue, not in the code",
        except: &["xtask/src/house.rs"],
    },
    Rule {
        pattern: r"allow\(unsafe_code\)",
        why: "unsafe is allowed in exactly one place",
        except: &["sync/src/source/transport/mod.rs", "xtask/src/house.rs"],
    },
    Rule {
        pattern: r"\bstd::process::Command\b|tokio::process::Command",
        why: "the product must not start processes, except for the node agent",
        except: &["node/src/process.rs"],
    },
    Rule {
        pattern: r"\bkube::(api::)?(\{[^}]*\b)?Api\b|^    Api, [A-Z]|\bRequest::new\b",
        why: "kube inserts names into URLs without encoding: use muster_controllers::runtime::Api, or muster_api::path",
        // The embedded API server is independent, and its names are its own.
        except: &[
            "controllers/src/runtime/api.rs",
            "sync/src/cluster.rs",
            "apiserver/",
            "xtask/src/house.rs",
        ],
    },
    Rule {
        pattern: r"\bRules \{",
        why: "product code uses Rules::shipped(); other rules are for the model",
        except: &[
            "rollout/driver/src/rules.rs",
            "rollout/model/",
            "rollout/simulator/",
            "xtask/src/house.rs",
        ],
    },
];

/// Crates whose code ships.
const PRODUCT: &[&str] = &[
    "api/",
    "health-cel/",
    "rollout/",
    "sync/",
    "controllers/",
    "apiserver/",
    "dashboard/",
    "cli/",
    "fleet/",
    "foresee/",
    "inspect/",
    "operate/",
    "kit/",
    "machines/",
    "node/",
    "windows/",
    "zones/",
];

/// Every line of product code that breaks a rule, and `unsafe` anywhere but in its one allowed place.
pub fn check() -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    let sources: Vec<String> = tree::files()?
        .into_iter()
        .filter(|file| tree::is_of(file, "rs") && PRODUCT.iter().any(|room| file.starts_with(room)))
        .filter(|file| !file.contains("/tests/") && !file.contains("/examples/"))
        .collect();
    let mut unsafe_places = 0;
    for file in &sources {
        let text = tree::read(file)?;
        let product = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(&text);
        unsafe_places += product.matches("allow(unsafe_code)").count();
        for rule in RULES {
            problems.extend(broken(file, product, rule)?);
        }
    }
    if unsafe_places != 1 {
        problems.push(format!(
            "unsafe is allowed in {unsafe_places} places, not in exactly one (sync/src/source/transport/mod.rs)"
        ));
    }
    Ok(problems)
}

fn broken(file: &str, text: &str, rule: &Rule) -> anyhow::Result<Problems> {
    if rule.except.iter().any(|part| file.contains(part)) {
        return Ok(Problems::new());
    }
    let pattern = Regex::new(rule.pattern).context(rule.pattern)?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| pattern.is_match(line));
    Ok(lines
        .map(|(number, line)| format!("{file}:{}: {}: {}", number + 1, line.trim(), rule.why))
        .collect())
}
