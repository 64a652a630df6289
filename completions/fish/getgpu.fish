complete -c getgpu -l type -d 'auto (MIG devices if there are any, else whole GPUs), mig, gpu or any' -r -f -a "auto\t''
mig\t''
gpu\t''
any\t''"
complete -c getgpu -s n -l count -d 'N different devices, separated by commas; all or none; whole GPUs: those that are connected best; 2..4: as many as there are, at least 2' -r -f
complete -c getgpu -l profile -d 'Only MIG devices with this profile (1g.10gb), the smallest first; may be repeated' -r -f
complete -c getgpu -l model -d 'Only devices on GPUs of this model (H100), a part of what NVML calls them; may be repeated' -r -f
complete -c getgpu -l prefer-model -d 'Devices on GPUs of this model if there are any free, else any that fit; may be repeated' -r -f
complete -c getgpu -l min-memory -d 'Only devices (with --share: shares) with at least SIZE of memory (10G is 10 GiB), the smallest first' -r -f
complete -c getgpu -l gpu -d 'Only devices on this GPU: its NVML index or UUID; may be repeated' -r -f
complete -c getgpu -l policy -d 'random, first, last, spread (over many GPUs) or pack (onto few GPUs)' -r -f -a "random\t''
first\t''
last\t''
spread\t''
pack\t''"
complete -c getgpu -l share -d 'A part of a device: 1/2, 0.5, 25%, or a size (10G), on the least loaded device' -r -f
complete -c getgpu -s w -d 'The same as --wait=TIME' -r -f
complete -c getgpu -l for -d 'How long the reservation waits for its program to appear [default: 60]' -r -f
complete -c getgpu -l tag -d 'Name the reservation; without other options: print the devices reserved under NAME' -r -f
complete -c getgpu -l uid -d 'Reserve on behalf of UID (root only)' -r -f
complete -c getgpu -l release -d 'Give up your reservation with this TAG, or of the device with this INDEX or UUID, or of several UUIDs as they were printed (root: anybody\'s)' -r -f
complete -c getgpu -l user -d 'With --list: only devices that this user holds or uses' -r -f
complete -c getgpu -l from -d 'With --list: the listings of other hosts (getgpu --list --json, a line each) in these files, or on standard input (-), as one table' -r -F
complete -c getgpu -l since -d 'With --report: lines of the journal since TIME, as journalctl has it' -r -f
complete -c getgpu -l format -d 'uuid, index (with CUDA_DEVICE_ORDER=PCI_BUS_ID; whole GPUs only), env (an export line) or task (env and, for a share, the variables that frameworks read); with --list: table, json, csv, prometheus' -r -f -a "uuid\t''
index\t''
env\t'A line for the shell'
task\t'Export lines for a task: CUDA_VISIBLE_DEVICES, and for a part of a device what frameworks read'
table\t''
json\t''
csv\t''
prometheus\t'For node_exporter\'s textfile collector'"
complete -c getgpu -l columns -d 'With --list: more columns, of the GPU: utilization, power, temperature' -r -f -a "utilization\t'Percent of the time in which a kernel ran'
power\t'Watts'
temperature\t'Degrees Celsius'"
complete -c getgpu -l color -d 'With --list: colours also in a pipe (always), or nowhere (never)' -r -f -a "auto\t'On a terminal that shows them'
always\t''
never\t''"
complete -c getgpu -l slurm -d 'Run as Slurm\'s prolog, task-prolog or epilog, which etc/slurm calls' -r -f -a "prolog\t'On a node, before a job'
task-prolog\t'Before each task'
epilog\t'On a node, behind a job'"
complete -c getgpu -l ignore-grant -d 'Ignore an inherited CUDA_VISIBLE_DEVICES'
complete -c getgpu -l wait -d 'Wait in the queue, first come, first served, for as long as it takes or for at most TIME (--wait=30, -w 1.5m, -w 2h)'
complete -c getgpu -l hold -d 'Keep the device until PID (default: the calling process) exits, whatever runs; 0: until it is released (root only)'
complete -c getgpu -l no-reserve -d 'Only print a device, reserve nothing'
complete -c getgpu -l release-all -d 'Give up all your reservations (root: everybody\'s)'
complete -c getgpu -s l -s L -l list -d 'List all devices (-L does the same): state, user, program, since when'
complete -c getgpu -l json -d 'With --list, --queue, --report or --check: print JSON'
complete -c getgpu -l free -d 'With --list: only free devices'
complete -c getgpu -l mine -d 'With --list: only devices that you hold or use'
complete -c getgpu -l watch -d 'Show the list on a terminal and redraw it every SECONDS (default: 2) until you press q'
complete -c getgpu -l queue -d 'List the waiters in the queue, each with its start and command, and since when devices are held'
complete -c getgpu -l wanted -d 'Whether to make room: exit status 0 if a call waits in the queue while you hold a device, else 1'
complete -c getgpu -l report -d 'Sum up the lines of the system\'s log (journalctl, or standard input): starts, device hours and refusals by user (default), tag or program'
complete -c getgpu -l count-free -d 'Print the number of free devices'
complete -c getgpu -l explain -d 'Also print, for every other device, why it was not chosen'
complete -c getgpu -l check -d 'Check whether this node is set up and print a remedy for each problem (with -q: problems only); with DIR...: check the wrapped programs there too'
complete -c getgpu -l health -d 'With --check: only the GPUs for which a reset, a reboot or a repair is due'
complete -c getgpu -l show-config -d 'Print each setting and where it comes from'
complete -c getgpu -l monitor -d 'Watch the node as a service of root\'s: log the end of leases, apply max_idle, write metrics into FILE once a minute'
complete -c getgpu -s v -l verbose -d 'Print what is decided and why'
complete -c getgpu -s q -l quiet -d 'Print errors only, no hints'
complete -c getgpu -s V -l version -d 'Print the version'
complete -c getgpu -s h -l help -d 'Print help: the common options (-h) or everything (--help)'
