//! View models and pages of muster: what the command and the page show.
