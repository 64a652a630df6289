# shellcheck shell=sh
# Every CUDA program of a login takes a free device at its first CUDA call and holds it until it exits (docs/AUTO.md). It does nothing
# where it is installed; a site that wants it copies it to /etc/profile.d/cudawrap.sh. `auto = "off"` in /etc/getgpu/config.toml turns
# it off at once. A variable that is set already, by a profiler or the user, stays unchanged.

if [ -z "${CUDA_INJECTION64_PATH+set}" ]; then
    for getgpu_library in /usr/lib/getgpu/libcudawrap.so /usr/local/lib/getgpu/libcudawrap.so; do
        if [ -e "$getgpu_library" ]; then
            export CUDA_INJECTION64_PATH="$getgpu_library"
            break
        fi
    done
    unset getgpu_library
fi
