//! Promise: replicas follow a leader or another resource zone by zone, after pods were asked to prepare, and never
//! while another zone is disturbed.

mod passes;
mod rules;
