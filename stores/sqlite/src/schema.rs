//! How the file is laid out, and in which format.
//!
//! Integer keys stand for hubs, queues, hosts, instances and sessions. Indexes are few and partial: each costs a tenth of
//! the writes. What a claim looks for is in `place`: the time from which an item that anyone may take is ready, else
//! NULL. The row of an instance is small, because every turn writes it again: what people see of it, and may be large, is
//! in `details`, and the history is only ever appended to. A turn that changes nothing of its instance but how far the
//! history goes and which tasks are taken does not write that row either: what it would say is in the `tail` of the last
//! row of the history. And the message that an instance is made by lies in its row until its first turn, which writes that
//! row anyway: most instances never have a row in `inbox`.

/// The format of the file. Another one is refused politely.
pub(crate) const FORMAT: u32 = 9;

/// Grows with every change of the tables, so that a process that knows only the old ones stops writing.
pub(crate) const GENERATION: i64 = 9;

/// "daur": how other tools tell the file.
pub(crate) const APPLICATION_ID: i64 = 0x6461_7572;

/// The tables of the current format.
pub(crate) const TABLES: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    tagged INTEGER NOT NULL -- up to this key the tags of all instances are in their index, and of no other
);
CREATE TABLE hubs (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    pristine INTEGER NOT NULL,
    floor_epoch INTEGER NOT NULL DEFAULT 0, -- where new instances begin: above all that were removed
    floor_revision INTEGER NOT NULL DEFAULT 0,
    removed_starts INTEGER NOT NULL DEFAULT 0, -- rows in starts
    forgotten_starts INTEGER NOT NULL DEFAULT 0, -- ids that went from starts before their time
    token_key BLOB -- seals the tokens of work items
);
CREATE TABLE starts (hub INTEGER NOT NULL, id BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (hub, id)) WITHOUT ROWID;
CREATE INDEX starts_by_time ON starts (hub, at);
CREATE TABLE hosts (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE queues (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    hub INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL, -- '' for none, else '=' and the version
    UNIQUE (hub, kind, name, version)
);
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    hub INTEGER NOT NULL,
    id BLOB NOT NULL,
    host TEXT NOT NULL,
    lease INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    lapsed INTEGER NOT NULL,
    runs_code INTEGER NOT NULL DEFAULT 1, -- 0: a server, whose workers live on
    UNIQUE (hub, id)
);
CREATE TABLE lost (key INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, item BLOB NOT NULL);
CREATE INDEX lost_of_session ON lost (session);
CREATE TABLE instances (
    key INTEGER PRIMARY KEY,
    hub INTEGER NOT NULL,
    id TEXT NOT NULL,
    queue INTEGER NOT NULL,
    offered INTEGER NOT NULL,
    execution BLOB NOT NULL,
    generation INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    status INTEGER NOT NULL,
    hold INTEGER NOT NULL,
    stalled INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    completed INTEGER,
    history_len INTEGER NOT NULL,
    history_bytes INTEGER NOT NULL,
    holder INTEGER,
    ready_at INTEGER,
    not_before INTEGER NOT NULL,
    place INTEGER,
    remembered INTEGER NOT NULL, -- rows in applied
    last BLOB,
    base BLOB NOT NULL, -- what stays for a whole run
    taken BLOB, -- tasks that whoever holds it has taken with a commit
    start BLOB, -- the message that it was made by, until a turn takes that
    deaths INTEGER NOT NULL DEFAULT 0, -- of workers in the low half, of servers in the high half
    trials INTEGER NOT NULL DEFAULT 0 -- twice the deaths during trials, plus 1 while a trial is open
);
CREATE UNIQUE INDEX instances_by_id ON instances (hub, id);
CREATE INDEX instances_by_created ON instances (hub, created, id);
CREATE INDEX instances_by_completed ON instances (hub, completed, id) WHERE completed IS NOT NULL;
CREATE INDEX instances_ready ON instances (offered, place) WHERE place IS NOT NULL;
CREATE INDEX instances_held ON instances (holder) WHERE holder IS NOT NULL;
CREATE INDEX instances_mail ON instances (holder, ready_at)
    WHERE holder IS NOT NULL AND start IS NULL AND ready_at IS NOT NULL;
CREATE TABLE details (instance INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE tags (
    hub INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    created INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    PRIMARY KEY (hub, name, value, created, instance)
) WITHOUT ROWID;
CREATE TABLE history (
    key INTEGER PRIMARY KEY,
    instance INTEGER NOT NULL,
    first INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    host INTEGER NOT NULL,
    at INTEGER NOT NULL,
    count INTEGER NOT NULL,
    trail BLOB NOT NULL,
    events BLOB NOT NULL,
    tail BLOB -- how the turn left its instance, where the row of that does not say
);
CREATE INDEX history_of_instance ON history (instance, first);
CREATE TABLE inbox (
    key INTEGER PRIMARY KEY,
    instance INTEGER NOT NULL,
    kind INTEGER NOT NULL, -- 0 prologue, 1 visible on arrival, 2 delayed
    message BLOB NOT NULL,
    position INTEGER NOT NULL,
    visible INTEGER NOT NULL,
    class INTEGER NOT NULL,
    sender TEXT, -- only for an entity, which may be locked by one
    execution BLOB,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX inbox_of_instance ON inbox (instance, kind, message);
CREATE INDEX inbox_in_order ON inbox (instance, (class = 6 AND kind <> 0), (kind <> 0), position); -- 6: ordinary messages
CREATE INDEX inbox_of_sender ON inbox (instance, sender, position) WHERE sender IS NOT NULL;
CREATE TABLE outbox (key INTEGER PRIMARY KEY, hub INTEGER NOT NULL, instance INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX outbox_of_hub ON outbox (hub, instance);
CREATE TABLE applied (
    key INTEGER PRIMARY KEY,
    instance INTEGER NOT NULL,
    message BLOB NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (instance, message)
);
CREATE TABLE tasks (
    key INTEGER PRIMARY KEY,
    hub INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    task BLOB NOT NULL,
    execution BLOB NOT NULL,
    queue INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    holder INTEGER,
    attempts INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    withdrawn INTEGER NOT NULL,
    place INTEGER,
    body BLOB NOT NULL,
    deaths INTEGER NOT NULL DEFAULT 0,
    mark INTEGER, -- when the session of a server that held it ended
    trials INTEGER NOT NULL DEFAULT 0,
    UNIQUE (instance, task)
);
CREATE INDEX tasks_ready ON tasks (queue, place) WHERE place IS NOT NULL;
CREATE INDEX tasks_held ON tasks (holder) WHERE holder IS NOT NULL;
CREATE TABLE dropped (hub INTEGER NOT NULL, reason INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (hub, reason)) WITHOUT ROWID;
";
