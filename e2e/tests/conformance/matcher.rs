//! Comparing an answer with what a case expects: exactly, or by the operators of `safer`.
//!
//! Null, an empty list and an empty map are equal: the tables omit empty values.
//!
//! An answer in another vocabulary than that of `safer` has a translation under `~safer`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keys of an answer with this prefix are for operators (`recordedKeeps`) and never compared.
const EVIDENCE: char = '~';

/// The answer in the vocabulary of `safer`.
const IN_WORDS_OF_SAFER: &str = "~safer";

/// Keys of a step for events in that step: they are not carried over to the next one.
const EVENTS: &[&str] = &["calls", "error", "happened", "log", "written"];

/// Fragments of messages of Go's own types and parsers: their wording is not promised (README), only that there is a
/// message.
const NOT_PROMISED: &[&str] = &[
    "accessor error",
    "interface {}",
    "is of the type",
    "invalid character",
    "json: ",
    "runtime error",
    "strconv.",
    "unexpected end of JSON input",
];

/// How the answers of a table are compared. Keys apply at every depth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Keys of lists whose order is irrelevant.
    pub unordered: &'static [&'static str],
    /// Keys of messages whose wording is not promised: only their presence is compared.
    pub wording: &'static [&'static str],
    /// Keys that depend on another one: not compared where `safer` changes that one.
    pub follows: &'static [(&'static str, &'static [&'static str])],
    /// What `sameAs` and `differsFrom` compare.
    pub identity: &'static [&'static str],
    /// Where there is a `safer`, only what it lists is compared.
    pub safer_alone: bool,
    /// In a list of steps, a missing key has the value of the previous step (except for events of that step).
    pub carried: bool,
    /// Keys of `expect` for which the product has no counterpart: they are not compared.
    pub without: &'static [&'static str],
    /// Keys that are compared only if `expect` has them.
    pub optional: &'static [&'static str],
    /// Keys of messages of which only the beginning is promised; `true` matches any text.
    pub beginning: &'static [&'static str],
}

impl Rules {
    /// Compares everything exactly.
    pub(crate) const EXACT: Self = Self {
        unordered: &[],
        wording: &[],
        follows: &[],
        identity: &[],
        safer_alone: false,
        carried: false,
        without: &[],
        optional: &[],
        beginning: &[],
    };
}

/// One difference between an answer and the expectation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The key of `expect` that contains it; empty if `expect` is not an object.
    pub key: String,
    /// The path, without indexes of lists and steps.
    pub path: String,
    /// The full path, the expected and the actual value.
    pub text: String,
}

impl Difference {
    /// Whether the difference is at or under this key or path.
    pub(crate) fn is_under(&self, at: &str) -> bool {
        let under = |rest: &str| rest.is_empty() || rest.starts_with('.');
        self.key == at || self.path.strip_prefix(at).is_some_and(under)
    }
}

/// The differences between `answer` and the case: `safer` for what it lists, `expect` for the rest.
pub(crate) fn differences(
    expect: &Value,
    safer: Option<&Value>,
    answer: &Value,
    rules: &Rules,
) -> Vec<Difference> {
    let Some(safer) = safer else {
        // Keys that depend on an answer that the original did not give are not compared.
        let following = |key: &str| {
            let decisions = rules.follows.iter().filter(|(_, keys)| keys.contains(&key));
            decisions.map(|(decision, _)| &expect[*decision]).any(panics)
        };
        let expect = without(expect, rules.without);
        let mut found = if rules.carried {
            exact("", &carry(&expect), &carry(answer), rules)
        } else {
            exact("", &expect, answer, rules)
        };
        found.retain(|difference| !following(&difference.key));
        return found;
    };
    let answer = answer.get(IN_WORDS_OF_SAFER).unwrap_or(answer);
    let carried = rules.carried.then(|| carry(answer));
    let answer = carried.as_ref().unwrap_or(answer);
    let matcher = Safer { whole: answer, rules };
    let (Value::Object(named), Value::Object(before)) = (safer, expect) else {
        return matcher.value("", safer, answer);
    };
    let mut found = if let Some(from) = named.get("fromPass") {
        from_pass(from, named, expect, answer, rules)
    } else {
        matcher.object("", named, answer)
    };
    if !rules.safer_alone {
        let free = free(named, before, rules);
        let rest = |map: &Map<String, Value>| -> Value {
            map.iter()
                .filter(|(key, _)| !free.contains(key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let given = answer.as_object().cloned().unwrap_or_default();
        found.extend(exact("", &rest(before), &rest(&given), rules));
    }
    found
}

/// The value without these keys, at every depth.
fn without(value: &Value, keys: &[&str]) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), without(value, keys)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| without(item, keys)).collect(),
        plain => plain.clone(),
    }
}

