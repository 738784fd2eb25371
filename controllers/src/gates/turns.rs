//! Whose turn it is to be read: a slow gate takes no turn of another module's, a slow host none of another host's.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::Key;

/// Gates of one module at once: half of those that one stage may have.
const OF_A_MODULE: usize = 4;
/// Gates that ask one host at once: four modules fill it.
const OF_A_HOST: usize = 16;
/// Gates at once: four slow hosts fill it. Each waits for at most a minute, and holds at most one answer.
const OF_ALL: usize = 64;

/// Queues by module and host; those that nobody waits in are dropped.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    queues: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// The right to go on, until it is dropped.
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
    /// Waits for a turn. The narrowest queue comes first, so that who waits there takes no place of the others.
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

    /// How long until the turn of the last comes, when each takes ten seconds.
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
        assert_eq!(
            turns.queues.lock().len(),
            1,
            "queues in which nobody waits are dropped"
        );
    }
}
