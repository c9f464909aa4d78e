-- :rows accounting rows of one cluster's past in Slurm 26.05's own tables: a fifth on a partition that slurmcast doesn't
-- manage, a fifth tasks of arrays of 20, one in seven failed, one in 50 requeued before, one in ten without a script.
SET @step = 80, @from = :from;
SET @assoc = (SELECT min(id_assoc) FROM lab_assoc_table WHERE user = 'alice');

INSERT INTO lab_job_script_table (script_hash, batch_script)
SELECT concat('2:bench', seq), concat(
    '#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --time=60\nmodule load cuda\nsource venv/bin/activate\n',
    repeat('# what somebody wrote down about this experiment\n', 30),
    'python train.py --model net', seq, ' --epochs ', seq % 50 + 1, ' --batch-size 64 "$@"\n')
FROM seq_1_to_500;
INSERT INTO lab_job_env_table (env_hash, env_vars)
SELECT concat('2:bench', seq), concat(repeat('SOME_VARIABLE=some value, as modules leave many\n', 80), 'EPOCHS=', seq % 7 + 1)
FROM seq_1_to_50;
SET @script = (SELECT min(hash_inx) FROM lab_job_script_table WHERE script_hash LIKE '2:bench%'),
    @env = (SELECT min(hash_inx) FROM lab_job_env_table WHERE env_hash LIKE '2:bench%');

INSERT INTO lab_job_table (job_db_inx, mod_time, account, cpus_req, job_name, id_assoc, id_job, id_array_job, id_array_task,
    id_qos, id_resv, id_wckey, id_user, id_group, het_job_id, het_job_offset, state_reason_prev, nodes_alloc, `partition`,
    priority, script_hash_inx, env_hash_inx, state, timelimit, time_submit, time_eligible, time_start, time_end, work_dir,
    submit_line, tres_alloc, tres_req, nodelist, node_inx, flags, exclusive, oversubscribe)
SELECT 1000000 + seq, 0, 'research', 4, 'train.sh', @assoc, 1000000 + seq,
    if(seq % 100 < 20, 1000000 + seq - seq % 100, 0), if(seq % 100 < 20, seq % 100, 4294967294),
    1, 0, 0, 1000, 1000, 0, 4294967294, 0, 1, if(seq % 5 = 4, 'cpu', if(seq % 2, 'a100', 'a6000')),
    2000, if(seq div 10 % 10 = 8, 0, @script + seq div 20 * 7 % 500), if(seq div 10 % 10 = 8, 0, @env + seq div 20 * 7 % 50),
    if(seq % 7 = 0, 5, 3), 60, at - if(seq % 100 < 20, seq % 100 * @step, 0), at, at + 100, at + 700 + seq % 3000,
    '/home/alice', concat('sbatch train.sh --seed ', seq div 100 % 10),
    '1=4,2=64000,4=1,5=4,1001=1,1002=1', '1=4,2=64000,4=1,5=4,1001=1', 'a100-1', '0', 24, 'NO', 'NO'
FROM (SELECT seq, @from + seq * @step AS at FROM seq_1_to_:rows) AS numbered;

-- The runs before a requeue: the same job's, submitted, begun and ended an hour earlier.
INSERT INTO lab_job_table (job_db_inx, mod_time, account, cpus_req, job_name, id_assoc, id_job, id_qos, id_resv, id_wckey,
    id_user, id_group, het_job_id, het_job_offset, state_reason_prev, nodes_alloc, `partition`, priority, script_hash_inx,
    env_hash_inx, state, timelimit, time_submit, time_eligible, time_start, time_end, work_dir, submit_line, tres_alloc,
    tres_req, nodelist, node_inx, flags, exclusive, oversubscribe)
SELECT job_db_inx + 10000000, 0, account, cpus_req, job_name, id_assoc, id_job, id_qos, 0, 0, id_user, id_group, 0,
    het_job_offset, 0, 1, `partition`, priority, script_hash_inx, env_hash_inx, 1024, timelimit, time_submit - 3600,
    time_submit - 3600, time_submit - 3590, time_submit - 3000, work_dir, submit_line, tres_alloc, tres_req, nodelist,
    node_inx, 24, 'NO', 'NO'
FROM lab_job_table WHERE id_job > 1000000 AND id_job % 50 = 25 AND id_array_job = 0;
