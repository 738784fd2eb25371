//! Promise: a downscale is allowed only after its operation is recorded, its pods are prepared and its time is
//! recorded; every review is answered, whatever it contains.

mod answers;
mod cluster;
mod hostile;
mod labels;
mod zones;