/// The answer with missing keys of each step filled in from the previous step.
fn carry(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for steps in answer.as_object_mut().into_iter().flat_map(Map::values_mut) {
        let mut last = Map::new();
        let steps = steps.as_array_mut().into_iter().flatten();
        for step in steps.filter_map(Value::as_object_mut) {
            last.extend(step.clone());
            for (key, value) in last.iter().filter(|(key, _)| !EVENTS.contains(&key.as_str())) {
                step.insert(key.clone(), value.clone());
            }
        }
    }
    answer
}

/// The keys of `expect` that a `safer` replaces: those it lists, and those that depend on the ones it changes.
fn free<'a>(named: &'a Map<String, Value>, before: &Map<String, Value>, rules: &Rules) -> BTreeSet<&'a str> {
    let mut free = BTreeSet::new();
    for (operator, value) in named {
        let key = about(operator);
        free.insert(key);
        if key == operator && before.get(key) == Some(value) {
            continue;
        }
        for (_, following) in rules.follows.iter().filter(|(decision, _)| *decision == key) {
            free.extend(following.iter().copied());
        }
    }
    free
}

/// The key of the answer that an operator is about.
fn about(operator: &str) -> &str {
    match operator {
        "contains" | "mustNotContain" => "calls",
        "deletedPodsWithin" | "deletedPodsSome" => "deletedPods",
        "noWriteTo" => "writes",
        "recordedKeeps" => "recorded",
        "configMapKeeps" => "configMap",
        "refused" => "error",
        "fromPass" => "passes",
        _ => operator
            .strip_suffix("MustNotContain")
            .or_else(|| operator.strip_suffix("Contains"))
            .unwrap_or(operator),
    }
}

/// What passes delete, from one pass on; earlier passes must match `expect`.
fn from_pass(
    from: &Value,
    named: &Map<String, Value>,
    expect: &Value,
    answer: &Value,
    rules: &Rules,
) -> Vec<Difference> {
    let from = from.as_u64().and_then(|from| usize::try_from(from).ok());
    let (Some(from), Some(passes)) = (from, answer["passes"].as_array()) else {
        return vec![difference("passes", "a list of passes", answer)];
    };
    let mut found = Vec::new();
    for (number, pass) in passes.iter().enumerate() {
        let path = format!("passes.{number}");
        if number < from {
            found.extend(exact(&path, &expect["passes"][number], pass, rules));
        } else {
            let wanted = named.get("deletedPods").unwrap_or(&Value::Null);
            found.extend(exact(
                &format!("{path}.deletedPods"),
                wanted,
                &pass["deletedPods"],
                rules,
            ));
        }
    }
    if passes.len() < from {
        found.push(difference(
            "passes",
            &format!("more than {from} passes"),
            &answer["passes"],
        ));
    }
    found
}

/// The differences between `actual` and `expected`, compared exactly.
pub(crate) fn exact(path: &str, expected: &Value, actual: &Value, rules: &Rules) -> Vec<Difference> {
    let key = last(path);
    if empty(expected) && empty(actual) {
        return Vec::new();
    }
    match (expected, actual) {
        (Value::Object(wanted), _) if wanted.contains_key("panics") => {
            if refuses(actual) {
                Vec::new()
            } else {
                vec![difference(path, "a refusal", actual)]
            }
        }
        (Value::Object(wanted), Value::Object(given)) => {
            let keys: BTreeSet<&String> = wanted.keys().chain(given.keys()).collect();
            keys.into_iter()
                .filter(|key| !key.starts_with(EVIDENCE))
                .filter(|key| wanted.contains_key(*key) || !rules.optional.contains(&key.as_str()))
                .flat_map(|key| {
                    let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                    exact(&join(path, key), &of(wanted), &of(given), rules)
                })
                .collect()
        }
        (Value::Array(wanted), Value::Array(given)) if wanted.len() == given.len() => {
            let (wanted, given) = if rules.unordered.contains(&key) {
                (sorted(wanted), sorted(given))
            } else {
                (wanted.clone(), given.clone())
            };
            let pairs = wanted.iter().zip(&given).enumerate();
            pairs
                .flat_map(|(number, (wanted, given))| {
                    exact(&join(path, &number.to_string()), wanted, given, rules)
                })
                .collect()
        }
        (Value::String(text), Value::String(_))
            if rules.wording.contains(&key) || NOT_PROMISED.iter().any(|part| text.contains(part)) =>
        {
            Vec::new()
        }
        (Value::Bool(true), Value::String(_)) if rules.beginning.contains(&key) => Vec::new(),
        (Value::String(text), Value::String(given))
            if rules.beginning.contains(&key) && given.starts_with(text) =>
        {
            Vec::new()
        }
        _ if same(expected, actual) => Vec::new(),
        _ => vec![difference(path, &expected.to_string(), actual)],
    }
}

