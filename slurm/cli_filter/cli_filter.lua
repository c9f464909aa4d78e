-- For a site that has no cli_filter.lua. A site that has one adds the three lines marked (+); see docs/capture.md.

local _, capture = pcall(dofile, "/etc/slurm/slurmcast_capture.lua") -- (+)

function slurm_cli_setup_defaults()
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options)
  if type(capture) == "table" then pcall(capture.pre_submit, options) end -- (+)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id)
  if type(capture) == "table" then pcall(capture.post_submit, offset, job_id) end -- (+)
  return slurm.SUCCESS
end

return slurm.SUCCESS
