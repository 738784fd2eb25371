//! Links between documents have a target.

#[test]
fn holds() {
    let problems = xtask::links::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
