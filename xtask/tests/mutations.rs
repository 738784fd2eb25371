//! The old bugs that are made again fit the code: each edit can be made, each test is there.

#[test]
fn fit_the_code() {
    let problems = xtask::mutate::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