/// Whether an answer is a rejection: what muster must return where the original panics.
fn refuses(answer: &Value) -> bool {
    answer["allowed"] == false || answer["error"].is_string() || answer["status"].as_u64() >= Some(400)
}

/// Whether the original panics anywhere in the expectation.
fn panics(expected: &Value) -> bool {
    match expected {
        Value::Object(map) => map.contains_key("panics") || map.values().any(panics),
        Value::Array(items) => items.iter().any(panics),
        _ => false,
    }
}

/// The operators of `safer`, applied to one answer.
struct Safer<'a> {
    whole: &'a Value,
    rules: &'a Rules,
}

impl Safer<'_> {
    fn object(&self, path: &str, named: &Map<String, Value>, actual: &Value) -> Vec<Difference> {
        let step = |(operator, value): (&String, &Value)| {
            let key = about(operator);
            let path = join(path, key);
            let given = if operator == "refused" && !actual["refused"].is_null() {
                return self.value(&path, value, &actual["refused"]);
            } else {
                &actual[key]
            };
            self.operator(operator, &path, value, given, actual)
        };
        named
            .iter()
            .filter(|(key, _)| *key != "step")
            .flat_map(step)
            .collect()
    }

    /// One key of a `safer`: `given` is the answer's value, `beside` the object that contains it.
    fn operator(
        &self,
        operator: &str,
        path: &str,
        value: &Value,
        given: &Value,
        beside: &Value,
    ) -> Vec<Difference> {
        let refuse = |what: &str| vec![difference(path, &format!("{what} {value}"), given)];
        let good = match operator {
            "deletedPodsWithin" => {
                return if within(given, value) && one_set(given) {
                    Vec::new()
                } else {
                    refuse("any of these or none, all of one set:")
                };
            }
            "deletedPodsSome" => within(given, value) && !empty(given),
            // Writes in their raw form, where the table has them in the vocabulary of another system.
            "noWriteTo" => texts(value).iter().all(|target| {
                let sent = &beside["~writes"];
                let sent = if sent.is_null() { given } else { sent };
                sent.as_array()
                    .is_none_or(|writes| writes.iter().all(|write| write["target"] != **target))
            }),
            "recordedKeeps" => texts(value).iter().all(|set| {
                let own = beside["~ownTimes"][*set].as_str();
                let kept = given[*set].as_str();
                kept.zip(own).is_some_and(|(kept, own)| kept.contains(own))
            }),
            "configMapKeeps" => {
                let given = if given.is_null() {
                    &beside["~configMap"]
                } else {
                    given
                };
                texts(value).iter().all(|set| !given[*set].is_null())
            }
            "refused" => given.is_null() != (*value == Value::Bool(true)),
            _ if operator == about(operator) => return self.value(path, value, given),
            _ if operator.to_lowercase().ends_with("mustnotcontain") => {
                texts(value).iter().all(|text| !holds(given, text))
            }
            // Calls must occur in that order; messages must contain each of the words.
            _ if given.is_array() => subsequence(value, given),
            _ => texts(value).iter().all(|text| holds(given, text)),
        };
        if good { Vec::new() } else { refuse(operator) }
    }

    fn value(&self, path: &str, wanted: &Value, given: &Value) -> Vec<Difference> {
        let refuse = || vec![difference(path, &wanted.to_string(), given)];
        let verdict = |good: bool| if good { Vec::new() } else { refuse() };
        match (wanted, given) {
            // Calls with others possibly in between: an empty list requires none of them.
            (Value::Array(wanted), Value::Array(given))
                if last(path) == "calls" && self.rules.safer_alone =>
            {
                self.list(path, wanted, given)
            }
            (Value::String(word), _) if self.word(path, word, given).is_some() => {
                verdict(self.word(path, word, given) == Some(true))
            }
            _ if empty(wanted) => verdict(empty(given)),
            // `answers` by id: allowed or not.
            (Value::Object(wanted), Value::Array(given)) => wanted
                .iter()
                .flat_map(|(id, wanted)| {
                    let answer = given.iter().find(|answer| answer["id"] == **id);
                    let answer = answer.unwrap_or(&Value::Null);
                    let part = if wanted.is_boolean() {
                        &answer["allowed"]
                    } else {
                        answer
                    };
                    self.value(&join(path, id), wanted, part)
                })
                .collect(),
            (Value::Object(wanted), _) => self.object(path, wanted, given),
            (Value::Array(wanted), Value::Array(given)) => self.list(path, wanted, given),
            _ => verdict(same(wanted, given)),
        }
    }

    fn list(&self, path: &str, wanted: &[Value], given: &[Value]) -> Vec<Difference> {
        let key = last(path);
        if wanted.iter().any(|item| !item["step"].is_null()) {
            return wanted
                .iter()
                .flat_map(|step| {
                    let number = &step["step"];
                    let answer = given.iter().find(|answer| same(&answer["step"], number));
                    let answer = answer.or_else(|| given.get(usize::try_from(number.as_u64()?).ok()?));
                    self.value(
                        &join(path, &number.to_string()),
                        step,
                        answer.unwrap_or(&Value::Null),
                    )
                })
                .collect();
        }
        if key == "calls" && self.rules.safer_alone {
            let (wanted, given) = (Value::from(wanted), Value::from(given));
            return if subsequence(&wanted, &given) {
                Vec::new()
            } else {
                vec![difference(path, &format!("in this order {wanted}"), &given)]
            };
        }
        if wanted.len() != given.len() {
            return vec![difference(
                path,
                &Value::from(wanted).to_string(),
                &Value::from(given),
            )];
        }
        let (wanted, given) = if self.rules.unordered.contains(&key) {
            (sorted(wanted), sorted(given))
        } else {
            (wanted.to_vec(), given.to_vec())
        };
        let pairs = wanted.iter().zip(&given).enumerate();
        pairs
            .flat_map(|(number, (wanted, given))| self.value(&join(path, &number.to_string()), wanted, given))
            .collect()
    }

    /// Whether the operator matches; `None` if this is not an operator here.
    fn word(&self, path: &str, word: &str, given: &Value) -> Option<bool> {
        if word == "any" {
            return Some(!given.is_null());
        }
        if word == "nonzero" {
            return Some(given.as_f64().is_some_and(|number| number != 0.0));
        }
        if let Some(limit) = word.strip_prefix("at most ").and_then(|limit| limit.parse().ok()) {
            return Some(given.as_f64().is_some_and(|number: f64| number <= limit));
        }
        if let Some(step) = word
            .strip_prefix("as in step ")
            .and_then(|step| step.parse().ok())
        {
            return Some(same(self.of_step(path, step), given));
        }
        if self.rules.wording.contains(&last(path)) {
            return Some(
                given
                    .as_str()
                    .is_some_and(|given| given.is_empty() == word.is_empty()),
            );
        }
        // The wording of errors is muster's own.
        if last(path) == "error" {
            return Some(given.is_string());
        }
        None
    }

    /// The value at `path` of the answer, but in another step of the same list.
    fn of_step(&self, path: &str, step: usize) -> &Value {
        let mut at = self.whole;
        for part in path.split('.') {
            at = match at {
                Value::Array(items) => items
                    .iter()
                    .find(|item| item["step"].as_u64() == u64::try_from(step).ok())
                    .or_else(|| items.get(step))
                    .unwrap_or(&Value::Null),
                _ => &at[part],
            };
        }
        at
    }
}

