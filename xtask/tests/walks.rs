//! The walks fit the code: each patch applies, and touches only files that CONTRIBUTING.md lists.

#[test]
fn fit_the_code() {
    let problems = xtask::walks::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
