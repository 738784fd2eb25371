//! A search by name finds what it looks for: one function of a name, and no private words.

#[test]
fn names_are_those_of_the_field_and_are_unique() {
    let (problems, most_frequent) = xtask::names::report().unwrap();
    for (count, name) in most_frequent {
        println!("{count:5} {name}");
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
