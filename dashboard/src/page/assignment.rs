use super::{Page, Request};
use crate::{ModuleRef, Snapshot};
pub fn page(_: &Snapshot, _: &Request, _: &ModuleRef, _: &str) -> Option<Page> {
    None
}
