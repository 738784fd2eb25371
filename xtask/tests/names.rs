//! A search by name finds what it looks for: one function of a name, and no private words.

#[test]
fn names_are_those_of_the_field_and_are_unique() {
    for (count, name) in xtask::names::most_frequent().unwrap() {
        println!("{count:5} {name}");
    }
    let problems = xtask::names::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
