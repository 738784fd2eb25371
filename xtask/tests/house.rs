//! Product code keeps the house rules.

#[test]
fn holds() {
    let problems = xtask::house::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
