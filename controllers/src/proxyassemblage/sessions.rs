//! Watches on mirrored assemblages: one each, so that reports of a cluster arrive at once and polls can be rare.
//!
//! A session is one watch request from the resourceVersion of a poll. Each event, and its end, enqueue the proxy, whose
//! next poll opens the next session; after failures with increasing delay. A session that is silent beyond its own
//! timeout counts as failed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use kube::{
    ResourceExt,
    api::{WatchEvent, WatchParams},
};
use muster_api::Assemblage;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::runtime::Api;
use crate::{
    expand::Pending,
    runtime::{Clock, Guard, Jitter, Key, call::error_chain, version::is_as_new},
};

/// How long a server keeps one watch open, plus or minus [`STRAY`]: clients may ask for at most 295 s.
const SESSION: Duration = Duration::from_secs(280);
/// The jitter of that time, so that the sessions of a fleet do not end in step.
const STRAY: f64 = 0.05;
/// How long after its expected end a session is abandoned.
const GRACE: Duration = Duration::from_secs(10);
/// The wait after the first failure; it doubles with each further one.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(15);
/// The longest wait after failures.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// The sessions of one process.
#[derive(Debug)]
pub(crate) struct Sessions {
    clock: Clock,
    jitter: Jitter,
    by_proxy: Mutex<BTreeMap<Key, Session>>,
    changed: Pending,
}

#[derive(Debug)]
struct Session {
    alive: Arc<AtomicBool>,
    failures: Arc<Mutex<Failures>>,
    latest: Arc<Mutex<Latest>>,
    may_not_patch: bool,
    _task: AbortOnDropHandle<()>,
}

/// The mirror as last watched or written; `None` if it must be read.
#[derive(Debug, Default)]
struct Latest(Option<Assemblage>);

impl Latest {
    /// Records a mirror that was watched, read or written. A watch event may be older than a later write, and a
    /// response may arrive after a later watch event.
    fn take(&mut self, mut object: Assemblage) {
        let version = |object: &Assemblage| object.resource_version();
        let before = self.0.as_ref().and_then(version);
        if is_as_new(version(&object).as_deref(), before.as_deref()) {
            // As large as the rows, and not needed here.
            object.metadata.managed_fields = None;
            self.0 = Some(object);
        }
    }
}

#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    not_before: Option<Timestamp>,
}

impl Sessions {
    /// No sessions yet, and the stream of proxies whose mirror changed or is no longer watched.
    pub(crate) fn new(clock: Clock, jitter: Jitter) -> (Self, impl Stream<Item = Key> + Send + 'static) {
        let changed = Pending::default();
        let keys = changed.keys();
        (
            Self {
                clock,
                jitter,
                by_proxy: Mutex::default(),
                changed,
            },
            keys,
        )
    }

    /// Whether the mirror of a proxy is being watched.
    pub(crate) fn is_watched(&self, proxy: &Key) -> bool {
        self.by_proxy
            .lock()
            .get(proxy)
            .is_some_and(|session| session.alive.load(Ordering::Relaxed))
    }

    /// The mirror of a proxy as its watch shows it; `None` if it must be read.
    pub(crate) fn latest(&self, proxy: &Key) -> Option<Assemblage> {
        let sessions = self.by_proxy.lock();
        let session = sessions
            .get(proxy)
            .filter(|session| session.alive.load(Ordering::Relaxed))?;
        session.latest.lock().0.clone()
    }

    /// Records the written mirror of a proxy.
    pub(crate) fn written(&self, proxy: &Key, live: &Assemblage) {
        if let Some(session) = self.by_proxy.lock().get(proxy) {
            session.latest.lock().take(live.clone());
        }
    }

    /// The account in the cluster has no permission to patch: it was enrolled by an older muster. Patching is tried
    /// again in the next session.
    pub(crate) fn deny_patches(&self, proxy: &Key) {
        if let Some(session) = self.by_proxy.lock().get_mut(proxy) {
            session.may_not_patch = true;
        }
    }

    /// Whether the mirror of a proxy may be patched, as far as is known.
    pub(crate) fn may_patch(&self, proxy: &Key) -> bool {
        let sessions = self.by_proxy.lock();
        sessions.get(proxy).is_none_or(|session| !session.may_not_patch)
    }

