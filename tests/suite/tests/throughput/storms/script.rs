//! A tree as a script of bash that runs it: in the sandbox of a test, or with a simulated node
//! that it makes itself, so that a tree that failed can be run again by hand.

use crate::storms::tree::{Blow, Branch, Filter, Tree, Way, Wish};

const HEAD: &str = r#"
if [ -z "${SIM_NODE:-}" ]; then
    room=$(mktemp -d) bin=$(cd "${1:?bash SCRIPT FOLDER-OF-PROGRAMS}" && pwd)
    mkdir -p "$room"/{lib/getgpu,run,node/running,work,opt}
    cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
    cp "$bin/libcudawrap.so" "$room/lib/getgpu/"
    cp "$bin/sim-cuda" "$room/opt/CUDAWRAP_app"
    cp /bin/bash "$room/opt/CUDAWRAP_sh"
    ln -s "$bin/cudawrap" "$room/opt/app"
    ln -s "$bin/cudawrap" "$room/opt/sh"
    echo "$settings" >"$room/config.toml"
    echo "$node" >"$room/node/node.toml"
    chmod -R a+rX,u+w "$room" && chmod 1777 "$room/work" "$room/node" "$room/node/running"
    export PATH="$bin:$PATH" LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node" HOME="$room"
    export GETGPU_LOCK="$room/run/lock" GETGPU_CONFIG="$room/config.toml"
    export PYTHONPATH="$bin/../../packaging/python/src"
    mkfifo -m 666 "$GETGPU_LOCK"
    echo "notes: $room/work/notes, programs: $room/node/runs.log"
    cd "$room/work" || exit
fi
mkdir -m 1777 pids
: >notes && chmod 666 notes

