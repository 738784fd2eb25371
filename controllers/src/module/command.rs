//! The commands that messages suggest. Pure.

use muster_api::labels::manager;

/// The kubectl command that sets a control so that Flux does not revert it; without a value, the command that removes
/// it.
pub(crate) fn command(address: &ModuleAddress<'_>, key: &str, value: Option<&str>) -> String {
    let ModuleAddress { namespace, module } = address;
    let within = if namespace.is_empty() {
        String::new()
    } else {
        format!(" --namespace {namespace}")
    };
    let begin = format!(
        "kubectl annotate{within} --field-manager={} {module}",
        manager::CLI
    );
    match value {
        Some(value) => format!("{begin} --overwrite {key}={}", quoted(value)),
        None => format!("{begin} {key}-"),
    }
}

/// A module as an argument for kubectl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleAddress<'a> {
    /// Its namespace; empty for a cluster-scoped kind.
    pub namespace: &'a str,
    /// Kind and name: `module/web`.
    pub module: &'a str,
}

/// The value, quoted for a shell if needed.
fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._,:/@".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_that_a_shell_takes() {
        let address = ModuleAddress {
            namespace: "fleet",
            module: "module/web",
        };
        let check = |value: Option<&str>, expect: &str| {
            let expect =
                format!("kubectl annotate --namespace fleet --field-manager=muster-cli module/web {expect}");
            assert_eq!(command(&address, "k", value), expect);
        };
        check(None, "k-");
        check(Some("eu-1,eu-2"), "--overwrite k=eu-1,eu-2");
        check(Some(""), "--overwrite k=''");
        check(
            Some("{\"by\": \"o'neil $(x)\"}"),
            r#"--overwrite k='{"by": "o'\''neil $(x)"}'"#,
        );
    }
}
