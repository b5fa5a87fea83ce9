-- Times are unix seconds UTC, those of findings and their windows microseconds.

-- Small values that set the file's state.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Short names that many rows share: users, accounts, file systems, servers.
CREATE TABLE word (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

INSERT INTO word (id, text) VALUES (0, ''); -- unknown

CREATE TABLE pool (
    id   INTEGER PRIMARY KEY,
    fs   INTEGER NOT NULL REFERENCES word(id),
    name TEXT NOT NULL,
    UNIQUE (fs, name)
);

-- A job id is arbitrary bytes. user and account are 0 where unknown; app is a
-- hash of the program's name, 0 where unknown.
CREATE TABLE job (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    jobid      TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL DEFAULT '',
    user       INTEGER NOT NULL DEFAULT 0,
    account    INTEGER NOT NULL DEFAULT 0,
    app        INTEGER NOT NULL DEFAULT 0,
    partition  TEXT NOT NULL DEFAULT '',
    nodes      TEXT NOT NULL DEFAULT '',
    state      TEXT NOT NULL DEFAULT '',
    started    INTEGER, -- by Slurm
    first_seen INTEGER, -- in windows
    last_seen  INTEGER,
    noted      INTEGER  -- when the job was first told of, in any way
);

-- Batches already applied.
CREATE TABLE batch (
    agent INTEGER NOT NULL REFERENCES word(id),
    seq   INTEGER NOT NULL,
    PRIMARY KEY (agent, seq)
) WITHOUT ROWID;

CREATE TABLE minute (
    start INTEGER NOT NULL, job INTEGER NOT NULL, pool INTEGER NOT NULL,
    seconds REAL NOT NULL,
    read_bytes REAL NOT NULL, write_bytes REAL NOT NULL,
    read_ops REAL NOT NULL, write_ops REAL NOT NULL,
    read_usec REAL NOT NULL, write_usec REAL NOT NULL,
    opens REAL NOT NULL, closes REAL NOT NULL, creates REAL NOT NULL, unlinks REAL NOT NULL,
    getattrs REAL NOT NULL, setattrs REAL NOT NULL, syncs REAL NOT NULL, other_ops REAL NOT NULL,
    meta_usec REAL NOT NULL, hidden_getattrs REAL NOT NULL,
    targets REAL NOT NULL,
    peak_read_bytes REAL NOT NULL, peak_write_bytes REAL NOT NULL, peak_meta_ops REAL NOT NULL,
    PRIMARY KEY (start, job, pool)
) WITHOUT ROWID;

CREATE TABLE hour (
    start INTEGER NOT NULL, job INTEGER NOT NULL, pool INTEGER NOT NULL,
    seconds REAL NOT NULL,
    read_bytes REAL NOT NULL, write_bytes REAL NOT NULL,
    read_ops REAL NOT NULL, write_ops REAL NOT NULL,
    read_usec REAL NOT NULL, write_usec REAL NOT NULL,
    opens REAL NOT NULL, closes REAL NOT NULL, creates REAL NOT NULL, unlinks REAL NOT NULL,
    getattrs REAL NOT NULL, setattrs REAL NOT NULL, syncs REAL NOT NULL, other_ops REAL NOT NULL,
    meta_usec REAL NOT NULL, hidden_getattrs REAL NOT NULL,
    targets REAL NOT NULL,
    peak_read_bytes REAL NOT NULL, peak_write_bytes REAL NOT NULL, peak_meta_ops REAL NOT NULL,
    PRIMARY KEY (start, job, pool)
) WITHOUT ROWID;

CREATE TABLE day (
    start INTEGER NOT NULL, job INTEGER NOT NULL, pool INTEGER NOT NULL,
    seconds REAL NOT NULL,
    read_bytes REAL NOT NULL, write_bytes REAL NOT NULL,
    read_ops REAL NOT NULL, write_ops REAL NOT NULL,
    read_usec REAL NOT NULL, write_usec REAL NOT NULL,
    opens REAL NOT NULL, closes REAL NOT NULL, creates REAL NOT NULL, unlinks REAL NOT NULL,
    getattrs REAL NOT NULL, setattrs REAL NOT NULL, syncs REAL NOT NULL, other_ops REAL NOT NULL,
    meta_usec REAL NOT NULL, hidden_getattrs REAL NOT NULL,
    targets REAL NOT NULL,
    peak_read_bytes REAL NOT NULL, peak_write_bytes REAL NOT NULL, peak_meta_ops REAL NOT NULL,
    PRIMARY KEY (start, job, pool)
) WITHOUT ROWID;

-- One row per hour (3600) and day (86400) that has windows; digest is NULL while
-- the period may still grow.
CREATE TABLE period (
    span   INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    digest BLOB,
    UNIQUE (span, start)
);
CREATE INDEX period_open ON period (span, start) WHERE digest IS NULL;

-- NULL is unknown. span is the row's own length: 0 as measured, 3600 an hour's mean.
CREATE TABLE pressure (
    span       INTEGER NOT NULL,
    start      INTEGER NOT NULL,
    server     INTEGER NOT NULL REFERENCES word(id),
    seconds    REAL,
    busy       REAL,
    iowait     REAL,
    psi_some   REAL,
    util       REAL,
    queue_size REAL,
    wait_usec  REAL,
    score      REAL,
    PRIMARY KEY (span, start, server)
) WITHOUT ROWID;

CREATE TABLE finding (
    id        INTEGER PRIMARY KEY,
    key       TEXT NOT NULL,
    start     INTEGER NOT NULL,
    ended     INTEGER,          -- NULL while it holds
    seen      INTEGER NOT NULL, -- last batch that told of it
    rule      TEXT NOT NULL,
    title     TEXT NOT NULL,
    subject   TEXT NOT NULL,
    job       INTEGER REFERENCES job(id),
    target    TEXT NOT NULL,
    fs        TEXT NOT NULL,
    server    TEXT NOT NULL,
    severity  TEXT NOT NULL,
    worst     INTEGER NOT NULL, -- rank of the highest severity reached
    action    TEXT NOT NULL,
    evidence  TEXT NOT NULL,    -- JSON; null is unknown
    facts     TEXT NOT NULL,    -- JSON
    advice    TEXT NOT NULL,
    inferred  INTEGER NOT NULL,
    UNIQUE (key, start)
);
CREATE INDEX finding_start ON finding (start);
CREATE INDEX finding_job ON finding (job, start, ended, worst, fs);
CREATE INDEX finding_open ON finding (key) WHERE ended IS NULL;

CREATE TABLE finding_window (
    finding INTEGER NOT NULL REFERENCES finding(id) ON DELETE CASCADE,
    start INTEGER NOT NULL, job INTEGER NOT NULL REFERENCES job(id), pool INTEGER NOT NULL,
    seconds REAL NOT NULL,
    read_bytes REAL NOT NULL, write_bytes REAL NOT NULL,
    read_ops REAL NOT NULL, write_ops REAL NOT NULL,
    read_usec REAL NOT NULL, write_usec REAL NOT NULL,
    opens REAL NOT NULL, closes REAL NOT NULL, creates REAL NOT NULL, unlinks REAL NOT NULL,
    getattrs REAL NOT NULL, setattrs REAL NOT NULL, syncs REAL NOT NULL, other_ops REAL NOT NULL,
    meta_usec REAL NOT NULL, hidden_getattrs REAL NOT NULL,
    targets REAL NOT NULL,
    peak_read_bytes REAL NOT NULL, peak_write_bytes REAL NOT NULL, peak_meta_ops REAL NOT NULL,
    PRIMARY KEY (finding, start, job, pool)
) WITHOUT ROWID;
CREATE INDEX finding_window_job ON finding_window (job);
