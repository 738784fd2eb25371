use super::{Page, Request};
use crate::Snapshot;
pub fn page(_: &Snapshot, _: &Request, _: &str) -> Option<Page> {
    None
}
