-- slurmcast's part of cli_filter.lua: after sbatch has submitted a job that asks for GPUs, starts `slurmcast capture` in
-- the background, with the user's rights, which hands the files that the job's script starts to slurmcastd. Standard
-- library only (Lua 5.1 to 5.4); sbatch waits for one fork and one exec, and whatever goes wrong it goes on as if this
-- file weren't there. docs/capture.md says how to use it.

local M = {
  command = "/usr/bin/slurmcast",
  seconds = 60, -- then the command is ended
  gpu_jobs_only = true, -- false where the site's job_submit.lua adds the GPUs
}

-- What runs in the background, with the command, the seconds and the job's id as arguments. However many jobs a user
-- submits in a loop, one process hands over and at most one more waits for its turn: each job leaves its id in a folder
-- of the user's own, and whoever has the turn takes all that are there. The folder may lie in /tmp, so it is entered
-- first and then looked at: it must be no link of somebody else's. No file descriptor is kept: neither a pipe that sbatch
-- writes to nor an ssh session waits for this.
local BACKGROUND = [=[
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || eval "exec $fd>&-"
  done
  umask 077
  [ -O "$XDG_RUNTIME_DIR" ] && cd -P "$XDG_RUNTIME_DIR" || cd -P /tmp || exit
  folder=$PWD/slurmcast-capture-$EUID
  mkdir "$folder"
  cd -P "$folder" && [ "$PWD" = "$folder" ] && [ -O . ] && : > "$2" || exit
  exec 8> next && flock -n 8 || exit
  exec 9> turn && flock 9 || exit
  exec 8>&-
  while jobs=([0-9]*) && [ -e "${jobs[0]}" ]; do
    rm -f -- "${jobs[@]}"
    nice timeout -k 5 "$1" "$0" capture "${jobs[@]}" 9>&-
  done
]=]

local GPUS = { "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task" }
local TRES = { "gres", "tres-per-task" }

local function asks_for_gpus(options)
  for _, name in ipairs(GPUS) do
    if options[name] then return true end
  end
  for _, name in ipairs(TRES) do
    if string.find(options[name] or "", "gpu", 1, true) then return true end
  end
  return (tonumber(options["ntasks-per-gpu"]) or 0) > 0 -- Slurm says -2 where it wasn't given
end

local function says_off(options)
  return string.find(" " .. (options.comment or "") .. " ", "[%s,;]slurmcast:off[%s,;]") ~= nil
end

local function is_wanted(options)
  return options.type == "sbatch" and os.getenv("SLURMCAST_CAPTURE") ~= "0" and not says_off(options)
    and (not M.gpu_jobs_only or asks_for_gpus(options))
end

local function quoted(word)
  return "'" .. string.gsub(word, "'", "'\\''") .. "'"
end

local function start(job_id)
  local command = io.open(M.command, "rb")
  if not command then return end -- slurmcast isn't on this host
  command:close()
  -- HUP: the terminal may go with sbatch, before the session is one of its own. A clean environment: the user's (BASH_ENV,
  -- PYTHONPATH, LD_LIBRARY_PATH, ...) is meant for his own programs.
  os.execute("trap '' HUP; /usr/bin/env -i PATH=/usr/bin:/bin XDG_RUNTIME_DIR=\"$XDG_RUNTIME_DIR\" setsid bash -c "
    .. quoted(BACKGROUND) .. " " .. quoted(M.command) .. " " .. string.format("%d %.0f", M.seconds, job_id)
    .. " < /dev/null > /dev/null 2>&1 &")
end

local wanted = false

-- To be called with the arguments of slurm_cli_pre_submit. Returns nothing, never raises, changes no option.
function M.pre_submit(options)
  local ok, answer = pcall(is_wanted, options)
  wanted = wanted or (ok and answer)
end

-- To be called with the arguments of slurm_cli_post_submit. Returns nothing, never raises. A heterogeneous job is one job.
function M.post_submit(_, job_id)
  if wanted then pcall(start, job_id) end
  wanted = false
end

return M
