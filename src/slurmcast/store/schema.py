"""The store's tables. Each migration is applied once, in order; ``PRAGMA user_version`` counts them."""

MIGRATIONS = (
    """
    CREATE TABLE submission (
        id INTEGER PRIMARY KEY,
        spool_name TEXT UNIQUE,            -- claims a spool file once, also over a restart; NULL for scripts read back
        uid INTEGER NOT NULL,
        name TEXT NOT NULL,                -- in readable form, for people who look
        submit_time INTEGER NOT NULL,
        submission TEXT NOT NULL,          -- model.Submission as JSON, without its script
        script_sha256 TEXT NOT NULL,       -- of the bytes that the hook passed on
        script_bytes INTEGER NOT NULL,     -- how many those are
        complete INTEGER NOT NULL,         -- 0: the hook cut the script
        key TEXT NOT NULL,                 -- identity of the work: model.Reading.key
        reading TEXT NOT NULL,             -- model.Reading as JSON, without its text
        text_key TEXT NOT NULL,            -- where the encoder's cache has the vector
        named TEXT NOT NULL,               -- partitions that the user named, as a JSON list
        script BLOB,                       -- only with daemon.keep_scripts
        model TEXT                         -- what estimated it, '': the prior for want of a model; NULL: not yet
    ) STRICT;
    CREATE INDEX submission_match ON submission (uid, submit_time);
    CREATE TABLE estimate (
        submission INTEGER NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
        partition TEXT NOT NULL,
        source TEXT NOT NULL,
        estimate TEXT NOT NULL,            -- model.Estimate as JSON
        PRIMARY KEY (submission, partition)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE job (
        cluster TEXT NOT NULL,
        job_id INTEGER NOT NULL,
        submit_time INTEGER NOT NULL,      -- ids wrap: a job is (cluster, id, submit time)
        uid INTEGER NOT NULL,
        user TEXT NOT NULL,
        name TEXT NOT NULL,
        submission INTEGER REFERENCES submission (id),
        certain INTEGER NOT NULL DEFAULT 1, -- 0: another submission of that second may be the right one
        decision TEXT,                     -- the last model.Decision as JSON
        PRIMARY KEY (cluster, job_id, submit_time)
    ) STRICT;
    CREATE INDEX job_submission ON job (submission);
    CREATE TABLE change (
        cluster TEXT NOT NULL,
        job_id INTEGER NOT NULL,
        submit_time INTEGER NOT NULL,
        at REAL NOT NULL,
        decision TEXT NOT NULL             -- each decision that changed something in Slurm
    ) STRICT;
    CREATE INDEX change_job ON change (job_id, submit_time);
    CREATE TABLE outcome (
        cluster TEXT NOT NULL,
        job_id INTEGER NOT NULL,
        submit_time INTEGER NOT NULL,
        start_time INTEGER NOT NULL,       -- a requeued job has several runs
        submitted_id INTEGER NOT NULL,     -- the id under which it was submitted: an array's base id, else its own
        state TEXT NOT NULL,
        outcome TEXT NOT NULL,             -- model.Outcome as JSON
        PRIMARY KEY (cluster, job_id, submit_time, start_time)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE kappa (
        at REAL NOT NULL,
        value REAL NOT NULL,
        by TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE INDEX submission_key ON submission (uid, key);
    CREATE INDEX submission_script ON submission (uid, script_sha256);
    CREATE INDEX submission_name ON submission (uid, name);
    CREATE INDEX outcome_submitted ON outcome (cluster, submitted_id, submit_time);
    """,
    """
    ALTER TABLE kappa RENAME TO kappa_before;
    CREATE TABLE kappa (
        at REAL NOT NULL,
        value REAL,                        -- NULL: back to the configuration
        by TEXT NOT NULL,
        partition TEXT NOT NULL,           -- '': for all
        qos TEXT NOT NULL                  -- '': for all
    ) STRICT;
    INSERT INTO kappa SELECT at, value, by, '', '' FROM kappa_before ORDER BY at, rowid;
    DROP TABLE kappa_before;
    """,
    """
    CREATE TABLE energy (
        cluster TEXT NOT NULL,
        job_id INTEGER NOT NULL,
        start_time INTEGER NOT NULL,       -- Slurm's, as the node's prolog was told it
        node TEXT NOT NULL,
        record TEXT NOT NULL,              -- meter.record.EnergyRecord as JSON
        PRIMARY KEY (cluster, job_id, start_time, node)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX outcome_started ON outcome (cluster, job_id, start_time);
    """,
    """
    ALTER TABLE submission ADD COLUMN estimated_at REAL;  -- when its estimates were made; NULL: by an earlier version
    CREATE TABLE promise (
        cluster TEXT NOT NULL,
        job_id INTEGER NOT NULL,
        submit_time INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        key TEXT NOT NULL,                 -- the submission's
        model TEXT,                        -- the submission's, when this was kept
        made_at REAL NOT NULL,             -- when the estimate was made
        estimate TEXT NOT NULL,            -- model.Estimate on the run's partition, as JSON
        PRIMARY KEY (cluster, job_id, submit_time, start_time)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX promise_model ON promise (cluster, model);
    CREATE INDEX promise_started ON promise (cluster, start_time);
    """,
    """
    CREATE TABLE imported (
        identity TEXT PRIMARY KEY,         -- imports.submission.identity: the same work of one user is stored once
        submission INTEGER NOT NULL REFERENCES submission (id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX imported_submission ON imported (submission);
    CREATE TABLE unencoded (
        id INTEGER PRIMARY KEY,
        text_key TEXT NOT NULL UNIQUE,     -- where the encoder's cache will have the vector
        text TEXT NOT NULL,                -- what is to be encoded; gone as soon as it is
        tries INTEGER NOT NULL DEFAULT 0   -- how often the encoder refused it
    ) STRICT;
    """,
)
