-- slurmcast's part of job_submit.lua. It hands batch scripts that ask for GPUs to slurmcastd, through a spool folder, and
-- gives a job that may move a short grace, under a fresh lease of the agent only. Pure Lua (5.1 to 5.4), bounded work, and
-- whatever goes wrong: the submission goes on as if this file weren't there. See docs/hook.md.
--
-- usage, in job_submit.lua:   local ok, slurmcast = pcall(dofile, "/etc/slurm/slurmcast.lua")
--                             if ok then slurmcast.submit(job_desc, part_list, submit_uid) end

local M = {
  spool = "/run/slurmcast/spool",
  lease = "/run/slurmcast/lease",
  max_script = 256 * 1024, -- bytes; the rest is fetched from Slurm by the agent
  max_grace = 60, -- seconds, whatever the lease says
  stale_after = 3600, -- seconds after which a run-out lease means: nobody is there, write nothing
  environment = { -- names worth knowing; nothing else of the user's environment leaves slurmctld
    "EPOCHS", "NUM_EPOCHS", "MAX_EPOCHS", "STEPS", "MAX_STEPS", "ITERATIONS", "BATCH_SIZE", "BATCH", "MODEL", "DATASET",
    "SEQ_LEN", "IMAGE_SIZE", "NUM_SAMPLES", "SAMPLES", "CONFIG", "SCRIPT", "TASK",
  },
  no_grace_partitions = {}, -- names
  no_grace_qos = {},
  now = os.time,
}

local NO_VAL, NO_VAL64 = 4294967294, 18446744073709551614
local REQUEST = {
  "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "min_nodes", "max_nodes", "num_tasks",
  "ntasks_per_node", "cpus_per_task", "min_cpus", "pn_min_memory", "time_limit", "features", "account", "qos", "comment",
}

-- A field of the job description, or nil where the user gave none: Slurm has several ways to say so.
local function given(job_desc, name)
  local value = job_desc[name]
  if value == nil or value == "" or value == NO_VAL or value == NO_VAL64 or value == 65534 then return nil end
  if type(value) == "number" and (value >= NO_VAL or value ~= value) then return nil end
  return value
end

local function text(value)
  if type(value) == "number" then return string.format("%.0f", value) end
  return tostring(value)
end

