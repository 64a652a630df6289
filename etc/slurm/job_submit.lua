--[[
job_submit.lua for Slurm: has Slurm count the parts of devices that prolog gives out. It adds a counted gres to every job that asks for a part by
--constraint=gpushare4, --comment=gpushare4 or --gres=gpuquarter, and the constraint, by which the prolog knows the job. So squeue and scontrol show
the request, and a job waits in Slurm's queue until a node has a part left. The job's environment gets GETGPU_SLURM_PART, so that a task whose prolog
did not run sees no GPU; jobs of srun and salloc have no environment here.

It belongs beside slurm.conf on the controller's host, under this name. If the site has a job_submit.lua of its own, call `share_of_job` from it.

   # slurm.conf on all hosts: one size of parts per node, and as many as its devices have together
   JobSubmitPlugins=lua
   GresTypes=gpu,gpuhalf,gpuquarter,gpueighth
   NodeName=n[1-4] Features=gpushare4 Gres=gpuquarter:8 ...        # two devices in quarters
   NodeName=n[5-6] Features=gpushare2 Gres=gpuhalf:4 ...           # two devices in halves
   # gres.conf on all hosts
   NodeName=n[1-4] Name=gpuquarter Count=8 Flags=CountOnly
   NodeName=n[5-6] Name=gpuhalf Count=4 Flags=CountOnly

Parts of one size always fit until Slurm's count is used up. With two sizes on the same devices they may not, since Slurm counts the sizes independently.
]]

-- The constraint that `[slurm] shares` of config.toml knows, and the gres that counts it.
SHARES = {
    { feature = "gpushare2", gres = "gpuhalf" },
    { feature = "gpushare4", gres = "gpuquarter" },
    { feature = "gpushare8", gres = "gpueighth" },
}

-- How a request names a gres: `gres:` until Slurm 23.02; from 23.11 on (known by a constant that came with 23.11.2) that is refused.
local GRES = slurm.GRES_ALLOW_TASK_SHARING and "gres/" or "gres:"

-- Reservations (scontrol(1)) whose jobs alone may ask for a part, such as { "course", "jupyterhub_course_*" }; nil: all jobs may.
RESERVATIONS = nil

-- The whole words of a text that may be nil: `a&[b*2|c]` has a, b, 2 and c.
local function words(text)
    local found = {}
    for word in string.gmatch(text or "", "[%w_.-]+") do
        found[word] = true
    end
    return found
end

-- How many of this gres a list such as `gpu:2,gres/gpuquarter:1` asks for; nil if it does not name it.
local function count_of(name, list)
    for entry in string.gmatch(list or "", "[^,]+") do
        local kind, rest = string.match((string.gsub(entry, "^gres[:/]", "")), "^([^:=]+)[:=]?(.*)$")
        if kind == name then
            return rest == "" and 1 or tonumber(rest) or 0
        end
    end
    return nil
end

local function joined(list, entry, separator)
    if list == nil or list == "" then
        return entry
    end
    return list .. separator .. entry
end

-- Whether a job of this reservation may ask for a part.
local function is_reserved(reservation)
    for _, allowed in ipairs(RESERVATIONS or {}) do
        local pattern = "^" .. string.gsub(string.gsub(allowed, "%p", "%%%0"), "%%%*", ".*") .. "$"
        for named in pairs(words(reservation)) do
            if string.find(named, pattern) then
                return true
            end
        end
    end
    return RESERVATIONS == nil
end

-- Completes a job's request for a part; nil if it asks for none, else slurm.SUCCESS or slurm.ERROR. `job_desc` is that of slurm_job_submit.
function share_of_job(job_desc)
    local features, comment = words(job_desc.features), words(job_desc.comment)
    local share, count
    for _, known in ipairs(SHARES) do
        local wanted = count_of(known.gres, job_desc.tres_per_node)
        if features[known.feature] or comment[known.feature] or wanted then
            if share then
                slurm.log_user("a job can have a part of one size only: " .. share.feature .. " or " .. known.feature)
                return slurm.ERROR
            end
            share, count = known, wanted
        end
        for _, other in ipairs({ "tres_per_job", "tres_per_socket", "tres_per_task" }) do
            if count_of(known.gres, job_desc[other]) then
                slurm.log_user(known.gres .. " is counted per node: use --gres=" .. known.gres)
                return slurm.ERROR
            end
        end
    end
    if not share then
        return nil
    end
    if not is_reserved(job_desc.reservation) then
        slurm.log_user("parts of a GPU are for jobs of a reservation: --reservation=" .. table.concat(RESERVATIONS, " or "))
        return slurm.ERROR
    end
    if count and count ~= 1 then
        slurm.log_user("a job can have one part per node: use --gres=" .. share.gres .. ":1, or a larger part")
        return slurm.ERROR
    end
    -- `a|gpushare4` could start on a node without parts, where the count would keep it waiting for ever.
    if string.find(job_desc.features or "", "[|%[%]]") then
        slurm.log_user("with a part of a GPU, join constraints by & only: --constraint=\"" .. share.feature .. "&...\"")
        return slurm.ERROR
    end
    if not count then
        job_desc.tres_per_node = joined(job_desc.tres_per_node, GRES .. share.gres .. ":1", ",")
    end
    if not features[share.feature] then
        job_desc.features = joined(job_desc.features, share.feature, "&")
    end
    -- Of other jobs Slurm tells no environment, and logs an error where one is set.
    if (job_desc.script or "") ~= "" then
        job_desc.environment["GETGPU_SLURM_PART"] = share.feature
        -- srun --export=NONE in the job's script leaves variables of Slurm's alone.
        job_desc.environment["SLURM_GETGPU_PART"] = share.feature
    end
    return slurm.SUCCESS
end

function slurm_job_submit(job_desc, _, _)
    return share_of_job(job_desc) or slurm.SUCCESS
end

-- Whether a request names a part of a device.
local function names_part(request)
    for _, known in ipairs(SHARES) do
        if words(request.features)[known.feature] or count_of(known.gres, request.tres_per_node) then
            return true
        end
    end
    return false
end

-- A part is fixed at submission: `scontrol update` could take the count, or the constraint, away and keep the other.
function slurm_job_modify(job_desc, job_rec, _, _)
    local changed = job_desc.features ~= nil or job_desc.tres_per_node ~= nil
        or (RESERVATIONS ~= nil and job_desc.reservation ~= nil)
    if names_part(job_desc) or (changed and names_part(job_rec)) then
        slurm.log_user("a part of a GPU cannot be changed after submission: submit the job again")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

return slurm.SUCCESS
