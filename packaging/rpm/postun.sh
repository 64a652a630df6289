# shellcheck shell=sh
# For the rpm by cargo-generate-rpm, which cannot list folders: on removal, those of this package that are empty now. Settings that were changed stay.
if [ "$1" -eq 0 ]; then
    rmdir /usr/lib/getgpu /usr/share/getgpu/slurm /usr/share/getgpu /usr/share/doc/getgpu/examples /usr/share/doc/getgpu /etc/getgpu 2>/dev/null || :
fi