    /// The mirror of a proxy must be read again.
    pub(crate) fn invalidate(&self, proxy: &Key) {
        if let Some(session) = self.by_proxy.lock().get(proxy) {
            *session.latest.lock() = Latest::default();
        }
    }

    /// Watches the mirror of a proxy from `version`, at which it was `live`, unless it is watched already, or failed
    /// recently.
    pub(crate) fn watch(
        &self,
        proxy: &Key,
        api: Api<Guard<Assemblage>>,
        version: String,
        live: Option<&Assemblage>,
    ) {
        let mut sessions = self.by_proxy.lock();
        let failures = match sessions.get(proxy) {
            Some(session) if session.alive.load(Ordering::Relaxed) => {
                if let Some(live) = live {
                    session.latest.lock().take(live.clone());
                }
                return;
            }
            Some(session) => Arc::clone(&session.failures),
            None => Arc::default(),
        };
        if failures
            .lock()
            .not_before
            .is_some_and(|earliest| self.clock.now() < earliest)
        {
            return;
        }
        let alive = Arc::new(AtomicBool::new(true));
        let mut latest = Latest::default();
        if let Some(live) = live {
            latest.take(live.clone());
        }
        let latest = Arc::new(Mutex::new(latest));
        let task = follow(Watch {
            proxy: proxy.clone(),
            api,
            version,
            length: self.jitter.of(&proxy.to_string()).spread(SESSION, STRAY),
            alive: Arc::clone(&alive),
            failures: Arc::clone(&failures),
            latest: Arc::clone(&latest),
            clock: self.clock.clone(),
            changed: self.changed.clone(),
        });
        sessions.insert(
            proxy.clone(),
            Session {
                alive,
                failures,
                latest,
                may_not_patch: false,
                _task: AbortOnDropHandle::new(tokio::spawn(task)),
            },
        );
    }

    /// Ends the session of a proxy.
    pub(crate) fn end(&self, proxy: &Key) {
        self.by_proxy.lock().remove(proxy);
    }

    /// Ends the sessions of deleted proxies.
    pub(crate) fn retain(&self, lives: impl Fn(&Key) -> bool) {
        self.by_proxy.lock().retain(|key, _| lives(key));
    }
}

struct Watch {
    proxy: Key,
    api: Api<Guard<Assemblage>>,
    version: String,
    length: Duration,
    alive: Arc<AtomicBool>,
    failures: Arc<Mutex<Failures>>,
    latest: Arc<Mutex<Latest>>,
    clock: Clock,
    changed: Pending,
}

async fn follow(watch: Watch) {
    let ended_well = match tokio::time::timeout(watch.length + GRACE, events(&watch)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            debug!(proxy = %watch.proxy, error = error_chain(&error), "a watch on a mirrored assemblage ended");
            false
        }
        Err(_elapsed) => false,
    };
    let now = watch.clock.now();
    {
        let mut failures = watch.failures.lock();
        failures.in_a_row = if ended_well {
            0
        } else {
            failures.in_a_row.saturating_add(1)
        };
        failures.not_before = (!ended_well).then(|| now + wait(failures.in_a_row));
    }
    watch.alive.store(false, Ordering::Relaxed);
    watch.changed.add(watch.proxy.clone());
}

async fn events(watch: &Watch) -> Result<(), kube::Error> {
    // Five minutes at most fit into any number type.
    let seconds = u32::try_from(watch.length.as_secs()).unwrap_or(u32::MAX);
    let parameters = WatchParams::default()
        .fields(&format!("metadata.name={}", watch.proxy.name))
        .timeout(seconds);
    let mut events = watch.api.watch(&parameters, &watch.version).await?.boxed();
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(Guard(object)) | WatchEvent::Modified(Guard(object)) => {
                match object {
                    Ok(object) => watch.latest.lock().take(object),
                    // The next read reports why it cannot be read.
                    Err(_invalid) => *watch.latest.lock() = Latest::default(),
                }
                watch.changed.add(watch.proxy.clone());
            }
            WatchEvent::Deleted(_) => {
                *watch.latest.lock() = Latest::default();
                watch.changed.add(watch.proxy.clone());
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

fn wait(failures: u32) -> SignedDuration {
    // 15 s · 2^5 exceeds the longest wait already.
    let factor = 1 << failures.saturating_sub(1).min(5);
    (FIRST_WAIT * factor).min(LONGEST_WAIT)
}
