#!/usr/bin/env bash
# What package.sh does inside its machine: install, use, upgrade, remove, purge, each looked at. The first thing that is not so ends it.
# It changes /etc, /usr and /var of where it runs, so it runs in no other place than that.
set -euo pipefail
sim=/opt/sim
go=$sim/node/go
[ -d $sim/packages ] || { echo "life.sh is run by package.sh" >&2; exit 2; }

# How the two sorts of package are installed (or upgraded, the site's settings kept), removed and asked for their version.
case "$1" in
deb)
    install_it() { dpkg -i --force-confold "$1"; }
    remove_it() { dpkg -r getgpu; }
    version_of() { dpkg-query -W -f '${Version}' getgpu; }
    is_setting() { dpkg-query -W -f '${Conffiles} \n' getgpu | grep -q ' /etc/getgpu/config.toml '; }
    ;;
rpm)
    # What it requires is Debian's here, which rpm does not know.
    install_it() { rpm -U --nodeps "$1"; }
    remove_it() { rpm -e getgpu; }
    version_of() { rpm -q --qf '%{VERSION}-%{RELEASE}' getgpu; }
    is_setting() { rpm -qc getgpu | grep -qx /etc/getgpu/config.toml; }
    ;;
*) echo "life.sh: $1: not a sort of package" >&2; exit 2 ;;
esac

pids=()
cleanup() { for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done; getgpu --release-all -q 2>/dev/null || true; }
trap cleanup EXIT
say() { echo "package: $*"; }
must() { "$@" || { echo "package: not so: $*" >&2; exit 1; }; }
must_not() { if "$@"; then echo "package: it is so: $*" >&2; exit 1; fi; }
# Waits for a condition, twenty seconds at most.
until_true() { for _ in $(seq 400); do if "$@"; then return 0; fi; sleep 0.05; done; echo "package: never so: $*" >&2; exit 1; }
# In the background only, where it becomes the program, so that its pid is the one that is killed.
as() { uid=$1; shift; exec setpriv --reuid="$uid" --regid="$uid" --clear-groups env HOME=/tmp "$@"; }
starts() { grep -c '^start' $sim/node/runs.log 2>/dev/null || true; }
started() { [ "$(starts)" = "$1" ]; }
devices() { awk '/^start/ {print $3}' $sim/node/runs.log | sort -u | wc -l; }
free_is() { [ "$(getgpu --count-free)" = "$1" ]; }
is() { [ "$(stat -c '%F %a %U' "$1")" = "$2" ]; }
names=(simulate train render)

say "install"
install_it "$sim/packages/first.$1" >/dev/null
must is /run/getgpu 'directory 755 root'
must is /run/getgpu/lock 'fifo 666 root'
must is /usr/bin/cudawrap 'regular file 555 root'
must create_cudawrap --version >/dev/null
must is_setting
must compgen -G "/usr/share/man/man1/cudawrap.1*" >/dev/null
must free_is 56
lock=$(stat -c '%i' /run/getgpu/lock)

say "the main job: three programs wrapped, nine started at once by three users in three ways"
mkdir -p /opt/app
for name in "${names[@]}"; do
    cp $sim/bin/sim-cuda "/opt/app/$name"
    echo "$name" >>"/opt/app/$name"
done
before=$(cd /opt/app && stat -c '%n %i %a %s' -- * && sha256sum -- *)
create_cudawrap -q /opt/app/simulate /opt/app/train
create-cudawrap -q /opt/app/render
for name in "${names[@]}"; do must [ "$(readlink "/opt/app/$name")" = /usr/bin/cudawrap ]; done
for n in 0 1 2; do
    as $((1001 + n)) "/opt/app/${names[$n]}" --until-file $go >/dev/null & pids+=($!)
    as $((1001 + n)) cudawrap -- $sim/bin/sim-cuda --until-file $go >/dev/null & pids+=($!)
    # shellcheck disable=SC2016 # the inner shell is who asks
    as $((1001 + n)) bash -c 'CUDA_VISIBLE_DEVICES=$(getgpu) exec '"$sim/bin/sim-cuda --until-file $go" >/dev/null & pids+=($!)
done
until_true started 9
must [ "$(devices)" = 9 ]
must [ ! -s $sim/node/collisions.log ]
until_true free_is 47

say "upgrade: the lock, the leases, the settings and the wraps stay"
echo 'linger = "2s"' >>/etc/getgpu/config.toml
install_it "$sim/packages/second.$1" >/dev/null
must [ "$(version_of)" = 9.9.9-1 ]
must [ "$(stat -c '%i' /run/getgpu/lock)" = "$lock" ]
must grep -q '^linger' /etc/getgpu/config.toml
must free_is 47
for name in "${names[@]}"; do must [ "$(readlink "/opt/app/$name")" = /usr/bin/cudawrap ]; done
must create-cudawrap --status --all >/dev/null
as 1004 /opt/app/train --until-file $go >/dev/null & pids+=($!)
until_true started 10
must [ "$(devices)" = 10 ]

say "a removal that cannot give a program its name back is stopped"
mount --bind /opt/app /opt/app
mount -o remount,ro,bind /opt/app
must_not remove_it >/dev/null 2>&1
must [ -x /usr/bin/cudawrap ]
for name in "${names[@]}"; do must [ -e "/opt/app/$name" ]; done
umount /opt/app

say "a removal is stopped while slurm.conf names a hook"
mkdir -p /etc/slurm
printf '#Epilog=/usr/share/getgpu/slurm/epilog\nProlog=/usr/share/getgpu/slurm/prolog\n' >/etc/slurm/slurm.conf
must_not remove_it >/dev/null 2>&1
must [ -x /usr/share/getgpu/slurm/prolog ]
rm -r /etc/slurm

say "remove: the same programs under their names, and they run"
remove_it >/dev/null 2>&1
must_not command -v getgpu >/dev/null
must_not [ -e /usr/share/getgpu ]
must_not [ -e /usr/share/doc/getgpu ]
must [ "$(cd /opt/app && stat -c '%n %i %a %s' -- * && sha256sum -- *)" = "$before" ]
must [ "$(stat -c '%i' /run/getgpu/lock)" = "$lock" ]
must compgen -G "/etc/getgpu/config.toml*" >/dev/null
: >$go
for pid in "${pids[@]}"; do must wait "$pid"; done
pids=()
must [ ! -s $sim/node/collisions.log ]
device=$(awk '/^start/ {print $3; exit}' $sim/node/runs.log)
for name in "${names[@]}"; do must env CUDA_VISIBLE_DEVICES="$device" "/opt/app/$name" --until-file $go >/dev/null; done

must [ -p /run/getgpu/lock ]
if [ "$1" = deb ]; then
    say "purge: nothing is left but the lock"
    dpkg -P getgpu >/dev/null 2>&1
    must_not [ -e /etc/getgpu ]
    must_not [ -e /var/lib/getgpu ]
    must [ -p /run/getgpu/lock ]
fi
say "all as it should be"
