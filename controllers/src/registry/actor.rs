//! stub
use super::*;
pub(super) struct Actor;
impl Actor { pub(super) fn new(_r: &Arc<Registry>) -> Self { Self } pub(super) async fn run(self) {} }
