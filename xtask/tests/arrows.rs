//! Every dependency between crates is in the table of ARCHITECTURE.md.

#[test]
fn holds() {
    let problems = xtask::arrows::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn files_of_a_room_stand_in_layers() {
    let problems = xtask::circles::check().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_library_has_a_reason() {
    let problems = xtask::arrows::unexplained().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
