//! Generated files are as the code would write them.

#[test]
fn holds() {
    let problems = xtask::generated::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
