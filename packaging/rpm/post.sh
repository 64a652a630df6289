# shellcheck shell=sh
# The lock of the host, now; at boot tmpfiles.d makes it. An existing one is left alone, since programs hold their leases on it.
# Nothing here fails the installation; without systemd root's getgpu makes the lock.
systemd-tmpfiles --create getgpu.conf >/dev/null 2>&1 || :
[ -p /run/getgpu/lock ] || env -u GETGPU_LOCK -u GETGPU_CONFIG getgpu --release-all >/dev/null 2>&1 || :
