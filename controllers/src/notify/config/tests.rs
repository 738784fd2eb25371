//! Which configurations are accepted, and which are rejected.

use super::*;

fn parsed(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/muster/notify")).map_err(|error| {
        let source = std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
        format!("{error}{source}")
    })
}

#[test]
fn what_is_written() {
    let config = parsed(
        "
link: https://muster.test/{namespace}/{kind}/{module}
receivers:
- {name: hook, kind: webhook, urlFile: hook-url, secretFile: hook-secret, phases: [Good, Bad]}
- {name: chat, kind: slack, channel: '#rollouts', tokenFile: /run/token, modules: {matchLabels: {team: web}}}
- {name: chat-hook, kind: slack, urlFile: chat-url}
- {name: github, kind: github, repository: https://github.com/acme/fleet.git, tokenFile: github-token}
- {name: own, kind: github, repository: https://git.test/acme/fleet, tokenFile: t}
- {name: gitlab, kind: gitlab, repository: https://gitlab.test/a/b/fleet, tokenFile: t}
",
    )
    .unwrap();
    let apis: Vec<String> = config
        .receivers
        .iter()
        .filter_map(|receiver| match &receiver.to {
            To::GitHub(project) | To::GitLab(project) => Some(format!("{} {}", project.api, project.path)),
            To::Channel { api, .. } => Some(api.to_string()),
            To::Webhook { .. } | To::Incoming { .. } => None,
        })
        .collect();
    assert_eq!(
        apis,
        [
            "https://slack.com/api",
            "https://api.github.com/ acme/fleet",
            "https://git.test/api/v3 acme/fleet",
            "https://gitlab.test/api/v4 a/b/fleet",
        ]
    );
    let [hook, chat, _, github, ..] = &config.receivers[..] else {
        panic!("{config:?}")
    };
    assert_eq!(hook.phases, BTreeSet::from([Phase::Good, Phase::Bad]));
    assert!(
        matches!(&hook.to, To::Webhook { address: ReceiverUrl::File(file), .. } if file == Path::new("/etc/muster/notify/hook-url"))
    );
    assert!(matches!(&chat.to, To::Channel { token, .. } if token == Path::new("/run/token")));
    assert!(
        chat.modules
            .matches(&[("team".to_owned(), "web".to_owned())].into())
    );
    assert!(!chat.modules.matches(&[].into()));
    assert!(github.is_about("https://github.com/Acme/fleet"));
    assert!(github.is_about("ssh://git@github.com:22/acme/fleet.git"));
    assert!(!github.is_about("ssh://git@github.com/acme/fleet2"));
    assert!(!github.is_about("https://github.com/acme/fleet2"));
}

#[test]
fn what_is_refused() {
    let check = |receiver: &str, expect: &str| {
        let error = parsed(&format!("receivers: [{receiver}]")).expect_err(receiver);
        assert!(error.contains(expect), "{receiver}: {error}");
    };
    check("{name: a, kind: webhook}", "one of url and urlFile");
    check(
        "{name: a, kind: webhook, url: 'http://hooks.test'}",
        "https address",
    );
    check(
        "{name: a, kind: webhook, url: 'https://me:hunter2@hooks.test'}",
        "without a user",
    );
    check(
        "{name: a, kind: webhook, url: 'https://a.test', channel: x}",
        "receiver \"a\": unknown field `channel`, expected one of `url`, `urlFile`, `secretFile`",
    );
    check("{name: a, kind: slack, channel: x}", "tokenFile");
    check("{name: a, kind: slack, tokenFile: x}", "channel");
    check(
        "{name: a, kind: slack, tokenFile: x, channel: chat, urlFile: z}",
        "or one of url",
    );
    check("{name: a, kind: slack, urlFile: x, api: 'https://a.test'}", "api");
    check(
        "{name: a, kind: gitlab, repository: 'https://git.test/a', tokenFile: t, url: x}",
        "unknown field `url`",
    );
    check(
        "{name: a, kind: github, repository: 'https://github.com/fleet', tokenFile: t}",
        "names no repository",
    );
    check(
        "{name: a, kind: github, repository: 'https://github.com/a/b'}",
        "receiver \"a\": missing field `tokenFile`",
    );
    check(
        "{name: a, kind: gitlab, tokenFile: t}",
        "missing field `repository`",
    );
    check("{name: A, kind: slack, urlFile: x}", "write a name");
    check("{name: a, kind: slack, urlFile: x, phases: [Rolled]}", "Rolled");
    check("{name: a, kind: slack, urlFiles: x}", "urlFiles");
    check("{name: a, kind: teams, urlFile: x}", "teams");
    check(
        "{name: a, kind: slack, urlFile: x}, {name: a, kind: slack, urlFile: x}",
        "appears twice",
    );
    check(
        "{name: a, kind: slack, urlFile: x, modules: {matchLables: {a: b}}}",
        "modules",
    );
    check("", "from 1 to");
    let link = |link: &str| {
        parsed(&format!(
            "{{link: '{link}', receivers: [{{name: a, kind: slack, urlFile: x}}]}}"
        ))
    };
    assert!(link("https://a.test/{nam}").is_err());
    assert!(link("https://a.test/{module}").is_ok());
    let error =
        parsed("receivers: [{name: a, kind: webhook, url: 'https://me:hunter2@hooks.test'}]").unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
}
