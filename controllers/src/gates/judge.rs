//! Whether a response passes: which values a path matches, and how they compare. Pure.

use jsonpath_rust::query::js_path_process;
use muster_api::{
    rollout::{GateOperator, HttpGate},
    validate::json_path::json_path,
};
use serde_json::Value;

use super::GateError;

/// Total bytes of the paths of all values in a response: the evaluation keeps the path of each value that it visits. A
/// thousand series with ten labels each stay below the limit; a response built to exhaust memory does not.
const MAX_PATHS: usize = 1024 * 1024;
/// Bytes of a value that are shown.
const SHOWN: usize = 64;

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    /// Whether the gate passes.
    pub holds: bool,
    /// The value, as text for people.
    pub message: String,
}

/// Judges a response: all values that the path matches must pass. One value that fails outweighs another that is
/// inconclusive.
pub(super) fn judge_answer(answer: &[u8], gate: &HttpGate) -> Result<Judged, GateError> {
    let answer: Value = serde_json::from_slice(answer).map_err(GateError::NotJson)?;
    if paths(&answer, 1, MAX_PATHS).is_none() {
        return Err(GateError::Unwieldy);
    }
    let path = json_path(&gate.json_path)?;
    // An accepted path matches values: the error is for results of functions.
    let picked = js_path_process(&path, &answer).unwrap_or_default();
    let compared: Vec<Result<(bool, String), GateError>> =
        picked.iter().map(|place| compare(place.val, gate)).collect();
    let HttpGate { op, value, .. } = gate;
    if let Some((_, text)) = compared.iter().flatten().find(|(holds, _)| !holds) {
        return Ok(Judged {
            holds: false,
            message: format!("it read {text}, which is not {op} {}", truncated(value)),
        });
    }
    let all: Vec<String> = compared
        .into_iter()
        .map(|one| one.map(|(_, text)| text))
        .collect::<Result<_, _>>()?;
    let first = all
        .first()
        .ok_or_else(|| GateError::Nothing(truncated(&gate.json_path)))?;
    let others = match all.len() {
        1 => String::new(),
        count => format!(" (the first of {count} values that all pass)"),
    };
    Ok(Judged {
        holds: true,
        message: format!("it read {first}, which is {op} {}{others}", truncated(value)),
    })
}

