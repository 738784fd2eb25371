//! Seeds: interesting initial inputs, built from the fixtures and examples of the repository.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::{kubeconfig, node, substitute, yaml};

/// Longest seed in bytes: larger files teach a fuzzer nothing that a part of them does not.
pub const LONGEST: usize = 4096;

/// Directories of the repository with manifests and with the output of tools for them.
const DIRECTORIES: [&str; 4] = ["api/crds", "deploy", "examples", "sync/tests/fixtures"];

/// Seeds by the name of their fuzz target; deterministic for the same repository.
pub fn seeds(repository: &Path) -> io::Result<BTreeMap<&'static str, Vec<Vec<u8>>>> {
    let mut found = SeedFiles::default();
    for directory in DIRECTORIES {
        found.read(&repository.join(directory))?;
    }
    let SeedFiles {
        texts,
        mut substitutions,
    } = found;
    substitutions.extend(forms());
    let structured = || (0..64).map(pseudorandom).collect();
    Ok(BTreeMap::from([
        ("client", kubeconfigs()),
        ("credentials", structured()),
        ("door", structured()),
        ("journal", structured()),
        ("kubeconfig", kubeconfigs()),
        ("node", configurations()),
        ("patch", structured()),
        ("substitute", substitutions),
        ("tree", structured()),
        ("yaml", texts),
    ]))
}

/// The tokens of a fuzz target's input language, if it has one.
pub fn dictionary(target: &str) -> Option<&'static [&'static str]> {
    match target {
        "client" | "kubeconfig" => Some(kubeconfig::TOKENS),
        "node" => Some(node::TOKENS),
        "substitute" => Some(substitute::TOKENS),
        "yaml" => Some(yaml::TOKENS),
        _ => None,
    }
}

/// Files of the repository that are used as seeds.
#[derive(Default)]
struct SeedFiles {
    texts: Vec<Vec<u8>>,
    substitutions: Vec<Vec<u8>>,
}

impl SeedFiles {
    /// Manifests and cases below a directory, in order; a missing directory yields none.
    fn read(&mut self, directory: &Path) -> io::Result<()> {
        if !directory.is_dir() {
            return Ok(());
        }
        let entries = directory.read_dir()?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths: Vec<_> = entries.collect::<Result<_, _>>()?;
        paths.sort();
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => self.read(&path)?,
                Some("yaml" | "yml") => self.texts.extend(documents(&std::fs::read(path)?)),
                Some("json") => self.cases(&serde_json::from_slice(&std::fs::read(path)?)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// A list of documents, or variables with a list of texts; none for other files.
    fn cases(&mut self, file: &Value) {
        let texts = |cases: &Value| -> Vec<String> {
            let cases = cases.as_array().map(Vec::as_slice).unwrap_or_default();
            let texts = cases.iter().filter_map(|case| case.get("text")?.as_str());
            texts.map(str::to_owned).collect()
        };
        self.texts.extend(texts(file).into_iter().map(String::into_bytes));
        if let (Some(variables), Some(cases)) = (
            file.get("variables").and_then(Value::as_object),
            file.get("cases"),
        ) {
            let lines = variables
                .iter()
                .filter_map(|(name, value)| Some(format!("{name}={}\n", value.as_str()?)));
            let lines: String = lines.collect();
            let seeds = texts(cases)
                .into_iter()
                .map(|text| format!("{lines}\n{text}").into_bytes());
            self.substitutions.extend(seeds);
        }
    }
}

/// A file; if it is long, its documents; for a long document, its first part.
fn documents(bytes: &[u8]) -> Vec<Vec<u8>> {
    if bytes.len() <= LONGEST {
        return vec![bytes.to_vec()];
    }
    let text = String::from_utf8_lossy(bytes);
    let cut = |document: &str| document.bytes().take(LONGEST).collect();
    text.split("\n---").map(cut).collect()
}

/// Each way to write a substitution, and documents that have some.
fn forms() -> impl Iterator<Item = Vec<u8>> {
    const VARIABLES: &str = "V=abcABC123\nW=a/b/c\nZ=äb\nE=\nN=3\n\n";
    let forms = [
        "$${V} $$ $",
        "${#V} ${V^} ${V^^} ${V,} ${V,,}",
        "${U:-d} ${U:=d} ${U=d} ${E:-d}",
        "${U:-${V:-x}}",
        "${V:3} ${V:3:3} ${V:1:-1}",
        "${W#*/} ${W##*/} ${W%/*} ${W%%/*}",
        "${V/abc/x} ${V//abc/x} ${V/#abc/x} ${V/%c/x}",
        "a: ${N}\nb: \"${N}\"\n",
        "${V}: 1\n${W}: [${N}]\n",
        "a: &a {${V}: 1}\nb: {<<: *a}\n",
        "a: |\n  ${V}\n",
        "${V-d} ${V:+x} ${V:?m}",
        "${Z:1}",
    ];
    forms
        .into_iter()
        .map(|form| format!("{VARIABLES}{form}").into_bytes())
}

/// A valid input, plain and with each token of its language appended to each line.
fn kubeconfigs() -> Vec<Vec<u8>> {
    const GOOD: &str = "\
apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {cluster: a, user: a}\nclusters:\n- name: a\n  cluster:\n    \
server: https://a:6443\n    certificate-authority-data: Q0E=\nusers:\n- name: a\n  user:\n    token: hunter2\n";
    let words = kubeconfig::TOKENS.iter().filter(|word| word.ends_with('\n'));
    let with = words.flat_map(|word| {
        ["users:\n", ""].map(|before| GOOD.replacen(before, &format!("{word}{before}"), 1) + word)
    });
    std::iter::once(GOOD.to_owned())
        .chain(with)
        .map(String::into_bytes)
        .collect()
}

/// A valid input with all paths, plain and with each token of its language in front.
fn configurations() -> Vec<Vec<u8>> {
    const GOOD: &str = include_str!("../../../examples/nodes/node.yaml");
    let paths: String = node::TOKENS
        .iter()
        .filter(|word| word.starts_with('/'))
        .copied()
        .collect();
    let words = std::iter::once("").chain(node::TOKENS.iter().copied().filter(|word| word.ends_with('\n')));
    words
        .map(|word| format!("{word}---\n{paths}").into_bytes())
        .chain([format!("{GOOD}---\n{paths}").into_bytes()])
        .collect()
}

/// Bytes without a pattern, for targets that derive their input from them.
fn pseudorandom(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    (0..64 + seed * 16).map(byte).collect()
}
