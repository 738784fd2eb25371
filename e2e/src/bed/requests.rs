//! Requests to the API servers: from the recorder of the embedded server, or from the audit log of a real one.

use std::time::Duration;

use tokio::time::Instant;

use super::{AGENT, Bed, recorded::Request, server::Server};

/// A request: time, user, method and path.
pub type RequestEntry = (Duration, String, String, String);

impl Bed {
    /// The requests of muster to an API server so far, in order.
    pub fn muster_requests(&self, server: &str) -> Vec<RequestEntry> {
        let requests = self.servers().filter(|(name, _)| *name == server);
        let mut entries: Vec<RequestEntry> = requests
            .flat_map(|(_, server)| server.requests())
            .filter(Request::is_ours)
            .map(|request| (request.at, request.user, request.method, request.path))
            .collect();
        entries.sort();
        entries
    }

    /// Everything that muster has written since an instant, except leases: server, method and path.
    pub fn writes_since(&self, then: Instant) -> Vec<String> {
        let writes = self.requests();
        let writes = writes
            .iter()
            .filter(|(_, request)| request.came >= then && request.is_write());
        writes
            .map(|(name, request)| format!("{name}: {} {}", request.method, request.path))
            .collect()
    }

    /// How many requests of the controller or of an agent a server has received since an instant.
    pub fn requests_since(&self, server: &str, controller: bool, then: Instant) -> usize {
        let requests = self.requests();
        let those = requests.iter().filter(|(name, request)| {
            *name == server && request.came >= then && (request.user != AGENT) == controller
        });
        those.count()
    }

    /// The watches of muster that ended since an instant and before their own timeout: server, path, duration.
    pub fn short_watches_since(&self, then: Instant) -> Vec<String> {
        let mut short = Vec::new();
        for (name, request) in self.requests() {
            let timeout = request
                .query
                .split('&')
                .find_map(|part| part.strip_prefix("timeoutSeconds=")?.parse().ok());
            if let (true, Some(timeout), Some(lasted)) = (request.is_watch(), timeout, request.lasted)
                && request.came + lasted >= then
                && lasted < Duration::from_secs(timeout)
            {
                short.push(format!("{name}: {} {lasted:.1?} of {timeout} s", request.path));
            }
        }
        short
    }

    /// How many watches of muster are open now.
    pub fn open_watches(&self) -> usize {
        let requests = self.requests().into_iter();
        requests
            .filter(|(_, request)| request.is_watch() && request.lasted.is_none())
            .count()
    }

    /// How many requests of muster other than reads the API servers have recorded, except for leases.
    pub fn requests_to_change(&self) -> usize {
        let requests = self.requests().into_iter();
        requests.filter(|(_, request)| request.is_change()).count()
    }

    /// Discards requests and events of all API servers.
    pub fn forget_requests(&self) {
        self.servers().for_each(|(_, server)| server.discard_history());
    }

    /// All requests of muster, with the name of the server.
    fn requests(&self) -> Vec<(&str, Request)> {
        self.servers()
            .flat_map(|(name, server)| server.requests().into_iter().map(move |request| (name, request)))
            .filter(|(_, request)| request.is_ours())
            .collect()
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = (&str, &Server)> {
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|(name, cluster)| (name.as_str(), &cluster.api));
        clusters.chain([("management", &self.management)])
    }
}
