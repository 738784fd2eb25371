//! The assemblages: what they decide, and what becomes of them on API servers in this process, on paused time.

mod changes;
mod decide;
mod deleted;
mod foreign;
mod mirror;
mod mirrored;
mod remote;
mod rest;
mod rows;
mod situation;
mod sources;
mod support;
mod verdict;
mod whole;
mod withdrawn;
