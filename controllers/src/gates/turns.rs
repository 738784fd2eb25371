//! Limits concurrent gates: a slow gate does not delay another module's gates, and a slow host does not delay other
//! hosts.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::Key;

/// Concurrent gates of one module: half of those that one stage may have.
const OF_A_MODULE: usize = 4;
/// Concurrent gates that query one host: four modules reach it.
const OF_A_HOST: usize = 16;
/// Concurrent gates in total: four slow hosts reach it. Each waits for at most a minute, and keeps at most one
/// response.
const OF_ALL: usize = 64;

/// Semaphores by module and host; those without waiters are dropped.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    queues: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// The permits of one evaluation, held until dropped.
pub(super) struct Turn {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(OF_ALL)),
            queues: Mutex::default(),
        }
    }
}

impl Turns {
    /// Waits for a turn. The narrowest semaphore is acquired first, so that waiting there takes no permit of the wider
    /// ones.
    pub(super) async fn turn(&self, module: &Key, host: Option<&str>) -> Turn {
        let module = self.queue(
            format!("module {}/{}", module.namespace, module.name),
            OF_A_MODULE,
        );
        let host = host.map(|host| self.queue(format!("host {host}"), OF_A_HOST));
        let mut permits = Vec::new();
        for queue in [Some(module), host, Some(Arc::clone(&self.all))]
            .into_iter()
            .flatten()
        {
            // The semaphores are never closed.
            permits.extend(queue.acquire_owned().await.ok());
        }
        Turn { _permits: permits }
    }

    fn queue(&self, name: String, places: usize) -> Arc<Semaphore> {
        let mut queues = self.queues.lock();
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        let queue = queues
            .entry(name)
            .or_insert_with(|| Arc::new(Semaphore::new(places)));
        Arc::clone(queue)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    /// How long until the last gate gets its turn, if each takes ten seconds.
    async fn last(turns: &Arc<Turns>, of: Vec<(String, String)>) -> u64 {
        let began = Instant::now();
        let all = of.into_iter().map(|(module, host)| {
            let turns = Arc::clone(turns);
            tokio::spawn(async move {
                let _turn = turns.turn(&Key::new("fleet", module), Some(&host)).await;
                tokio::time::sleep(Duration::from_secs(10)).await;
            })
        });
        futures::future::join_all(all.collect::<Vec<_>>()).await;
        began.elapsed().as_secs()
    }

    fn of(count: usize, module: &str, host: &str) -> Vec<(String, String)> {
        let named = |number: usize, text: &str| text.replace('N', &number.to_string());
        (0..count)
            .map(|number| (named(number, module), named(number, host)))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_of_a_module_of_a_host_and_of_all() {
        let check = async |of: Vec<(String, String)>, seconds: u64| {
            assert_eq!(last(&Arc::default(), of.clone()).await, seconds, "{of:?}");
        };
        check(of(8, "web", "a.test"), 20).await;
        check(of(16, "mN", "a.test"), 10).await;
        check(of(32, "mN", "a.test"), 20).await;
        check(of(64, "mN", "hN.test"), 10).await;
        check(of(65, "mN", "hN.test"), 20).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_module_and_a_slow_host_keep_no_turn_from_others() {
        let turns = Arc::<Turns>::default();
        let slow = [of(60, "slow", "a.test"), of(60, "mN", "b.test")].concat();
        let slow = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { last(&turns, slow).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(last(&turns, of(4, "other", "a.test")).await, 10);
        slow.await.unwrap();
        drop(turns.turn(&Key::new("fleet", "web"), None).await);
        assert_eq!(turns.queues.lock().len(), 1, "queues without waiters are dropped");
    }
}
