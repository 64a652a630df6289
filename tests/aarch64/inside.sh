#!/bin/bash
# The first process of the emulated machine, inside.sh PROGRAMS THEME...: makes what a system needs, runs the demo and tests of each
# theme, and switches the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
programs=$1
shift
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts /dev/shm /root /run/getgpu
mount -t devpts none /dev/pts
mount -t tmpfs -o mode=1777 none /dev/shm
mount -t tmpfs -o mode=1777 none /tmp
ln -sf /proc/self/fd /dev/fd
uname -srm

# Of each theme what an emulated processor can do in minutes: not those with dozens of programs at once, or with thousands of calls.
declare -A tests=(
    [device_choice]="connected:: counts_and_policies::"
    [leases]="entries:: index_names:: order_of_gpus:: several_named::"
    [error_injection]="a_claimed_device_ a_holder_that_was_not_printed_ a_lock_that_was_made_"
)
failed=
tests/demo/run.sh "$programs" || failed=" demo"
for theme in "$@"; do
    # shellcheck disable=SC2086 # one word for each name
    "$programs/deps/$theme" --test-threads 2 ${tests[$theme]} || failed="$failed $theme"
done
if [ -z "$failed" ]; then echo "machine: all as it should be"; else echo "machine: FAILED:$failed"; fi
sync
echo o >/proc/sysrq-trigger
sleep 60