-- "gpu", "shared" (shard, mps, MIG) or nil; and whether the GPUs' type is named.
local function gpu_request(job_desc)
  local kind, typed
  for _, name in ipairs({ "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }) do
    for item in string.gmatch(tostring(given(job_desc, name) or ""), "[^,]+") do
      item = item:gsub("^gres[:/]", "")
      local what = item:match("^[%a_]+")
      if what == "shard" or what == "mps" then
        kind = "shared"
      elseif what == "gpu" then
        kind = kind or "gpu"
        if item:match("^gpu[:/]%D") then typed = true end
        if item:match("%dg%.%d") then kind = "shared" end
      end
    end
  end
  return kind, typed
end

local function listed(names, value)
  for _, name in ipairs(names) do
    if name == value then return true end
  end
  return false
end

-- mode, valid_until, grace of the agent's lease, or nil.
local function read_lease()
  local file = io.open(M.lease, "rb")
  if not file then return nil end
  local line = file:read(64)
  file:close()
  local mode, valid_until, grace = string.match(line or "", "^(%a+) (%d+) (%d+)\n")
  if not mode then return nil end
  return mode, tonumber(valid_until), tonumber(grace)
end

local function field(parts, name, value)
  value = text(value)
  parts[#parts + 1] = name .. " " .. #value .. "\n" .. value .. "\n"
end

local function closed_by_nul(values)
  local parts = {}
  for n, value in ipairs(values) do parts[n] = text(value) .. "\0" end
  return table.concat(parts)
end

local function arguments(job_desc)
  local values, argv = {}, job_desc.argv
  local count = math.min(tonumber(job_desc.argc) or 0, 1000)
  if argv then
    for n = 0, count - 1 do values[#values + 1] = argv[n] or "" end
  end
  return closed_by_nul(values)
end

local function environment(job_desc)
  local values, env = {}, job_desc.environment
  if env then
    for _, name in ipairs(M.environment) do
      local value = env[name]
      if value ~= nil and value ~= "" then values[#values + 1] = name .. "=" .. tostring(value) end
    end
  end
  return closed_by_nul(values)
end

local function message(job_desc, submit_uid, now, begin_time)
  local script = job_desc.script
  local parts = { "slurmcast-spool 1\n" }
  field(parts, "submit_time", now)
  field(parts, "uid", submit_uid)
  field(parts, "user", job_desc.user_name or "")
  field(parts, "name", job_desc.name or "")
  if given(job_desc, "partition") then field(parts, "partition", job_desc.partition) end
  if begin_time then field(parts, "begin_time", begin_time) end
  field(parts, "work_dir", job_desc.work_dir or "")
  field(parts, "array", given(job_desc, "array_inx") or "")
  field(parts, "argv", arguments(job_desc))
  field(parts, "environment", environment(job_desc))
  for _, name in ipairs(REQUEST) do
    local value = given(job_desc, name)
    if value ~= nil then field(parts, "request." .. name, value) end
  end
  field(parts, "script_size", #script)
  field(parts, "script", string.sub(script, 1, M.max_script))
  parts[#parts + 1] = "end\n"
  return table.concat(parts)
end

-- Written under a name that the daemon passes over, then renamed: the daemon never sees half a file. Every step is checked,
-- since a full tmpfs shows only at flush or close.
local count = 0
local salt = tostring({}):gsub("[^%x]", "") .. string.format("%.0f", os.clock() * 1e6) -- differs between processes
local function spool(content, now)
  count = count + 1
  local name = string.format("%.0f-%s-%d", now, salt, count)
  local temporary = M.spool .. "/." .. name
  local file = io.open(temporary, "wb")
  if not file then return false end
  local written = file:write(content)
  local closed = file:close()
  if written and closed and os.rename(temporary, M.spool .. "/" .. name .. ".job") then return true end
  os.remove(temporary)
  return false
end

-- The begin time for a job that may move, or nil.
local function grace_until(job_desc, mode, valid_until, grace, now, kind, typed)
  if mode ~= "on" or now > valid_until or grace < 1 or kind ~= "gpu" or typed then return nil end
  if (given(job_desc, "begin_time") or 0) ~= 0 or (given(job_desc, "deadline") or 0) ~= 0 then return nil end
  if given(job_desc, "dependency") or given(job_desc, "reservation") then return nil end
  local partition = given(job_desc, "partition")
  if partition and not string.find(partition, ",", 1, true) then return nil end
  if listed(M.no_grace_qos, job_desc.qos) then return nil end
  for _, name in ipairs(M.no_grace_partitions) do
    if partition and string.find("," .. partition .. ",", "," .. name .. ",", 1, true) then return nil end
  end
  if job_desc.priority == 0 then return nil end -- submitted held
  return now + math.min(grace, M.max_grace)
end

local function submit(job_desc, submit_uid)
  local script = job_desc.script
  if type(script) ~= "string" or script == "" then return end
  local kind, typed = gpu_request(job_desc)
  if not kind then return end
  if string.find(job_desc.comment or "", "slurmcast:off", 1, true) then return end
  local mode, valid_until, grace = read_lease()
  local now = M.now()
  if not mode or mode == "off" or now > valid_until + M.stale_after then return end
  local begin_time = grace_until(job_desc, mode, valid_until, grace, now, kind, typed)
  -- A job that nobody knows of must not wait: the grace is given only where the spool took the file.
  if spool(message(job_desc, submit_uid, now, begin_time), now) and begin_time then job_desc.begin_time = begin_time end
end

-- To be called for every submission. Never raises, never refuses: there is no value to return.
function M.submit(job_desc, _, submit_uid)
  local ok, problem = pcall(submit, job_desc, submit_uid)
  if not ok then pcall(function() slurm.log_info("slurmcast: %s", tostring(problem)) end) end
end

return M
