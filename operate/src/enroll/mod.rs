//! Enrolment of clusters that Cluster API does not manage.

pub mod address;
pub mod objects;
