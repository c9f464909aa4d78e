-- slurmcast's part of job_submit.lua: hands batch scripts that ask for GPUs to slurmcastd, through files in a spool,
-- and gives a job that may move a short grace, as long as the agent's lease is fresh. Standard library only (Lua 5.1
-- to 5.4), a bounded amount of work, and whatever goes wrong the submission goes on as if this file weren't there.
-- docs/hook.md says how to use it, docs/architecture.md how lease and spool files look.

local M = {
  spool = "/run/slurmcast/spool",
  lease = "/run/slurmcast/lease",
  max_script = 256 * 1024, -- bytes; the agent fetches longer scripts from Slurm
  max_field = 32 * 1024, -- bytes of any other field
  max_arguments = 1000,
  max_grace = 60, -- seconds, whatever the lease says
  stale_after = 3600, -- seconds after which a run-out lease means that nobody reads the spool
  max_ahead = 86400, -- seconds; a lease that holds for longer is garbage, or the clock was set back
  no_grace_partitions = {}, -- names
  no_grace_qos = {},
  environment = { -- names; nothing else of the user's environment leaves slurmctld
    "EPOCHS", "NUM_EPOCHS", "MAX_EPOCHS", "STEPS", "NUM_STEPS", "MAX_STEPS", "ITERS", "NUM_ITERS", "ITERATIONS",
    "UPDATES", "MAX_UPDATES", "TIMESTEPS", "EPISODES", "KIMG", "TOKENS", "HOURS", "TRIALS", "BATCH_SIZE", "BATCH",
    "MODEL", "DATASET", "SEQ_LEN", "IMAGE_SIZE", "NUM_SAMPLES", "SAMPLES", "CONFIG", "SCRIPT", "TASK",
  },
}

