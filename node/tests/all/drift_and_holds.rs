//! Promise: to be written.
