# shellcheck shell=sh
# A device for every login at a terminal, kept until that shell ends. It does nothing where it is installed; a site that wants it copies it
# to /etc/profile.d/getgpu.sh. Consider first that every login at a terminal then holds a device, whether it uses it or not. `max_per_user` and `max_hold` in
# /etc/getgpu/config.toml set limits; wrapped programs (create-cudawrap) take one only while they run, and are better for most sites.
#
# It does nothing and prints nothing for a shell that is not interactive or has no terminal (scp, rsync, cron, a command over ssh,
# a desktop's session), in a batch job, for root, if CUDA_VISIBLE_DEVICES is already set (a shell inside such a shell), if
# ~/.config/getgpu/no-login exists, or on a node without NVIDIA's driver. It delays a login by at most five seconds,
# and if no device is free the variable stays unset. For sh, bash, dash, ksh and zsh; csh and tcsh do not read it.

case $- in
*i*)
    if [ -t 0 ] && [ -t 2 ] && [ -z "${CUDA_VISIBLE_DEVICES+set}" ] &&
        [ -z "${SLURM_JOB_ID-}${PBS_JOBID-}${LSB_JOBID-}" ] && [ "$(id -u)" -ne 0 ] &&
        [ ! -e "${XDG_CONFIG_HOME:-${HOME-}/.config}/getgpu/no-login" ] && [ -e /proc/driver/nvidia/version ] &&
        command -v getgpu >/dev/null 2>&1; then
        # By pid, since timeout(1), and not this shell, starts getgpu.
        if getgpu_device=$(timeout 5 getgpu --quiet --hold=$$); then
            export CUDA_VISIBLE_DEVICES="$getgpu_device"
            echo "getgpu: device $getgpu_device is reserved for this shell" >&2
        else
            echo "getgpu: no device is reserved for this shell; when one is free: export CUDA_VISIBLE_DEVICES=\$(getgpu --hold)" >&2
        fi
        unset getgpu_device
    fi
    ;;
esac