local NO_VAL16, NO_VAL = 65534, 4294967294 -- how Slurm spells "not given"
local SHORT = { ntasks_per_node = true, ntasks_per_gpu = true, cpus_per_task = true } -- 16 bits wide
local TRES = { "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }
local REQUEST = {
  "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "ntasks_per_gpu", "min_nodes", "max_nodes",
  "num_tasks", "ntasks_per_node", "cpus_per_task", "min_cpus", "min_mem_per_node", "min_mem_per_cpu", "mem_per_tres",
  "time_limit", "features", "account", "qos", "comment",
}
-- Whoever gives one of these has said where or when the job is to run. Priority: held, or set by an operator.
local FIXED = { "dependency", "reservation", "req_nodes", "priority", "het_job_offset" }

-- A field of the job description, nil where it was not given.
local function given(job_desc, name)
  local value = job_desc[name]
  if value ~= "" and value ~= (SHORT[name] and NO_VAL16 or NO_VAL) then return value end
end

local function words(text, separators)
  return string.gmatch(string.sub(text or "", 1, 4096), "[^" .. separators .. "]+")
end

local function is_one_of(names, value)
  for _, name in ipairs(names) do
    if name == value then return true end
  end
  return false
end

-- One resource of a TRES list, such as gres/gpu:a100:2: "gpu", "shared" (part of a GPU) or nil; whether it has a type.
local function gpu_resource(resource)
  local parts = {}
  for part in words(resource:gsub("^gres[:/]", ""), ":=") do parts[#parts + 1] = part end
  local name, last = parts[1], parts[#parts]
  local count = #parts > 1 and last:match("^(%d+)%a?$")
  if tonumber(count) == 0 then return nil end
  if name == "shard" or name == "mps" then return "shared" end
  if name ~= "gpu" then return nil end
  local typed = #parts > (count and 2 or 1)
  return typed and parts[2]:find("%dg%.%d+gb") and "shared" or "gpu", typed -- MIG: 1g.5gb, a100_3g.20gb
end

-- What the job asks for: "gpu", "shared" or nil; whether GPUs of one type.
local function gpu_request(job_desc)
  local kind, typed = given(job_desc, "ntasks_per_gpu") and "gpu", false
  for _, name in ipairs(TRES) do
    for resource in words(given(job_desc, name), ",%s") do
      local found, has_type = gpu_resource(resource)
      if kind ~= "shared" then kind = found or kind end
      typed = typed or has_type
    end
  end
  return kind, typed
end

-- Whether the comment has the word, alone or among others: --comment="project x, slurmcast:off".
local function says(job_desc, word)
  return string.find(" " .. (job_desc.comment or "") .. " ", "[%s,;]" .. word .. "[%s,;]") ~= nil
end

-- The grace that the agent's lease allows now, in seconds, 0 for none; nil where nobody is there to read the spool.
local function lease(now)
  local file = io.open(M.lease, "rb")
  if not file then return nil end
  local line = file:read(64)
  file:close()
  local mode, valid_until, grace = string.match(line or "", "^(%l+) (%d+) (%d+)\n")
  if mode ~= "on" and mode ~= "shadow" then return nil end
  local left = tonumber(valid_until) - now
  if left < -M.stale_after or left > M.max_ahead then return nil end
  return mode == "on" and left >= 0 and math.min(tonumber(grace), M.max_grace) or 0
end

local function partition_without_grace(job_desc, part_list)
  local partitions = given(job_desc, "partition")
  if not partitions then
    for name, partition in pairs(part_list or {}) do
      if partition.flag_default == 1 then partitions = name end
    end
  end
  for name in words(partitions, ",") do
    if is_one_of(M.no_grace_partitions, name) then return true end
  end
  return false
end

local function qos_without_grace(job_desc)
  if #M.no_grace_qos == 0 then return false end
  return is_one_of(M.no_grace_qos, given(job_desc, "qos") or job_desc.default_qos)
end

-- Whether the user left open where and when the job is to run; only then has the agent a choice for which to wait.
local function is_free(job_desc, script)
  if job_desc.begin_time ~= 0 then return false end
  for _, name in ipairs(FIXED) do
    if given(job_desc, name) then return false end
  end
  -- The description doesn't show a deadline; with one, Slurm refuses a job that begins too late for its time limit.
  if string.find(script, "--deadline", 1, true) then return false end
  local partition = given(job_desc, "partition")
  return not partition or string.find(partition, ",", 1, true) ~= nil or says(job_desc, "slurmcast:move")
end

-- The values, each closed by a NUL, as many as fit into a field.
local function list(values)
  local parts, size = {}, 0
  for _, value in ipairs(values) do
    size = size + #value + 1
    if size > M.max_field then break end
    parts[#parts + 1] = value .. "\0"
  end
  return table.concat(parts)
end

local function arguments(job_desc)
  local values, argv = {}, job_desc.argv or {}
  for n = 0, M.max_arguments - 1 do -- Slurm counts from 0
    if argv[n] == nil then break end
    values[n + 1] = argv[n]
  end
  return list(values)
end

local function environment(job_desc)
  local values, env = {}, job_desc.environment or {}
  for _, name in ipairs(M.environment) do
    local value = env[name]
    if value then values[#values + 1] = name .. "=" .. value end
  end
  return list(values)
end

-- The spool file's content. No user name: Slurm would look it up right now, and a directory service can hang.
local function message(job_desc, submit_uid, now, begin_time, script, script_size)
  local parts = { "slurmcast-spool 1\n" }
  local function field(name, value, most)
    if value == nil then return end
    local text = type(value) == "number" and string.format("%.0f", value) or tostring(value)
    text = string.sub(text, 1, most or M.max_field)
    parts[#parts + 1] = name .. " " .. #text .. "\n" .. text .. "\n"
  end
  field("submit_time", now)
  field("uid", given(job_desc, "user_id") or submit_uid) -- they differ under root's sbatch --uid
  field("name", job_desc.name or "")
  field("partition", given(job_desc, "partition"))
  field("begin_time", begin_time)
  field("work_dir", job_desc.work_dir or "")
  field("array", job_desc.array_inx or "")
  field("argv", arguments(job_desc))
  field("environment", environment(job_desc))
  for _, name in ipairs(REQUEST) do field("request." .. name, given(job_desc, name)) end
  field("script_size", script_size)
  field("script", script, M.max_script)
  parts[#parts + 1] = "end\n"
  return table.concat(parts)
end

-- assert for what the admin should read: without a line number.
local function must(value, problem)
  if not value then error(problem, 0) end
  return value
end

-- A name that sorts by time, that no controller gives twice, and that nobody who may write to the spool can foresee:
-- opening a file for writing follows links.
local count = 0
local function new_name(now)
  local file = must(io.open("/dev/urandom", "rb"))
  file:setvbuf("no")
  local random = must(file:read(8), "/dev/urandom is empty")
  file:close()
  count = count + 1
  return string.format("%.0f-%06d-", now, count) .. random:gsub(".", function(byte)
    return string.format("%02x", byte:byte())
  end)
end

-- Written under a name that the daemon passes over, then renamed, so that it never sees half a file. Raises where that
-- fails: a full spool shows at write, or only at close.
local function spool(content, now)
  local name = new_name(now)
  local temporary = M.spool .. "/." .. name
  local file = must(io.open(temporary, "wb"))
  local written, write_problem = file:write(content)
  local closed, close_problem = file:close()
  if written and closed and os.rename(temporary, M.spool .. "/" .. name .. ".job") then return end
  os.remove(temporary)
  error(M.spool .. ": " .. (write_problem or close_problem or "the file can't be renamed"), 0)
end

local function submit(job_desc, part_list, submit_uid)
  local kind, typed = gpu_request(job_desc)
  if not kind or says(job_desc, "slurmcast:off") then return end
  local now = os.time()
  local grace = lease(now)
  if not grace then return end
  local whole = given(job_desc, "script")
  if not whole then return end -- srun, salloc
  local script = string.sub(whole, 1, M.max_script)
  local begin_time
  if grace > 0 and kind == "gpu" and not typed and is_free(job_desc, script)
    and not partition_without_grace(job_desc, part_list) and not qos_without_grace(job_desc) then
    begin_time = now + grace
  end
  spool(message(job_desc, submit_uid, now, begin_time, script, #whole), now)
  if begin_time then job_desc.begin_time = begin_time end -- last: a job that nobody knows of must not wait
end

local next_report = 0
local function report(problem)
  if os.time() < next_report then return end
  next_report = os.time() + 60
  slurm.log_info("slurmcast: %s", tostring(problem))
end

-- To be called for every submission, with the arguments of slurm_job_submit. Returns nothing, never raises.
function M.submit(job_desc, part_list, submit_uid)
  local ok, problem = pcall(submit, job_desc, part_list, submit_uid)
  if not ok then pcall(report, problem) end
end

return M
