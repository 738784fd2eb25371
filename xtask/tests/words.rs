//! What people read is in plain words.

#[test]
fn no_word_of_the_list_comes_back() {
    let problems = xtask::words::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
