//! Promise: the rule for Renovate in docs/how-to.md finds the repository and the tag of each Module with a tag, and
//! nothing of one with a commit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

use regex::Regex;
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/how-to.md");

/// Renovate's regular expressions have RE2's syntax, as those of the crate do.
fn rule() -> Regex {
    let blocks = PAGE.split("```json\n").skip(1);
    let mut blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let block = blocks.find(|block| block.contains("customManagers")).unwrap();
    let rule: Value = serde_json::from_str(block).unwrap();
    let manager = &rule["customManagers"][0];
    assert_eq!(manager["datasourceTemplate"], "git-tags");
    Regex::new(manager["matchStrings"][0].as_str().unwrap()).unwrap()
}

fn check(text: &str, expect: &[(&str, &str)]) {
    let rule = rule();
    let found: Vec<(&str, &str)> = rule
        .captures_iter(text)
        .map(|found| {
            (
                found.name("packageName").unwrap().as_str(),
                found.name("currentValue").unwrap().as_str(),
            )
        })
        .collect();
    assert_eq!(found, expect, "{text}");
}

#[test]
fn the_tags_of_modules_are_found() {
    const SHOP: &str = "https://git.example.com/acme/shop.git";
    check(
        PAGE.split("## A plan on each").next().unwrap(),
        &[(SHOP, "v1.4.0")],
    );
    let lines = format!(
        "      git:\n        url: {SHOP}\n        version:\n          tag: \"v1.4.0\"\n        secretRef: {{name: git}}\n"
    );
    check(&lines, &[(SHOP, "v1.4.0")]);
    check(
        &format!("git: {{url: {SHOP}, version: {{tag: v1.4.0}}}}"),
        &[(SHOP, "v1.4.0")],
    );
    check(
        &format!("{lines}---\n{}", lines.replace("shop", "cart")),
        &[
            (SHOP, "v1.4.0"),
            ("https://git.example.com/acme/cart.git", "v1.4.0"),
        ],
    );
    check(&lines.replace("tag:", "commit:"), &[]);
}
