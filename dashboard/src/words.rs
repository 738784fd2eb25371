//! Text for people, and words for a shell.

use muster_api::assemblage::FailureClass;

/// Quotes a word for a shell if necessary.
pub fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@=,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The scheme of a repository URL that `muster diff` rejects without `--allow-insecure-sources`.
pub fn insecure_scheme(url: &str) -> Option<&'static str> {
    ["http", "file"].into_iter().find(|scheme| {
        url.strip_prefix(scheme)
            .is_some_and(|rest| rest.starts_with("://"))
    })
}

/// The command that compares a module with its clusters, with the flags that this repository needs.
pub(crate) fn diff_command(module: &str, flags: &str, url: &str) -> String {
    let allow = insecure_scheme(url).map_or("", |_| " --allow-insecure-sources");
    format!("muster diff {module}{flags}{allow}")
}

/// A message on one line: a line break could make the rest look like another entry.
pub(crate) fn one_line(text: &str) -> String {
    if text.contains(['\n', '\r', '\t', '\u{2028}', '\u{2029}', '\u{85}']) {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        text.to_owned()
    }
}

/// A number and what is counted: `1 cluster`, `2 clusters`.
pub(crate) fn counted(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// The message of a cell without its advice: the status gives it with kubectl commands, views with muster commands.
pub(crate) fn without_next(message: &str) -> &str {
    let begins = [
        "; next: ",
        "; to release it: ",
        "; to go on ",
        "; nothing is withdrawn until ",
        ": no other node takes its turn ",
    ];
    let end = begins.iter().filter_map(|words| message.find(words)).min();
    end.and_then(|end| message.get(..end)).unwrap_or(message)
}

/// What caused a failure of this class.
pub(crate) const fn fault(class: FailureClass, unit: &'static str) -> &'static str {
    match class {
        FailureClass::Revision => "the revision's",
        FailureClass::Unit => unit,
        FailureClass::Infra => "the infrastructure's",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_offered_as_it_works() {
        let check =
            |url: &str, expect: &str| assert_eq!(diff_command("module/web", " -n fleet", url), expect);
        check("https://git.test/fleet", "muster diff module/web -n fleet");
        let allowed = "muster diff module/web -n fleet --allow-insecure-sources";
        check("file:///tmp/fleet", allowed);
        check("http://127.0.0.1/fleet", allowed);
        check("httpd://x", "muster diff module/web -n fleet");
    }

    #[test]
    fn words_for_a_shell() {
        assert_eq!(shell_word("module/web"), "module/web");
        assert_eq!(shell_word("a b; rm -rf ~"), "'a b; rm -rf ~'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("$(x)"), "'$(x)'");
        assert_eq!(shell_word(""), "''");
    }
}
