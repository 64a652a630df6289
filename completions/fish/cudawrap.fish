complete -c cudawrap -l type -d 'auto (MIG devices if there are any, else whole GPUs), mig, gpu or any' -r -f -a "auto\t''
mig\t''
gpu\t''
any\t''"
complete -c cudawrap -s n -l count -d 'N different devices, separated by commas; all or none; whole GPUs: those that are connected best; 2..4: as many as there are, at least 2' -r -f
complete -c cudawrap -l profile -d 'Only MIG devices with this profile (1g.10gb), the smallest first; may be repeated' -r -f
complete -c cudawrap -l model -d 'Only devices on GPUs of this model (H100), a part of what NVML calls them; may be repeated' -r -f
complete -c cudawrap -l prefer-model -d 'Devices on GPUs of this model if there are any free, else any that fit; may be repeated' -r -f
complete -c cudawrap -l min-memory -d 'Only devices (with --share: shares) with at least SIZE of memory (10G is 10 GiB), the smallest first' -r -f
complete -c cudawrap -l gpu -d 'Only devices on this GPU: its NVML index or UUID; may be repeated' -r -f
complete -c cudawrap -l policy -d 'random, first, last, spread (over many GPUs) or pack (onto few GPUs)' -r -f -a "random\t''
first\t''
last\t''
spread\t''
pack\t''"
complete -c cudawrap -l share -d 'A part of a device: 1/2, 0.5, 25%, or a size (10G), on the least loaded device' -r -f
complete -c cudawrap -s w -d 'The same as --wait=TIME' -r -f
complete -c cudawrap -l visible -d 'one: the program sees its own device only; first: its own first, then the other inherited ones; all: the inherited list unchanged' -r -f -a "one\t''
first\t''
all\t''"
complete -c cudawrap -l names -d 'uuid, or index: CUDA_VISIBLE_DEVICES has numbers, for programs that read them (whole GPUs)' -r -f
complete -c cudawrap -l tag -d 'Show the lease under this name in listings, metrics and the log; the program has it in CUDAWRAP_TAG' -r -f
complete -c cudawrap -l ignore-grant -d 'Ignore an inherited CUDA_VISIBLE_DEVICES'
complete -c cudawrap -l wait -d 'Wait in the queue, first come, first served, for as long as it takes or for at most TIME (--wait=30, -w 1.5m, -w 2h)'
complete -c cudawrap -l mps -d 'With --share: run as a client of NVIDIA\'s MPS daemon, which is started and ended as needed'
complete -c cudawrap -l bind -d 'Run on the CPUs near the device; with --share, on a part of them that no other share has'
complete -c cudawrap -l auto -d 'Take the device at the program\'s first CUDA call (libcudawrap.so), not now'
complete -c cudawrap -s v -l verbose -d 'Print what is decided and why'
complete -c cudawrap -s q -l quiet -d 'Print errors only, no hints'
complete -c cudawrap -s V -l version -d 'Print the version'
complete -c cudawrap -s h -l help -d 'Print help: the common options (-h) or everything (--help)'

function __cudawrap_program
    set -l argv (commandline -opc)[2..] (commandline -ct)
    argparse --stop-nonopt 'type=+' 'n/count=+' 'profile=+' 'model=+' 'prefer-model=+' 'min-memory=+' 'gpu=+' 'policy=+' 'ignore-grant' 'share=+' 'wait=?' 'w=+' 'visible=+' 'names=+' 'mps' 'bind' 'tag=+' 'auto' 'v/verbose' 'q/quiet' 'V/version' 'h/help' -- $argv 2>/dev/null
    and set -q argv[1]
    and complete -C (string join ' ' -- (string escape -- $argv[1..-2]) $argv[-1])
end
complete -c cudawrap -x -a "(__cudawrap_program)"
