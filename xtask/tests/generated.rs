//! Generated files are up to date.

#[test]
fn holds() {
    let problems = xtask::generated::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
