# shellcheck shell=sh
# On removal, not on upgrade: slurm.conf must name no hook, and every wrapped program gets its name back, since a link to a cudawrap that is gone does not run.
# What cannot be undone stops the removal.
if [ "$1" -eq 0 ]; then
    [ ! -x /usr/share/getgpu/slurm/in-use ] || /usr/share/getgpu/slurm/in-use || exit 1
    if [ -s /var/lib/getgpu/wrapped ] && ! env -u GETGPU_CONFIG create-cudawrap --undo --all; then
        echo "getgpu: some programs are still wrapped, for the reasons above; create-cudawrap --status --all shows them" >&2
        echo "getgpu: hint: mend that and try again; or keep the list of them for later: mv /var/lib/getgpu/wrapped /var/lib/getgpu/wrapped.kept" >&2
        exit 1
    fi
    echo "getgpu: programs that other users wrapped do not start without cudawrap; to get them back: mv -T CUDAWRAP_name name"
fi
