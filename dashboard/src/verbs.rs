//! Replaces kubectl commands in a status by the muster commands that do the same: a status must be usable without
//! muster, a view need not.

use muster_api::labels::annotation::{
    ACKNOWLEDGE_WITHDRAWAL, APPROVE, HOLD, PAUSED, PIN_PREFIX, PROMOTE, RELEASE, RETRY,
};

use crate::shell_word;

/// How the commands in a status begin.
const BEGIN: &str = "kubectl annotate --";

/// A message of a module, or about one of its clusters or nodes, with muster commands. A command without an equivalent
/// stays as it is.
pub fn with_verbs(message: &str, module: &str, unit: Option<&str>) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, command)) = rest.find(BEGIN).and_then(|at| rest.split_at_checked(at)) {
        text.push_str(before);
        let (words, length) = shell_words(command);
        let verb = verb(&words, module, unit);
        let (raw, after) = command.split_at_checked(length).unwrap_or((command, ""));
        text.push_str(verb.as_deref().unwrap_or(raw));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// `kubectl annotate [--namespace N] --field-manager=M OBJECT (KEY- | --overwrite KEY=VALUE)`.
fn verb(words: &[String], module: &str, unit: Option<&str>) -> Option<String> {
    let (namespace, rest) = match words {
        [_, _, flag, namespace, rest @ ..] if flag == "--namespace" => (Some(namespace), rest),
        [_, _, rest @ ..] => (None, rest),
        _ => return None,
    };
    let (object, last) = match rest {
        [_, object, flag, last] if flag == "--overwrite" => (object, last),
        [_, object, last] => (object, last),
        _ => return None,
    };
    let of_unit = match object.split_once('/') {
        Some(("cluster", name)) => Some(shell_word(name)),
        Some(("node", name)) => Some(format!("--node {}", shell_word(name))),
        _ => None,
    };
    let units = if object.starts_with("nodemodule/") {
        "--node"
    } else {
        "--clusters"
    };
    let verb = match (last.split_once('='), of_unit) {
        (None, Some(unit)) => match last.strip_suffix('-')? {
            HOLD => format!("release {unit}"),
            key if key.starts_with(PIN_PREFIX) => {
                format!("unpin {unit} --module {}", shell_word(module))
            }
            _ => return None,
        },
        (None, None) if last.strip_suffix('-') == Some(PAUSED) => {
            format!("rollout resume {}", shell_word(object))
        }
        // If one annotation holds several clusters, the others stay in its value.
        (key_value, None)
            if key_value.map_or_else(|| last.strip_suffix('-'), |(key, _)| Some(key)) == Some(HOLD) =>
        {
            format!("release {} {units} {}", shell_word(object), shell_word(unit?))
        }
        (Some((RELEASE, _)), None) => {
            format!(
                "rollout release {} --node {}",
                shell_word(object),
                shell_word(unit?)
            )
        }
        (Some((key @ (APPROVE | PROMOTE), value)), None) => {
            let verb = if key == APPROVE { "approve" } else { "promote" };
            let (stage, _) = value.rsplit_once('@')?;
            format!(
                "rollout {verb} {} --stage {}",
                shell_word(object),
                shell_word(stage)
            )
        }
        (Some((ACKNOWLEDGE_WITHDRAWAL, _)), None) => {
            format!("rollout withdraw {} --acknowledge", shell_word(object))
        }
        (Some((RETRY, revision)), None) => {
            format!(
                "rollout retry {} --revision {}",
                shell_word(object),
                shell_word(revision)
            )
        }
        _ => return None,
    };
    let within = namespace.map_or_else(String::new, |namespace| format!(" -n {}", shell_word(namespace)));
    Some(format!("muster {verb}{within}"))
}

/// Splits a command into words like a shell, up to the annotation, and returns the bytes read.
fn shell_words(command: &str) -> (Vec<String>, usize) {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    let mut length = command.len();
    for (at, letter) in command.char_indices() {
        match letter {
            _ if is_escaped => {
                word.push(letter);
                is_escaped = false;
            }
            '\\' if !is_quoted => is_escaped = true,
            '\'' => is_quoted = !is_quoted,
            // The sentence continues after the command.
            ';' | ')' if !is_quoted => {
                length = at;
                break;
            }
            ' ' if !is_quoted => {
                let is_last = word.contains(".dev/");
                words.push(std::mem::take(&mut word));
                if is_last {
                    return (words, at);
                }
            }
            _ => word.push(letter),
        }
    }
    words.push(word);
    (words, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_kubectl_is_the_verb_that_does_it() {
        let check = |object: &str, annotation: &str, expect: &str| {
            let kubectl = format!(
                "kubectl annotate --namespace fleet --field-manager=muster-cli {object} {annotation}"
            );
            let expect = if expect.is_empty() { &kubectl } else { expect };
            for (before, after) in [
                ("waits; next: ", ""),
                ("so (", "), and then"),
                ("", "; more"),
                ("", " and more"),
            ] {
                assert_eq!(
                    with_verbs(&format!("{before}{kubectl}{after}"), "module/web", Some("eu-1")),
                    format!("{before}{expect}{after}")
                );
            }
        };
        let web = "module/web";
        check(
            web,
            "--overwrite fleet.muster.dev/approve=canary@1a2b3c4d",
            "muster rollout approve module/web --stage canary -n fleet",
        );
        check(
            web,
            "--overwrite fleet.muster.dev/promote='it'\\''s (1); 2@1a2b3c4d'",
            "muster rollout promote module/web --stage 'it'\\''s (1); 2' -n fleet",
        );
        check(
            web,
            "--overwrite fleet.muster.dev/retry=1a2b3c4d",
            "muster rollout retry module/web --revision 1a2b3c4d -n fleet",
        );
        check(
            web,
            "--overwrite fleet.muster.dev/acknowledge-withdrawal=0a1b",
            "muster rollout withdraw module/web --acknowledge -n fleet",
        );
        check(
            web,
            "fleet.muster.dev/paused-",
            "muster rollout resume module/web -n fleet",
        );
        let release = "muster release module/web --clusters eu-1 -n fleet";
        check(web, "fleet.muster.dev/hold-", release);
        check(web, "--overwrite fleet.muster.dev/hold=eu-2,eu-3", release);
        check(
            "cluster/eu-1",
            "fleet.muster.dev/hold-",
            "muster release eu-1 -n fleet",
        );
        check(
            "cluster/eu-1",
            "fleet.muster.dev/pin.web-",
            "muster unpin eu-1 --module module/web -n fleet",
        );
        // These have no muster equivalent.
        check(web, "fleet.muster.dev/pin-", "");
        check(web, "--overwrite fleet.muster.dev/abandon=eu-1,eu-2", "");
        check("cluster/eu-1", "fleet.muster.dev/other-", "");
    }

    #[test]
    fn a_command_about_nodes_is_the_verb_that_does_it() {
        let check = |object: &str, annotation: &str, expect: &str| {
            let kubectl = format!(
                "waits: kubectl annotate --field-manager=muster-cli {object} {annotation}; since 9:00"
            );
            let expect = format!("waits: {expect}; since 9:00");
            assert_eq!(with_verbs(&kubectl, "nodemodule/fabric", Some("n1")), expect);
        };
        let fabric = "nodemodule/fabric";
        check(
            fabric,
            "--overwrite fleet.muster.dev/release=n1",
            "muster rollout release nodemodule/fabric --node n1",
        );
        check(
            fabric,
            "fleet.muster.dev/paused-",
            "muster rollout resume nodemodule/fabric",
        );
        check(
            fabric,
            "fleet.muster.dev/hold-",
            "muster release nodemodule/fabric --node n1",
        );
        check("node/n1", "fleet.muster.dev/hold-", "muster release --node n1");
        check(
            "node/n1",
            "fleet.muster.dev/pin.fabric-",
            "muster unpin --node n1 --module nodemodule/fabric",
        );
    }

    #[test]
    fn several_commands_and_none() {
        let pause = "kubectl annotate --namespace fleet --field-manager=muster-cli module/web fleet.muster.dev/paused-";
        assert_eq!(
            with_verbs(&format!("{pause} and {pause}"), "module/web", None),
            "muster rollout resume module/web -n fleet and muster rollout resume module/web -n fleet"
        );
        for text in [
            "",
            "nothing",
            "kubectl annotate --namespace ",
            "kubectl annotate --namespace é '",
        ] {
            assert_eq!(with_verbs(text, "module/web", None), text);
        }
        // Without a unit it is unknown which cluster the command is about.
        let hold =
            "kubectl annotate --namespace fleet --field-manager=muster-cli module/web fleet.muster.dev/hold-";
        assert_eq!(with_verbs(hold, "module/web", None), hold);
    }
}
