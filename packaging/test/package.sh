#!/usr/bin/env bash
# A package's whole life on a machine of its own: an overlay over this one, whose own dpkg, settings and lock stay as they are.
# package.sh [--clean] FIRST SECOND PROGRAMS: installs the first .deb or .rpm, runs the main job, upgrades to the second and removes it. Root only.
# With --clean, for .deb: on a system of Debian's essential packages and nothing else (debootstrap), so that what it depends on has to be complete.
set -euo pipefail

if [ -z "${GETGPU_PACKAGE_APART-}" ]; then
    exec env GETGPU_PACKAGE_APART=1 unshare --mount --propagation private "$0" "$@"
fi
clean=
if [ "${1-}" = --clean ]; then clean=1; shift; fi
[ $# = 3 ] || { echo "usage: package.sh [--clean] FIRST SECOND DIRECTORY-OF-PROGRAMS" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
kind=${1##*.}

room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-package.XXXXXX")
cleanup() { umount -l "$room" 2>/dev/null || true; rmdir "$room" 2>/dev/null || true; }
trap cleanup EXIT
mount -t tmpfs -o mode=0755 none "$room"
mkdir "$room"/{upper,work,root}
if [ -n "$clean" ]; then
    [ "$kind" = deb ] || { echo "package.sh: --clean is for .deb: no mirror of rpms is known here" >&2; exit 2; }
    command -v debootstrap >/dev/null || { echo "SKIPPED: debootstrap is not installed"; exit 0; }
    # The programs of the tests run there, too, so it is the release of this machine. DEBIAN_MIRROR and DEBIAN_RELEASE may say otherwise.
    release=${DEBIAN_RELEASE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
    mirror=${DEBIAN_MIRROR:-$("$here/../../tests/debian-mirror.sh")} || { echo "SKIPPED: no Debian mirror in the sources of apt"; exit 0; }
    debootstrap --variant=minbase "$release" "$room/root" "$mirror" >"$room/log" 2>&1 ||
        { tail -n 5 "$room/log"; echo "SKIPPED: debootstrap cannot make a system here"; exit 0; }
elif ! mount -t overlay overlay -o "lowerdir=/,upperdir=$room/upper,workdir=$room/work" "$room/root" 2>/dev/null; then
    echo "SKIPPED: no overlay over / can be mounted here"
    exit 0
fi
root=$room/root
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=0755 none "$root/run"
mount -t tmpfs -o mode=1777 none "$root/tmp"

# Nothing of this machine's own installation, and the simulated node with the programs for it.
rm -rf "$root"/etc/getgpu "$root"/var/lib/getgpu "$root"/usr/share/getgpu "$root"/usr/share/doc/getgpu "$root"/usr/local/share/gpus "$root"/opt/sim
mkdir -p "$root"/opt/sim/{lib,node/running,packages,bin}
cp "$1" "$root/opt/sim/packages/first.$kind"
cp "$2" "$root/opt/sim/packages/second.$kind"
cp "$3/libsim_nvml.so" "$root/opt/sim/lib/libnvidia-ml.so.1"
cp "$3/sim-cuda" "$root/opt/sim/bin/"
cp "$here/../../tests/sim/nodes/a100x8.toml" "$root/opt/sim/node/node.toml"
cp "$here/life.sh" "$root/opt/sim/"
chmod -R a+rX "$root/opt/sim"
chmod a+rwx "$root"/opt/sim/node "$root"/opt/sim/node/running

env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root \
    LD_LIBRARY_PATH=/opt/sim/lib SIM_NODE=/opt/sim/node chroot "$root" bash /opt/sim/life.sh "$kind"
