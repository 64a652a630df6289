#!/usr/bin/env bash
# Runs README's two commands, `make demo` and `make check`, on a clone of HEAD as a newcomer has it: an ordinary user, umask 002, no user
# namespaces, /dev/shm not writable, a getgpu of the machine's own in /run, an empty HOME, no cargo but the named toolchain, a path with a
# space. newcomer.sh [TOOLCHAIN [TARGET...]]; root only, since it becomes another user. Prints how long each command took and how large
# target is.
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain=${1:-stable}
[ $# -eq 0 ] || shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(demo check)

skip() {
    echo "SKIPPED: newcomer: $*"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "not run as root"
unshare --mount --user true 2>/dev/null || skip "no namespaces here"
rust=$(rustup run "$toolchain" rustc --print sysroot 2>/dev/null) || skip "Rust $toolchain is not installed (rustup toolchain install $toolchain --profile minimal)"

# A user id that no other user of this machine has.
user=61234
outer=$(mktemp -d "${TMPDIR:-/tmp}/a newcomer.XXXXXX")
trap 'rm -rf "$outer"' EXIT
export rust="$outer/rust" home="$outer/home" clone="$outer/get gpu" user
cp -al "$(rustup run "$toolchain" rustc --print sysroot)" "$rust" 2>/dev/null || cp -a "$(rustup run "$toolchain" rustc --print sysroot)" "$rust"
mkdir -p "$home/.cargo"
# Only what a registry gave, and where it is.
for part in registry config.toml; do
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/$part" ] || cp -a "${CARGO_HOME:-$HOME/.cargo}/$part" "$home/.cargo/"
done
git clone --quiet . "$clone"
chown -R "$user:$user" "$home" "$clone"
chmod 755 "$outer"

# Runs as root of a user namespace that allows no further ones, and becomes the newcomer there.
# shellcheck disable=SC2016 # that shell expands them
export inside='
set -e
echo 0 >/proc/sys/user/max_user_namespaces
cd "$clone"
umask 002
exec setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all \
    env -i HOME="$home" CARGO_HOME="$home/.cargo" PATH="$rust/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 TEST_THREADS="${TEST_THREADS:-}" make "$target"
'
# A user namespace with the ids of this one: its map is written from outside, and the next exec makes its root.
# shellcheck disable=SC2016 # that shell expands them
as_newcomer='
mount -t tmpfs -o mode=755 none /dev/shm
mount -t tmpfs -o mode=755 none /run
mkdir /run/getgpu
mkfifo "$ready"
unshare --user sh -c "read -r _ <\"\$ready\" && exec sh -c \"\$inside\"" <&3 3<&- &
until [ "$(readlink "/proc/$!/ns/user")" != "$(readlink /proc/self/ns/user)" ]; do :; done
cat /proc/self/uid_map >"/proc/$!/uid_map"
cat /proc/self/gid_map >"/proc/$!/gid_map"
echo go >"$ready"
wait "$!"
'
for target in "${targets[@]}"; do
    export target ready="$outer/ready-$target"
    SECONDS=0
    status=0
    unshare --mount sh -c "$as_newcomer" 3<&0 </dev/null || status=$?
    printf 'newcomer: make %s with Rust %s: status %s, %s s, target %s\n' "$target" "$toolchain" "$status" "$SECONDS" "$(du -sh "$clone/target" | cut -f1)"
    [ "$status" = 0 ] || exit "$status"
done
