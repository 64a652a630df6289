#!/usr/bin/env bash
# Runs the demo and tests of themes on an emulated machine with a kernel of that processor, as root: machine.sh PROGRAMS THEME..., with the
# directory of the programs that cargo has built. The machine is Debian's kernel and its essential packages in memory; no disk, no network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=$(cd "$1" && pwd)
cd "$here/../.."
shift

skip() { echo "SKIPPED: aarch64: $*"; exit 0; }
command -v qemu-system-aarch64 >/dev/null || skip "no qemu-system-aarch64 here (Debian: qemu-system-arm)"
for tool in debootstrap cpio dpkg-deb aarch64-linux-gnu-strip; do
    command -v "$tool" >/dev/null || skip "no $tool here"
done
[ "$(id -u)" = 0 ] || skip "not run as root, which debootstrap needs"
mirror=$(tests/debian-mirror.sh) || skip "no Debian mirror in the sources of apt"
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

# Kept for the next time: the essential packages, unpacked, and the kernel.
system=$programs/../machine
if [ ! -e "$system/vmlinuz" ]; then
    rm -rf "$system"
    mkdir -p "$system"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=procps,linux-image-arm64 "$release" "$system/root" "$mirror" >"$system/log" 2>&1 ||
        { tail -n 3 "$system/log"; skip "debootstrap cannot fetch a system here"; }
    # Its second stage, which would install them, needs that processor: unpacked they are enough.
    for package in "$system"/root/var/cache/apt/archives/*.deb; do
        case ${package##*/} in
            linux-image-[0-9]*) dpkg-deb --fsys-tarfile "$package" | tar -x -C "$system" --wildcards './boot/vmlinuz-*' ;;
            procps_* | libproc2-* | libncursesw6_*) dpkg-deb --fsys-tarfile "$package" | tar -x -C "$system/root" --keep-directory-symlink ;;
        esac
    done
    (cd "$system/root" && rm -rf var/cache/apt var/lib/apt debootstrap proc usr/share/doc usr/share/man usr/share/locale usr/share/zoneinfo && mkdir proc)
    (cd "$system/root" && cp usr/share/base-passwd/passwd.master etc/passwd && cp usr/share/base-passwd/group.master etc/group)
    ln -sf mawk "$system/root/usr/bin/awk"
    mv "$system"/boot/vmlinuz-* "$system/vmlinuz"
fi

room=$(mktemp -d "${TMPDIR:-/tmp}/machine.XXXXXX")
trap 'rm -rf "$room"' EXIT
cp -a "$system/root" "$room/root"
# The checkout where it is here, since tests know their sources by that path.
inside=$room/root
mkdir -p "$inside$PWD" "$inside$programs/deps"
git ls-files -z | xargs -0 cp -a --parents -t "$inside$PWD"
for program in "$programs"/*; do
    if [ -f "$program" ] && [ -x "$program" ]; then aarch64-linux-gnu-strip -o "$inside$program" "$program"; fi
done
for theme in "$@"; do
    newest=$(find "$programs/deps" -name "$theme-*" -executable -printf '%T@ %p\n' | sort -n | tail -n 1)
    aarch64-linux-gnu-strip -o "$inside$programs/deps/$theme" "${newest#* }"
done
printf '#!/bin/bash\ncd %q\nexec %q %q %s\n' "$PWD" "$here/inside.sh" "$programs" "$*" >"$room/root/init"
chmod 0755 "$room/root" "$room/root/init"
(cd "$room/root" && find . | cpio --create --format=newc --quiet --owner=0:0) >"$room/memory"

qemu-system-aarch64 -machine virt -cpu max,pauth-impdef=on -smp 2 -m 4096 -display none -nodefaults -serial stdio -no-reboot \
    -kernel "$system/vmlinuz" -initrd "$room/memory" -append "console=ttyAMA0 quiet panic=-1" </dev/null | tee "$room/said"
grep -aq '^machine: all as it should be' "$room/said"