fn difference(path: &str, expected: &str, actual: &Value) -> Difference {
    let key = path.split('.').next().unwrap_or_default().to_owned();
    let named = path.split('.').filter(|part| part.parse::<usize>().is_err());
    let named: Vec<&str> = named.collect();
    let at = if path.is_empty() { "answer" } else { path };
    Difference {
        key,
        path: named.join("."),
        text: format!("{at}: expected {expected}, got {actual}"),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The last key of a path that is not a number.
fn last(path: &str) -> &str {
    path.rsplit('.')
        .find(|part| part.parse::<usize>().is_err())
        .unwrap_or_default()
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

fn sorted(items: &[Value]) -> Vec<Value> {
    let mut items = items.to_vec();
    items.sort_by_key(ToString::to_string);
    items
}

/// The texts of a list, or the one text.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn holds(given: &Value, text: &str) -> bool {
    match given {
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::String(given) => given.contains(text),
        _ => false,
    }
}

fn within(given: &Value, allowed: &Value) -> bool {
    let allowed = texts(allowed);
    given.is_null() || given.is_array() && texts(given).iter().all(|pod| allowed.contains(pod))
}

/// Whether the pods belong to one StatefulSet: their names without ordinals are equal.
fn one_set(pods: &Value) -> bool {
    let pods = texts(pods);
    let sets: BTreeSet<_> = pods
        .iter()
        .filter_map(|pod| pod.rsplit_once('-'))
        .map(|(set, _)| set)
        .collect();
    sets.len() < 2
}

fn subsequence(wanted: &Value, given: &Value) -> bool {
    let mut rest = given.as_array().into_iter().flatten();
    let mut wanted = wanted.as_array().into_iter().flatten();
    wanted.all(|wanted| rest.any(|given| given == wanted))
}
