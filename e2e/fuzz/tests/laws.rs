//! Promise: every law holds for arbitrary texts, repositories and patches. (Fuzz targets search longer for a
//! counterexample.)

use muster_fuzz::{
    LAWS, client, credentials, door, journal, kubeconfig, node, patch, sandbox, substitute, tree, yaml,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Tokens of a language, with arbitrary text between them.
fn text(words: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(words).prop_map(str::to_owned),
        1 => "\\PC",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, 0..most).prop_map(|words| words.concat())
}

/// Tokens that form structure.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

/// Cases per law: deterministic, unless `PROPTEST_RNG_SEED` is set.
fn cases(cases: u32) -> ProptestConfig {
    let chosen = ProptestConfig::with_cases(cases);
    let rng_seed = match chosen.rng_seed {
        RngSeed::Random => RngSeed::Fixed(9),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    ProptestConfig {
        failure_persistence: None,
        rng_seed,
        ..chosen
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn yaml_holds(text in text(yaml::TOKENS, 30)) {
        yaml::check(text.as_bytes());
    }

    #[test]
    fn yaml_holds_for_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        yaml::check(&bytes);
    }

    #[test]
    fn substitute_holds(text in text(substitute::TOKENS, 20)) {
        substitute::check(text.as_bytes());
    }

    /// Values that would be structure if they were inserted as text, in positions where structure matters.
    #[test]
    fn substitute_holds_in_documents(value in prop::sample::select(VALUES), other in prop::sample::select(VALUES), text in prop::sample::select(DOCUMENTS)) {
        substitute::check(format!("V={value}\nW={other}\n\n{text}").as_bytes());
    }

    #[test]
    fn node_holds(configuration in text(node::TOKENS, 6), paths in text(node::TOKENS, 12)) {
        node::check(format!("{configuration}---\n{paths}").as_bytes());
    }

    #[test]
    fn journal_holds(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        journal::check(&bytes);
    }

    #[test]
    fn tree_holds(bytes in bytes()) {
        tree::check(&bytes);
    }

    #[test]
    fn credentials_hold(bytes in bytes()) {
        credentials::check(&bytes);
    }

    #[test]
    fn patch_holds(bytes in bytes()) {
        patch::check(&bytes);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn kubeconfig_holds(text in text(kubeconfig::TOKENS, 20)) {
        kubeconfig::check(text.as_bytes());
    }

    /// Mostly valid: only the inserted piece may be wrong.
    #[test]
    fn kubeconfig_holds_near_a_good_one(field in prop::sample::select(kubeconfig::TOKENS), other in prop::sample::select(kubeconfig::TOKENS), flow in any::<bool>()) {
        kubeconfig::check(near_a_good_one(field, other, flow).as_bytes());
    }

    #[test]
    fn client_holds_near_a_good_one(field in prop::sample::select(kubeconfig::TOKENS), other in prop::sample::select(kubeconfig::TOKENS), flow in any::<bool>()) {
        client::check(near_a_good_one(field, other, flow).as_bytes());
    }

    /// Arbitrary text in place of a token and of a server.
    #[test]
    fn client_holds_for_texts(token in ".{0,12}", host in "[a-z0-9.:@%_\\[\\]-]{1,12}", path in "\\PC{0,6}") {
        client::check(of_texts(&token, &format!("https://{host}/{path}")).as_bytes());
    }

    #[test]
    fn door_holds(bytes in bytes()) {
        door::check(&bytes);
    }
}

const VALUES: &[&str] = &[
    "",
    "a",
    "1",
    "yes",
    "~",
    "<<",
    "*a",
    "&a",
    "- a",
    "a: b",
    "{a: b}",
    "[a",
    "# a",
    "\"",
    "'",
    "|",
    "!!str a",
    "---",
    "${V}",
    "${W}",
    "a\r",
    "hunter2: {",
    "x\\ny: z",
    "\u{85}",
    "\u{2028}b: c",
];

const DOCUMENTS: &[&str] = &[
    "a: ${V}\nb: ${W}\n",
    "${V}: {a: 1}\n${W}: {b: 2}\n",
    "a: &a {${V}: 1}\nb: {c: ${W}}\nd: *a\n",
    "a: \"${V}\"\nb: '${W}'\n",
    "a: |\n  ${V}\nb: >-\n  ${W}\n",
    "- ${V}\n- [${V}, ${W}]\n",
    "? ${V}\n: ${W}\n",
    "a: !!str ${V}\nb: !!int ${W}\n",
    "{\"${V}\": \"${W}\"}",
    "a: ${V//a/${W}}\n",
    "a: ${E:-${V}}${W}\n",
    "${V}${W}: ${W}${V}\n",
    "# ${V}\na: b\n",
    "a:\n  ${V}: 1\n  c: {${W}: 2}\n",
];

fn near_a_good_one(field: &str, other: &str, flow: bool) -> String {
    let tail = if flow {
        "- {name: a, user: {token: hunter2, "
    } else {
        "- name: a\n  user:\n    token: hunter2\n"
    };
    let field = if flow { field.trim() } else { field };
    let end = if flow { "}}\n" } else { "" };
    format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nclusters:\n- name: a\n  cluster:\n    \
         server: https://a:6443\n    certificate-authority-data: Q0E=\n{other}users:\n{tail}{field}{end}"
    )
}

fn of_texts(token: &str, server: &str) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nclusters:\n- name: a\n  cluster:\n    \
         server: {}\n    certificate-authority-data: Q0E=\nusers:\n- name: a\n  user:\n    token: {}\n",
        text(server),
        text(token)
    )
}

#[test]
fn the_names_of_laws_are_in_order_and_each_has_a_target() {
    let manifest = include_str!("../targets/Cargo.toml");
    assert!(LAWS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    for (name, _) in LAWS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

/// The sandbox works: a child process of this test opens a file in it, and the kernel kills the child.
#[test]
#[cfg(target_os = "linux")]
fn opening_a_file_in_the_sandbox_kills_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    const CHILD: &str = "MUSTER_FUZZ_OPENS_A_FILE";
    const BAD_SYSTEM_CALL: i32 = 31;
    if std::env::var_os(CHILD).is_some() {
        sandbox::run(|| std::fs::read("/proc/self/status").map_or(0, |bytes| bytes.len()));
        return;
    }
    let name = "opening_a_file_in_the_sandbox_kills_the_process";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let status = child
        .args(["--exact", name])
        .env(CHILD, "1")
        .output()
        .unwrap()
        .status;
    assert_eq!(status.signal(), Some(BAD_SYSTEM_CALL), "{status}");
    assert_eq!(sandbox::run(|| 1 + 1), 2);
}
