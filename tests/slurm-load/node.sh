#!/bin/bash
# The machine of one node of run.sh: DIR NAME GPUS. In the mount namespace that it is called in, /dev has NVIDIA's device nodes and
# /proc/driver what the driver says of them; it stays until it is killed, so that slurmd can be started there again.
# shellcheck disable=SC1091 # the file of variables is made by run.sh
set -eu
trap 'kill %1 2>/dev/null' TERM
N=$1/$2 new=$1/$2/dev
mkdir "$new"; mount -t tmpfs -o mode=755 none "$new"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$new/"; done
mkdir "$new"/{pts,shm,nvidia-caps}; ln -s pts/ptmx "$new/ptmx"; ln -s /proc/self/fd "$new/fd"
mount --bind /dev/pts "$new/pts"; mount --bind /dev/shm "$new/shm"; mount --move "$new" /dev
mount -t tmpfs none /proc/driver; mkdir -p /proc/driver/nvidia-caps

# The numbers of nvidia-modprobe: mig-minors names two files for each MIG device, and Slurm opens them by it.
. "$N/env"
getgpu --list --json | python3 -c '
import json, os, sys
os.umask(0)
minors = open("/proc/driver/nvidia-caps/mig-minors", "w")
for gpu in range(int(sys.argv[1])):
    os.mknod(f"/dev/nvidia{gpu}", 0o20666, os.makedev(195, gpu))
for device in json.load(sys.stdin)["devices"]:
    if device["mig"]:
        gpu, gi, ci = device["gpu"], device["gpu_instance"], device["compute_instance"]
        minor = 3 + 135 * gpu + 9 * gi
        for name, number in ((f"gi{gi}", minor), (f"gi{gi}/ci{ci}", minor + 1 + ci)):
            os.mknod(f"/dev/nvidia-caps/nvidia-cap{number}", 0o20666, os.makedev(237, number))
            print(f"gpu{gpu}/{name}/access {number}", file=minors)
os.chmod("/dev", 0o755)
' "$3"
# The system's log of this machine, so that what the hooks say there can be read.
python3 -u -c '
import os, socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log")
os.chmod("/dev/log", 0o666)
while True:
    print(log.recv(65536).decode(errors="replace"))
' >"$N/syslog" &
until [ -S /dev/log ]; do sleep 0.05; done
slurmd -N "$2"
touch "$N/up"
wait
