//! Promise: a downscale is allowed only after its operation is on record, its pods are prepared and its time is on record; whatever a
//! review contains, it is answered.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

#[path = "admission/answers.rs"]
mod answers;
#[path = "admission/cluster.rs"]
mod cluster;
#[path = "admission/hostile.rs"]
mod hostile;
#[path = "admission/labels.rs"]
mod labels;
#[path = "admission/zones.rs"]
mod zones;