/// The total bytes of the paths of a value and of all values in it, as the evaluation writes them; `None`: more than
/// `left`.
fn paths(value: &Value, own: usize, left: usize) -> Option<usize> {
    let mut left = left.checked_sub(own)?;
    match value {
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                left = paths(item, own + 3 + digits(place), left)?;
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                left = paths(member, own + 4 + name.len(), left)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Some(left)
}

fn digits(place: usize) -> usize {
    place.checked_ilog10().map_or(0, |digits| digits as usize)
}

fn compare(found: &Value, gate: &HttpGate) -> Result<(bool, String), GateError> {
    let HttpGate {
        json_path,
        op,
        value: wanted,
        ..
    } = gate;
    let path = || truncated(json_path);
    let no_value = |found: &'static str| GateError::NoValue { path: path(), found };
    let (text, number) = match found {
        Value::String(text) => (text.clone(), text.parse::<f64>().ok()),
        Value::Number(number) => (number.to_string(), number.as_f64()),
        Value::Bool(truth) => (truth.to_string(), None),
        Value::Null => return Err(no_value("null")),
        Value::Array(_) => return Err(no_value("a list")),
        Value::Object(_) => return Err(no_value("a mapping")),
    };
    if number.is_some_and(f64::is_nan) {
        return Err(GateError::NotANumber(path()));
    }
    let wanted_number = wanted.parse::<f64>().ok().filter(|number| number.is_finite());
    let holds = match (number, wanted_number) {
        (Some(number), Some(wanted)) => ordered(number, *op, wanted),
        _ if op.is_order() => {
            return Err(GateError::NoNumber {
                path: path(),
                text: truncated(&text),
                op: *op,
            });
        }
        _ => (text == *wanted) == (*op == GateOperator::Equal),
    };
    Ok((holds, truncated(&text)))
}

#[allow(clippy::float_cmp, reason = "users request equality")]
fn ordered(found: f64, op: GateOperator, wanted: f64) -> bool {
    match op {
        GateOperator::Equal => found == wanted,
        GateOperator::NotEqual => found != wanted,
        GateOperator::Less => found < wanted,
        GateOperator::LessOrEqual => found <= wanted,
        GateOperator::Greater => found > wanted,
        GateOperator::GreaterOrEqual => found >= wanted,
    }
}

/// The start of a text, on one line.
fn truncated(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars() {
        if shown.len() + char.len_utf8() > SHOWN {
            return shown + "…";
        }
        shown.push(if char.is_control() { ' ' } else { char });
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Prometheus' response to an instant query.
    const INSTANT: &str = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"job:errors:ratio","job":"web","cluster":"eu-1"},"value":[1767225600.781,"0.0125"]},
        {"metric":{"__name__":"job:errors:ratio","job":"web","cluster":"us-1"},"value":[1767225600.781,"0.002"]}]}}"#;
    const VALUE: &str = "$.data.result[0].value[1]";

    fn gate(path: &str, op: &str, value: &str) -> HttpGate {
        serde_json::from_value(json!({"url": "https://a.test", "jsonPath": path, "op": op, "value": value}))
            .unwrap()
    }

    /// `Ok`: whether the gate passes, and a part of its text. `Err`: a part of the error message.
    fn check(answer: &str, path: &str, op: &str, value: &str, expect: Result<(bool, &str), &str>) {
        let case = format!("{path} {op} {value} of {answer}");
        match (judge_answer(answer.as_bytes(), &gate(path, op, value)), expect) {
            (Ok(judged), Ok((holds, said))) => {
                assert_eq!(judged.holds, holds, "{case}: {}", judged.message);
                assert!(judged.message.contains(said), "{case}: {}", judged.message);
            }
            (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{case}: {error}"),
            (read, expect) => panic!("{case}: got {read:?}, not {expect:?}"),
        }
    }

    #[test]
    fn an_instant_query_of_prometheus() {
        check(
            INSTANT,
            VALUE,
            "<",
            "0.02",
            Ok((true, "it read 0.0125, which is < 0.02")),
        );
        check(
            INSTANT,
            VALUE,
            "<",
            "0.01",
            Ok((false, "it read 0.0125, which is not < 0.01")),
        );
        let all = "$.data.result[*].value[1]";
        check(
            INSTANT,
            all,
            "<",
            "0.02",
            Ok((true, "the first of 2 values that all pass")),
        );
        check(INSTANT, all, "<", "0.01", Ok((false, "0.0125")));
        check(INSTANT, all, ">", "0.01", Ok((false, "0.002")));
        let of_one = "$.data.result[?@.metric.cluster=='us-1'].value[1]";
        check(INSTANT, of_one, "<", "0.01", Ok((true, "0.002")));
        let nothing = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        check(
            nothing,
            VALUE,
            "<",
            "1",
            Err("there is nothing at $.data.result[0].value[1]"),
        );
        check(nothing, all, "<", "1", Err("there is nothing"));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1767225600.781,"3"]}}"#;
        check(scalar, "$.data.result[1]", ">=", "3", Ok((true, "3")));
        let undefined = INSTANT.replace("0.0125", "NaN");
        for op in ["==", "!=", "<", "<=", ">", ">="] {
            check(&undefined, VALUE, op, "1", Err("is NaN"));
        }
        check(&undefined, all, "<", "0.001", Ok((false, "0.002")));
        check(&undefined, all, "<", "1", Err("is NaN"));
        let boundless = INSTANT.replace("0.0125", "+Inf");
        check(&boundless, VALUE, ">", "1e308", Ok((true, "+Inf")));
        check(&boundless, VALUE, "<", "1", Ok((false, "+Inf")));
    }

    #[test]
    fn how_values_compare() {
        let of = |found: Value, op: &str, value: &str, expect: Result<(bool, &str), &str>| {
            check(&found.to_string(), "$", op, value, expect);
        };
        for (op, below, same, above) in [
            ("==", false, true, false),
            ("!=", true, false, true),
            ("<", true, false, false),
            ("<=", true, true, false),
            (">", false, false, true),
            (">=", false, true, true),
        ] {
            for (found, holds) in [(1, below), (2, same), (3, above)] {
                of(json!(found), op, "2", Ok((holds, "")));
                of(json!(found.to_string()), op, "2.0", Ok((holds, "")));
            }
        }
        of(json!("green"), "==", "green", Ok((true, "green")));
        of(json!("green"), "!=", "red", Ok((true, "green")));
        of(json!("red"), "==", "green", Ok((false, "red")));
        of(json!(true), "==", "true", Ok((true, "true")));
        of(json!(false), "==", "true", Ok((false, "false")));
        of(
            json!("green"),
            "<",
            "1",
            Err("\"green\", no number, and < compares numbers"),
        );
        of(json!(true), ">", "0", Err("no number"));
        of(json!(null), "!=", "1", Err("there is null at $"));
        of(json!([1]), "==", "1", Err("there is a list at $"));
        of(json!({}), "==", "1", Err("there is a mapping at $"));
        of(json!("a\nb"), "==", "x", Ok((false, "it read a b")));
        of(json!("x".repeat(99)), "==", "x", Ok((false, "xx…, which")));
    }

    #[test]
    fn what_is_no_answer() {
        check(
            "<html>",
            "$",
            "==",
            "1",
            Err("is not JSON: expected value at line 1"),
        );
        check("", "$", "==", "1", Err("is not JSON"));
        check("{} {}", "$", "==", "1", Err("is not JSON"));
        check("1e999", "$", "==", "1", Err("is not JSON"));
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        check(&deep, "$", "==", "1", Err("is not JSON"));
        check(r#"{"a": 1}"#, "$.b", "==", "1", Err("there is nothing at $.b"));
    }

    #[test]
    fn what_is_built_to_cost_room_is_refused() {
        let name = "n".repeat(32_000);
        let wide = format!(r#"{{"{name}": [{}1]}}"#, "1,".repeat(16_000));
        check(&wide, "$.*[*]", "==", "1", Err("too deep"));
        let series = r#"{"metric":{"job":"web","instance":"10.0.0.1:9090"},"value":[1,"2"]},"#.repeat(800);
        let usual = format!(r#"{{"data":{{"result":[{}]}}}}"#, series.trim_end_matches(','));
        check(
            &usual,
            "$..value[1]",
            "==",
            "2",
            Ok((true, "the first of 800 values")),
        );
        let most = format!("[{}1]", "1,".repeat(32_000));
        check(
            &most,
            "$[?@==1]",
            "==",
            "1",
            Ok((true, "the first of 32001 values")),
        );
    }
}
