#!/bin/bash
# What the load of run.sh came to, from DIR.
cd "$1" || exit
starts() { grep -h "^START way$1" out/* | wc -l; }
echo "collisions: $(cat n*/sim/collisions.log | wc -l)"
for way in 1 2 3; do
    files=$(grep -l "^START way$way" out/*)
    none=$(grep -lE '^NODEVICE|^COLLISION| sees (unset|)$' $files)
    told=$(for file in $none; do grep -l 'getgpu task-prolog: \|^cudawrap: ' "$file"; done | wc -l)
    echo "way $way: jobs $(wc -w <<<"$files"), starts $(starts $way), programs $(grep -h '^RUN ' $files | wc -l)," \
        "jobs without a device $(wc -w <<<"$none"), of these told why $told"
done
echo "disturbed: $(sort disturbed | uniq -c | tr -s ' \n' ' ')"
echo "drained: $(sort drained 2>/dev/null | uniq -c | tr -s ' \n' ' ')"
echo "told: "; grep -hE 'getgpu task-prolog: |^cudawrap: ' out/* | sed -E 's/[0-9]+/N/g; s/[GM][PI][UG]-[^ ,]*/UUID/g' | sort | uniq -c | sort -rn | head -20
for i in n*; do
    GETGPU_LOCK=$PWD/$i/run/lock GETGPU_CONFIG=$PWD/$i/config.toml SIM_NODE=$PWD/$i/sim LD_LIBRARY_PATH=$PWD/lib bin/getgpu --list --json |
        grep -o '"state":"[a-z]*"' | sort | uniq -c | tr -s '\n ' ' '; ls "$i/run" | tr '\n' ' '
done; echo
