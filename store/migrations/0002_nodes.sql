-- What Slurm's hooks saw on the nodes. Times are unix microseconds by the node's
-- clock; NULL is unknown, and so is an empty text.

-- A run of a job on a node; node '' is what the controller knows. A job id is
-- given out again after years, or when Slurm lost its state: the start tells
-- the runs apart.
CREATE TABLE node_job (
    id            INTEGER PRIMARY KEY,
    jobid         TEXT NOT NULL,
    node          TEXT NOT NULL,
    cluster       TEXT NOT NULL,
    start         INTEGER,
    ended         INTEGER,
    at            INTEGER NOT NULL, -- start, or the end where no prolog told
    array_job_id  TEXT NOT NULL,
    array_task_id TEXT NOT NULL,
    het_job_id    TEXT NOT NULL,
    user          TEXT NOT NULL,
    uid           INTEGER,
    account       TEXT NOT NULL,
    partition     TEXT NOT NULL,
    name          TEXT NOT NULL,
    node_list     TEXT NOT NULL,
    work_dir      TEXT NOT NULL,
    restart_count INTEGER,
    exit_code     INTEGER,
    exclusive     INTEGER,
    UNIQUE (jobid, node, cluster, start)
);
CREATE INDEX node_job_at ON node_job (at);
CREATE INDEX node_job_node ON node_job (node, ifnull(ended, 9223372036854775807), at);
CREATE INDEX node_job_array ON node_job (array_job_id, array_task_id) WHERE array_job_id <> '';

-- What the node did on a file system between prolog and epilog.
CREATE TABLE node_fs (
    node_job    INTEGER NOT NULL REFERENCES node_job(id) ON DELETE CASCADE,
    fs          TEXT NOT NULL,
    read_bytes  INTEGER,
    write_bytes INTEGER,
    reads       INTEGER,
    writes      INTEGER,
    opens       INTEGER,
    creates     INTEGER,
    unlinks     INTEGER,
    mkdirs      INTEGER,
    getattrs    INTEGER,
    fsyncs      INTEGER,
    reset       INTEGER NOT NULL,
    PRIMARY KEY (node_job, fs)
) WITHOUT ROWID;

-- What a hook did or noticed. took is microseconds.
CREATE TABLE node_event (
    id        INTEGER PRIMARY KEY,
    time      INTEGER NOT NULL,
    node      TEXT NOT NULL,
    cluster   TEXT NOT NULL,
    hook      TEXT NOT NULL,
    jobid     TEXT NOT NULL,
    user      TEXT NOT NULL,
    partition TEXT NOT NULL,
    kind      TEXT NOT NULL,
    code      TEXT NOT NULL, -- the check's
    subject   TEXT NOT NULL,
    severity  TEXT NOT NULL,
    text      TEXT NOT NULL,
    shared    TEXT NOT NULL, -- JSON
    took      INTEGER,
    UNIQUE (time, node, jobid, kind, code, subject, cluster, hook)
);
CREATE INDEX node_event_node ON node_event (node, time);
CREATE INDEX node_event_job ON node_event (jobid, time) WHERE jobid <> '';
