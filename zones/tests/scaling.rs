//! Promise: replicas follow a leader or another resource zone by zone, after pods were asked, and never while another zone is disturbed.

#[path = "scaling/passes.rs"]
mod passes;
#[path = "scaling/rules.rs"]
mod rules;
