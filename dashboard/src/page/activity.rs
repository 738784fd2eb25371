use super::{Page, Request, layout};
use crate::Snapshot;
pub fn page(snapshot: &Snapshot, request: &Request) -> Page {
    layout::missing(snapshot, request)
}
