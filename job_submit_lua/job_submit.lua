-- For a site that has no job_submit.lua. A site that has one adds the two lines marked (+); see docs/hook.md.

local _, slurmcast = pcall(dofile, "/etc/slurm/slurmcast.lua") -- (+)
if type(slurmcast) ~= "table" then slurm.log_info("slurmcast is off: %s", tostring(slurmcast)) end

function slurm_job_submit(job_desc, part_list, submit_uid)
  if type(slurmcast) == "table" then pcall(slurmcast.submit, job_desc, part_list, submit_uid) end -- (+)
  return slurm.SUCCESS
end

function slurm_job_modify()
  return slurm.SUCCESS
end

return slurm.SUCCESS
