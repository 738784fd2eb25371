//! Every rule of the engine has code and a test, and every mention of a rule refers to an existing one.

#[test]
fn holds() {
    let problems = xtask::rulebook::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
