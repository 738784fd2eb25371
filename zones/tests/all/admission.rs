//! Promise: a downscale is allowed only after its operation is on record, its pods are prepared and its time is on record; whatever a
//! review contains, it is answered.

mod answers;
mod cluster;
mod hostile;
mod labels;
mod zones;
