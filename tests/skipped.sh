#!/usr/bin/env bash
# Says what `make check` could not run on this machine, so that nothing is skipped silently.
missing=()
for tool in strace zsh fish tcsh dash mandoc setpriv unshare taskset python3 nvidia-cuda-mps-control slurmctld slurmd srun \
    mpirun.openmpi mpiexec.hydra cargo-deb cargo-generate-rpm cargo-zigbuild rpm rpmbuild rpmlint lintian debootstrap eb ruff \
    ctest podman crun bwrap torchrun; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
/usr/bin/python3 -c 'import jupyter_client, ipykernel' 2>/dev/null || missing+=("python3-jupyter-client and python3-ipykernel")
[ "$(id -u)" = 0 ] || missing+=("root (other users, mounts, namespaces)")
if [ ${#missing[@]} -gt 0 ]; then
    printf 'SKIPPED: tests that need %s\n' "${missing[@]}"
fi
exit 0
