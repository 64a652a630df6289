# shellcheck shell=sh
# On removal, not on upgrade: every wrapped program gets its name back, since a link to a cudawrap that is gone does not run.
# What cannot be undone stops the removal.
if [ "$1" -eq 0 ]; then
    if ! env -u GETGPU_CONFIG create-cudawrap --undo --all; then
        echo "getgpu: programs are still wrapped: create-cudawrap --status --all" >&2
        echo "getgpu: hint: unwrap them by hand, or forget them: rm /var/lib/getgpu/wrapped" >&2
        exit 1
    fi
fi
