"""The store's tables. Each migration is applied once, in order; ``PRAGMA user_version`` counts them."""

MIGRATIONS = (
    """
    CREATE TABLE submission (
        id INTEGER PRIMARY KEY,
        spool_name TEXT UNIQUE,            -- claims a spool file once, also over a restart; NULL for scripts read back
        uid INTEGER NOT NULL,
        user TEXT NOT NULL,
        name TEXT NOT NULL,
        submit_time INTEGER NOT NULL,
        begin_time INTEGER NOT NULL,       -- the grace that the hook gave, 0: none
        script_sha256 TEXT NOT NULL,
        complete INTEGER NOT NULL,         -- 0: the hook cut the script
        key TEXT NOT NULL,                 -- identity of the work: model.Reading.key
        reading TEXT NOT NULL,             -- model.Reading as JSON, without its text
        text_key TEXT NOT NULL,            -- where the encoder's cache has the vector
        named TEXT,                        -- partitions that the user named, NULL: none
        arguments TEXT NOT NULL,           -- argv[1:] as a JSON list
        script BLOB,                       -- only with daemon.keep_scripts
        job_id INTEGER,                    -- the job that it became, once known
        final INTEGER NOT NULL DEFAULT 0   -- 1: estimated by the present model, or the prior where there is none
    ) STRICT;
    CREATE INDEX submission_match ON submission (uid, submit_time);
    CREATE INDEX submission_job ON submission (job_id, submit_time);
    CREATE TABLE estimate (
        submission INTEGER NOT NULL REFERENCES submission (id) ON DELETE CASCADE,
        partition TEXT NOT NULL,
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
        decision TEXT,                     -- the last model.Decision as JSON
        PRIMARY KEY (cluster, job_id, submit_time)
    ) STRICT;
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
        outcome TEXT NOT NULL,             -- model.Outcome as JSON
        PRIMARY KEY (cluster, job_id, submit_time, start_time)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE kappa (
        at REAL NOT NULL,
        value REAL NOT NULL,
        by TEXT NOT NULL
    ) STRICT;
    """,
)
