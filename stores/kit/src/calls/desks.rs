//! The sessions of one handle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use dauer_store::{Clock, HubName, InstanceId, Kind, Refused, SessionId};

use super::desk::Desk;
use super::offer::{Offer, Won};

/// The desks of a handle. A session that is dropped leaves by itself.
pub struct Desks {
    clock: Arc<dyn Clock>,
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    hub: HubName,
    session: SessionId,
    desk: Weak<Desk>,
}

impl Desks {
    /// No sessions yet. Due times are measured by the steady clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, entries: Mutex::default() }
    }

    /// A panic while the lock was held leaves a list whose entries are whole.
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the desk of a session. It lives as long as the returned handle. A session that attaches again while it is open has
    /// the same desk: its credit and what it has won go on.
    #[must_use]
    pub fn open(&self, hub: HubName, session: SessionId) -> Arc<Desk> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.desk.strong_count() > 0);
        let known = entries.iter().find(|entry| entry.hub == hub && entry.session == session);
        if let Some(desk) = known.and_then(|entry| entry.desk.upgrade()) {
            return desk;
        }
        let desk = Arc::new(Desk::new(Arc::clone(&self.clock)));
        entries.push(Entry { hub, session, desk: Arc::downgrade(&desk) });
        desk
    }

    /// Whether any session is open.
    #[must_use]
    pub fn any(&self) -> bool {
        self.entries().iter().any(|entry| entry.desk.strong_count() > 0)
    }

    /// The sessions with credit and what each may win in one write. They take turns in coming first.
    #[must_use]
    pub fn offers(&self) -> Vec<(HubName, SessionId, Offer)> {
        let mut entries = self.entries();
        if entries.len() > 1 {
            entries.rotate_left(1);
        }
        let offer = |entry: &Entry| Some((entry.hub.clone(), entry.session, entry.desk.upgrade()?.offer()?));
        entries.iter().filter_map(offer).collect()
    }

    /// The open sessions of a hub. They take turns in coming first.
    #[must_use]
    pub fn of_hub(&self, hub: &HubName) -> Vec<(SessionId, Arc<Desk>)> {
        let mut entries = self.entries();
        if entries.len() > 1 {
            entries.rotate_left(1);
        }
        let of_hub = entries.iter().filter(|entry| entry.hub == *hub);
        of_hub.filter_map(|entry| Some((entry.session, entry.desk.upgrade()?))).collect()
    }

    /// What a session may win in one write.
    #[must_use]
    pub fn offer(&self, session: SessionId) -> Option<Offer> {
        self.of(session)?.offer()
    }

    /// The write that has won this is durable.
    pub fn settle(&self, session: SessionId, won: Won) {
        if let Some(desk) = self.of(session) {
            desk.settle(won);
        }
    }

    /// The same for a caller that holds a lock: see [`Desk::book`].
    #[must_use]
    pub fn book(&self, session: SessionId, won: Won) -> Option<Waker> {
        self.of(session)?.book(won)
    }

    /// No one knows whether the write that has won this is durable.
    pub fn doubt(&self, session: SessionId, won: &Won, refused: &Refused) {
        if let Some(desk) = self.of(session) {
            desk.doubt(won, refused.clone());
        }
    }

    /// A message has become visible for an instance that the session holds.
    pub fn mail(&self, session: SessionId, instance: InstanceId) {
        if let Some(desk) = self.of(session) {
            desk.mail([instance]);
        }
    }

    /// Work of that kind is ready in a hub, and was offered to no session but these.
    pub fn unseen(&self, hub: &HubName, kind: Kind, offered: &[SessionId]) {
        self.each(|entry| entry.hub == *hub && !offered.contains(&entry.session), |desk| desk.unseen(kind));
    }

    /// Anything may have changed in these hubs; in all when none are named.
    pub fn unseen_all(&self, hubs: Option<&[HubName]>) {
        self.each(|entry| hubs.is_none_or(|hubs| hubs.contains(&entry.hub)), Desk::unseen_all);
    }

    /// Something in a hub becomes ready by time alone after `after`.
    pub fn due(&self, hub: &HubName, after: Duration) {
        self.each(|entry| entry.hub == *hub, |desk| desk.due(after));
    }

    fn of(&self, session: SessionId) -> Option<Arc<Desk>> {
        let entries = self.entries();
        entries.iter().filter(|entry| entry.session == session).find_map(|entry| entry.desk.upgrade())
    }

    /// Without the lock: a desk may wake its host, which may open another session at once.
    fn each(&self, concerns: impl Fn(&Entry) -> bool, change: impl Fn(&Desk)) {
        let entries = self.entries();
        let desks: Vec<_> =
            entries.iter().filter(|entry| concerns(entry)).filter_map(|entry| entry.desk.upgrade()).collect();
        drop(entries);
        desks.iter().for_each(|desk| change(desk));
    }
}