note() { echo "$EPOCHREALTIME $*" >>notes; }
run() { echo $$ >pids/$1; n$1; }
# In $( ), so that getgpu itself can be killed.
call() { echo $BASHPID >pids/$1.call; shift; exec getgpu -q "$@"; }
# Not another process that has this number by now.
end() { grep -sqz "^SIM_NODE=$SIM_NODE$" /proc/$1/environ && note killed $1 && kill -9 $1; }
holder() {
    local pid file
    for pid in $(pgrep -x getgpu-hold); do
        grep -sqzE "^(caller|hold)=$(cat pids/$1)\(" /proc/$pid/cmdline || continue
        for file in /proc/$pid/fd/*; do
            [ "$file" -ef "$GETGPU_LOCK" ] && note ended $1 && kill -9 $pid && return
        done
    done
}

"#;

const PYTHON: &str = "import cudawrap, subprocess, sys; \
                      sys.tracebacklimit = 0; cudawrap.lease({}); \
                      sys.exit(subprocess.call(sys.argv[1:], close_fds=False))";

impl Tree {
    /// Lines of the settings file.
    pub(crate) fn settings(&self) -> String {
        let most = self.most.map(|most| format!("max_per_user = {most}\n"));
        format!(
            "linger = '300ms'\nreserve_for = '5s'\n{}",
            most.unwrap_or_default()
        )
    }

    /// The script.
    pub(crate) fn script(&self) -> String {
        let (settings, node) = (self.settings(), self.node);
        let mut lines = vec![format!(
            "#!/usr/bin/env bash\n# The tree of seed {}.\nsettings=\"{settings}\"\nnode=\"{node}\"{HEAD}",
            self.seed
        )];
        let all = 0..self.branches.len();
        lines.extend(all.clone().flat_map(|number| self.functions(number)));
        lines.push("export -f $(compgen -A function)".to_owned());
        for root in all.filter(|root| self.branches[*root].parent.is_none()) {
            let Branch { pause, uid, .. } = self.branches[root];
            let (pause, user) = (seconds(pause), user(uid));
            lines.push(format!(
                "(sleep {pause}; exec {user}bash -c 'run {root}') &"
            ));
        }
        for (at, blow, number) in &self.blows {
            let (at, user) = (seconds(*at), user(self.branches[*number].uid));
            let blow = match blow {
                Blow::Process => format!("end \"$(cat pids/{number})\""),
                Blow::Call => format!("end \"$(cat pids/{number}.call)\""),
                Blow::Holder => format!("holder {number}"),
                Blow::Release => {
                    format!("note ended {number}; {user}getgpu -q --release s{number}")
                }
            };
            lines.push(format!("(sleep {at}; {blow}) 2>/dev/null &"));
        }
        lines.push("wait\n".to_owned());
        lines.join("\n")
    }

    /// How a branch has its device, and what it does with it.
    fn functions(&self, number: usize) -> Vec<String> {
        let branch = &self.branches[number];
        let Branch { init, run, .. } = branch;
        let is_leaf = self.below(number).next().is_none();
        let (program, link, words) = if is_leaf {
            let words = format!("--max 99 --init {init}ms --run {run}ms --tag {number}");
            ("sim-cuda", "app", words)
        } else {
            ("bash", "sh", format!("-c b{number}"))
        };
        let body = format!("{program} {words}");
        let (hold, tag) = (
            if branch.way == Way::Hold {
                " --hold"
            } else {
                ""
            },
            if branch.tagged {
                format!(" --tag s{number}")
            } else {
                String::new()
            },
        );
        let options = branch.options();
        let call = format!("d=$(call {number}{hold}{options}{tag}) || exit");
        let again = self.printed_again(number).unwrap_or_default();
        let how = match branch.way {
            Way::Plain => format!("exec {body}"),
            Way::Reserve => format!("{call}; CUDA_VISIBLE_DEVICES=$d exec {body}"),
            Way::ReserveBelow => format!("{call}; CUDA_VISIBLE_DEVICES=$d {body}; true"),
            Way::Hold => format!("{call}; export CUDA_VISIBLE_DEVICES=$d; {body}; true"),
            Way::Lease => format!("exec cudawrap -q{options} -- {body}"),
            Way::Link => format!("exec ../opt/{link} {words}"),
            Way::Auto => format!("exec cudawrap -q --auto{options} -- {body}"),
            Way::Python => {
                let script = PYTHON.replace("{}", &branch.arguments());
                format!("exec /usr/bin/python3 -c \"{script}\" {body}")
            }
            Way::Again => format!(
                "d=$(unset CUDA_VISIBLE_DEVICES; getgpu -q --tag s{again}) || exit; \
                 CUDA_VISIBLE_DEVICES=$d exec {body}"
            ),
        };
        let mut lines = vec![format!("n{number}() {{ {how}; }}")];
        if is_leaf {
            return lines;
        }
        lines.push(format!(
            "b{number}() {{\n    note has {number} $CUDA_VISIBLE_DEVICES"
        ));
        for child in self.below(number) {
            let pause = seconds(self.branches[child].pause);
            let end = if self.branches[child].in_background {
                " &"
            } else {
                ""
            };
            lines.push(format!("    sleep {pause}; bash -c 'run {child}'{end}"));
        }
        lines.push("    wait\n}".to_owned());
        lines
    }
}

impl Branch {
    /// For getgpu and cudawrap.
    fn options(&self) -> String {
        let Wish {
            count,
            part,
            wait,
            filter,
            ignores_grant,
        } = self.wish;
        let options = [
            (count > 1).then(|| format!(" -n {count}")),
            (part > 1).then(|| format!(" --share 1/{part}")),
            (wait > 0).then(|| format!(" --wait={wait}")),
            (filter == Some(Filter::FirstGpu)).then(|| " --gpu 0".to_owned()),
            (filter == Some(Filter::TwoSlices)).then(|| " --profile 2g.10gb".to_owned()),
            ignores_grant.then(|| " --ignore-grant".to_owned()),
        ];
        options.into_iter().flatten().collect()
    }

    /// For `cudawrap.lease()`.
    fn arguments(&self) -> String {
        let Wish {
            count,
            part,
            wait,
            filter,
            ignores_grant,
        } = self.wish;
        let arguments = [
            Some(format!("count={count}")),
            (part > 1).then(|| format!("share='1/{part}'")),
            (wait > 0).then(|| format!("wait={wait}")),
            (filter == Some(Filter::FirstGpu)).then(|| "gpu=0".to_owned()),
            (filter == Some(Filter::TwoSlices)).then(|| "profile='2g.10gb'".to_owned()),
            ignores_grant.then(|| "ignore_grant=True".to_owned()),
        ];
        let arguments: Vec<String> = arguments.into_iter().flatten().collect();
        arguments.join(", ")
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

fn user(uid: u32) -> String {
    match uid {
        0 => String::new(),
        uid => format!("setpriv --reuid={uid} --regid={uid} --clear-groups "),
    }
}
