# shellcheck shell=sh
# For the rpm by cargo-generate-rpm, which cannot list folders: on removal, those of this package that are empty now. Settings that were changed stay.
if [ "$1" -eq 0 ]; then
    for folder in /usr/lib/getgpu /usr/share/getgpu/slurm /usr/share/getgpu/python/src/cudawrap /usr/share/getgpu/python/src /usr/share/getgpu/python \
        /usr/share/getgpu /usr/share/doc/getgpu/examples /usr/share/doc/getgpu/docs /usr/share/doc/getgpu/etc/slurm /usr/share/doc/getgpu/etc \
        /usr/share/doc/getgpu/packaging/python /usr/share/doc/getgpu/packaging /usr/share/doc/getgpu/common /usr/share/doc/getgpu/tests \
        /usr/share/doc/getgpu /etc/getgpu; do
        rmdir "$folder" 2>/dev/null || :
    done
fi
