//! ZoneAwarePodDisruptionBudget: decides which evictions leave all zones but one undisturbed.

mod config;
mod known;
mod message;
mod ready;
mod review;
mod rollout;

pub use self::{
    config::{Budget, Invalid, Limit, NoPartition, Partition, validate},
    known::{KnownBudgets, ManyBudgets, Observed},
    ready::{ReadyTime, counts_as_ready, ready_time, ready_time_patch},
    review::{EvictionOrigin, Facts, MEMORY, Reason, Request, Verdict, is_under_way, judge, put_on_record},
    rollout::OfRollout,
};
