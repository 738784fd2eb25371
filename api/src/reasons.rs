//! The words of muster: one enum of reasons for clusters, one for everything else.
