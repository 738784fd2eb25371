//! A Kubernetes API server in one process, for tests, demos and simulated fleets.
