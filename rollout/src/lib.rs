//! The decision function of muster: which unit changes next, and what the evidence says.
