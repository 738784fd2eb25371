//! The mutations fit the code: each edit can be applied, each test exists.

#[test]
fn fit_the_code() {
    let problems = xtask::mutate::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
