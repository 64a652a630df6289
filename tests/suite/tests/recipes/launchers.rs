//! The lines of docs/LAUNCHERS.md, run by the tools themselves: eight jobs on four
//! devices, sixteen halves at most, and the launcher's status when a job fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::skip::{self, Need};
use harness::{Outcome, Sandbox};

use crate::python::tool;

/// A job: a CUDA program on the device that it was given, then status 3 if this job is to
/// fail.
const JOB: &str = "#!/bin/sh\n\
    [ \"$FLAGS\" = --shared ] || [ -n \"$CUDA_VISIBLE_DEVICES\" ] || exit 4\n\
    sim-cuda --run 0.1 --tag \"$1\" $FLAGS || exit\n\
    [ \"$1\" != \"${FAILS-}\" ] || exit 3\n";
/// What the page puts before a job.
const LEASED: &str = "cudawrap --wait --";
const JOBS: usize = 8;

/// Asserts that the page has this text.
#[track_caller]
pub fn documented(text: &str) {
    documented_in("LAUNCHERS.md", text);
}

/// Asserts that this page of docs has this text.
#[track_caller]
pub fn documented_in(page: &str, text: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text_of_page = std::fs::read_to_string(docs.join(page)).unwrap();
    assert!(text_of_page.contains(text), "{page} does not say: {text}");
}

/// A node of four devices with the job.
fn node() -> Sandbox {
    let sandbox = Sandbox::new("mig4");
    sandbox.file("work/job", JOB, 0o755);
    sandbox
}

/// A line of the page, and the files that it takes beside the job. PREFIX is what is put before
/// a job, LIST the same with semicolons between the words.
struct Recipe {
    /// What the page says.
    page: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    line: &'static str,
    jobs: usize,
    /// Where its tools are; none where some are missing, which has been said then.
    bin: fn() -> Option<PathBuf>,
}

impl Recipe {
    fn run(&self, prefix: &str, flags: &str, fails: &str, bin: &Path) -> (Sandbox, Outcome) {
        let sandbox = node();
        let list = prefix.replace(' ', ";");
        let fill = |text: &str| text.replace("PREFIX", prefix).replace("LIST", &list);
        for (name, text) in self.files {
            sandbox.file(&format!("work/{name}"), &fill(text), 0o644);
        }
        let (own, bin) = (sandbox.text("bin"), bin.display());
        let command = sandbox.shell("bash", &fill(self.line));
        let command = command
            .env("PATH", format!("{own}:{bin}:/usr/local/bin:/usr/bin:/bin"))
            .env("FLAGS", flags)
            .env("FAILS", fails);
        let outcome = command.limit(Duration::from_secs(180)).run();
        (sandbox, outcome)
    }

    /// Each job has a device to itself, or a half of one, and a failing job fails the launcher
    /// as it does without cudawrap.
    fn leases(&self) {
        let Some(bin) = (self.bin)() else { return };
        let (bin, jobs) = (bin.as_path(), self.jobs);
        self.page.iter().for_each(|text| documented(text));
        for (prefix, flags) in [(LEASED, ""), ("cudawrap --share 1/2 --wait --", "--max 2")] {
            let (sandbox, outcome) = self.run(prefix, flags, "", bin);
            outcome.exits(0);
            if flags.is_empty() {
                sandbox.assert_exclusive();
            }
            let runs = sandbox.runs();
            let tags: BTreeSet<&str> = runs.iter().map(|run| run.tag.as_str()).collect();
            assert_eq!((tags.len(), runs.len()), (jobs, jobs), "{outcome:#?}");
            sandbox.assert_clean();
        }
        let failed = self.run(LEASED, "", "1", bin).1.code();
        let plain = self.run("env", "--shared", "1", bin).1.code();
        assert_eq!(failed, plain, "status of a failing job: {}", self.line);
        assert_ne!(failed, Some(0), "{}", self.line);
    }
}

/// Where tools of the machine are.
fn of_the_machine(tools: &[&'static str]) -> Option<PathBuf> {
    let missing = tools.iter().any(|tool| skip::lacks(&[Need::Tool(tool)]));
    (!missing).then(|| "/usr/bin".into())
}

/// Those of the cargo that runs this test.
fn cargos() -> Option<PathBuf> {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        skip::say("the line for cargo is for x86_64");
        return None;
    }
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap_or_default());
    let bin = cargo.parent().filter(|bin| bin.join("rustc").exists());
    if bin.is_none() {
        skip::say("not run by cargo, or rustc is elsewhere");
    }
    bin.map(Path::to_owned)
}

/// Runs the job whose number its file's name ends with.
const CARGO_TEST: &str = "#[test] fn job() { let name = file!(); \
    let number = &name[name.len() - 4..name.len() - 3]; \
    assert!(std::process::Command::new(\"./job\").arg(number).status().unwrap().success()) }";

/// CMAKE_TEST_LAUNCHER is for tests that are programs of the project; cargo runs a test program
/// at a time.
#[rustfmt::skip]
const RECIPES: [Recipe; 13] = [
    Recipe { page: &[r"xargs -P16 -I{} cudawrap --wait -- ./job {}"], files: &[],
        line: "seq 0 7 | xargs -P16 -I{} PREFIX ./job {}",
        jobs: JOBS, bin: || of_the_machine(&[]) },
    Recipe { page: &["parallel -j16 cudawrap --wait -- ./job {} ::: "], files: &[],
        line: "parallel --will-cite -j16 PREFIX ./job {} ::: $(seq 0 7)",
        jobs: JOBS, bin: || of_the_machine(&["parallel"]) },
    Recipe { page: &[r#"make -j16 RUN="cudawrap --wait --""#, "$(RUN) ./job $@"],
        files: &[("Makefile", "all: 0 1 2 3 4 5 6 7\n\
            0 1 2 3 4 5 6 7:\n\t$(RUN) ./job $@\n.PHONY: all 0 1 2 3 4 5 6 7\n")],
        line: "make -sj16 RUN='PREFIX'",
        jobs: JOBS, bin: || of_the_machine(&["make"]) },
    Recipe { page: &[r#"cmake -B build -DCMAKE_TEST_LAUNCHER="cudawrap;--wait;--""#,
            "ctest --test-dir build -j16"],
        files: &[("job.c", "#include <unistd.h>\n\
            int main(int c, char **v) { execv(JOB, v); return 127; }\n"),
            ("CMakeLists.txt", "cmake_minimum_required(VERSION 3.29)\nproject(jobs C)\n\
            enable_testing()\nadd_executable(run job.c)\n\
            target_compile_definitions(run PRIVATE JOB=\"${CMAKE_SOURCE_DIR}/job\")\n\
            foreach(n RANGE 7)\nadd_test(NAME job${n} COMMAND run ${n})\nendforeach()\n")],
        line: "cmake -B build -DCMAKE_TEST_LAUNCHER='LIST' && make -sC build && \
            ctest --test-dir build -j16",
        jobs: JOBS, bin: || of_the_machine(&["make", "cc"]).and_then(|_| tool("cmake")) },
    Recipe { page: &["add_test(NAME job COMMAND ${CMAKE_TEST_LAUNCHER} ./job)"],
        files: &[("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(jobs NONE)\n\
            enable_testing()\nforeach(n RANGE 7)\n\
            add_test(NAME job${n} COMMAND ${CMAKE_TEST_LAUNCHER} ${CMAKE_SOURCE_DIR}/job ${n})\nendforeach()\n")],
        line: "cmake -B build -DCMAKE_TEST_LAUNCHER='LIST' && ctest --test-dir build -j16",
        jobs: JOBS, bin: || of_the_machine(&["make", "cmake", "ctest"]) },
    Recipe { page: &[r#"meson test -C build --wrapper "cudawrap --wait --""#],
        files: &[("meson.build", "project('jobs')\njob = find_program('./job')\n\
            foreach n : range(8)\n\
            test('job@0@'.format(n), job, args: [n.to_string()])\nendforeach\n")],
        line: "meson setup build && meson test -C build --wrapper 'PREFIX'",
        jobs: JOBS, bin: || tool("meson").and_then(|_| tool("ninja")) },
    Recipe { page: &[r#"just --set run "cudawrap --wait --" all"#,
            r#"`run := ""` and recipes `{{run}} ./job`"#],
        files: &[("justfile", "run := \"\"\nall:\n    \
            {{run}} ./job 0 & {{run}} ./job 2 & {{run}} ./job 3 & wait\n    {{run}} ./job 4\n    \
            {{run}} ./job 5\n    {{run}} ./job 6\n    {{run}} ./job 7\n    {{run}} ./job 1\n")],
        line: "just --set run 'PREFIX' all",
        jobs: JOBS, bin: || tool("rust-just") },
    Recipe {
        page: &[r#"CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="cudawrap --wait --" cargo test"#],
        files: &[("Cargo.toml", "[package]\nname = \"jobs\"\nedition = \"2021\"\n[workspace]\n"),
            ("src/lib.rs", ""), ("tests/job0.rs", CARGO_TEST), ("tests/job1.rs", CARGO_TEST)],
        line: "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='PREFIX' cargo test --offline --tests",
        jobs: 2, bin: cargos },
    Recipe { page: &[r#"shell: "cudawrap --wait -- ./job {wildcards.n}""#],
        files: &[("Snakefile", "rule all:\n    input: expand(\"out{n}\", n=range(8))\n\
            rule job:\n    output: \"out{n}\"\n    \
            shell: \"PREFIX ./job {wildcards.n} && touch {output}\"\n")],
        line: "snakemake -j8 -q all",
        jobs: JOBS, bin: || tool("snakemake") },
    Recipe { page: &["`tsp -S 16` once", "`tsp cudawrap --wait -- ./job`"], files: &[],
        line: "export TS_SOCKET=$PWD/socket TMPDIR=$PWD; tsp -S 16; s=0; \
            for n in 0 1 2 3 4 5 6 7; do tsp PREFIX ./job $n; done; \
            for n in 0 1 2 3 4 5 6 7; do tsp -w $n || s=$?; done; tsp -K; exit $s",
        jobs: JOBS, bin: || of_the_machine(&["tsp"]) },
    Recipe { page: &["RUN: cudawrap --wait -- ./app"],
        files: &[("lit.cfg", "import os, lit.formats\nconfig.name = 'jobs'\n\
            config.test_format = lit.formats.ShTest()\nconfig.suffixes = ['.test']\n\
            config.environment.update(os.environ)\n")],
        line: "for n in 0 1 2 3 4 5 6 7; do echo \"RUN: PREFIX $PWD/job $n\" >$n.test; done; \
            lit -sv -j16 .",
        jobs: JOBS, bin: || tool("lit") },
    Recipe { page: &["baseCommand: [cudawrap, --wait, --, ./app]", "`cwltool --parallel`"],
        files: &[("steps.cwl", "cwlVersion: v1.2\nclass: Workflow\n\
            requirements: {ScatterFeatureRequirement: {}}\noutputs: []\n\
            inputs: {number: 'string[]'}\nsteps: {one: {run: tool.cwl, scatter: number, \
            in: {number: number}, out: []}}\n"),
            ("in.yaml", "number: ['0', '1', '2', '3', '4', '5', '6', '7']\n")],
        line: "p='PREFIX'; echo \"{cwlVersion: v1.2, class: CommandLineTool, outputs: [], \
            inputs: {number: {type: string, inputBinding: {position: 1}}}, \
            baseCommand: [${p// /, }, $PWD/job]}\" >tool.cwl; \
            TMPDIR=$PWD cwltool --parallel --preserve-entire-environment steps.cwl in.yaml",
        jobs: JOBS, bin: || tool("cwltool") },
    Recipe { page: &[r#"export GPU_LEASE_CMD="cudawrap --wait --""#, "`$GPU_LEASE_CMD ./job`"],
        files: &[],
        line: "export GPU_LEASE_CMD='PREFIX'; \
            for n in 0 2 3 4 5 6 7; do $GPU_LEASE_CMD ./job $n & done; \
            $GPU_LEASE_CMD ./job 1; s=$?; wait; exit $s",
        jobs: JOBS, bin: || of_the_machine(&[]) },
];

#[test]
fn each_launcher_gives_each_job_a_device_or_a_half_of_one() {
    RECIPES.iter().for_each(Recipe::leases);
}

/// A line for each job, four of them on a device.
#[test]
fn a_file_of_commands() {
    let commands: String = (0..JOBS).map(|n| format!("./job {n} '$HOME'\n")).collect();
    let mut tools =
        vec![r"xargs -d '\n' -P16 -I{} cudawrap --wait --share 1/4 -- sh -c {} < commands"];
    if !skip::lacks(&[Need::Tool("parallel")]) {
        tools.push("parallel --bar -j16 -a commands cudawrap --wait --share 1/4 -- sh -c {}");
    }
    for tool in tools {
        documented(&tool.replace("16", "28"));
        let sandbox = node();
        sandbox.file("work/commands", &commands, 0o644);
        let line = tool.replace("parallel", "parallel --will-cite");
        let outcome = sandbox.shell("bash", &line).env("FLAGS", "--shared").run();
        outcome.exits(0);
        let runs = sandbox.runs();
        assert_eq!(runs.len(), JOBS, "{tool}: {outcome:#?}");
        sandbox.assert_clean();
    }
}

#[test]
fn a_window_of_tmux() {
    if skip::lacks(&[Need::Tool("tmux")]) {
        return;
    }
    documented("tmux new-session cudawrap --wait -- bash");
    let sandbox = node();
    let line = "tmux -S socket -f /dev/null new-session -d cudawrap --wait -- bash --norc -c './job 0 && exec sleep 600'";
    sandbox.shell("bash", line).run().exits(0);
    harness::wait::until("the window's job has run", || !sandbox.runs().is_empty());
    assert_eq!(getgpu_tests::listing::free_devices(&sandbox), "3");
    sandbox.words("tmux -S socket kill-server").run().exits(0);
    sandbox.assert_clean();
}

#[test]
fn hyperfine_measures_on_one_device() {
    if skip::lacks(&[Need::Tool("hyperfine")]) {
        return;
    }
    documented("cudawrap --wait -- hyperfine ./job");
    let sandbox = node();
    let line = "cudawrap --wait -- hyperfine --runs 3 './job 0'";
    sandbox.shell("bash", line).run().exits(0);
    assert_eq!(sandbox.runs_by_device().len(), 1);
    sandbox.assert_clean();
}

/// Without the option its program would not see the device.
#[test]
fn cwltool_keeps_the_variable_that_it_is_told_to() {
    documented("cudawrap -- cwltool --preserve-environment CUDA_VISIBLE_DEVICES tool.cwl");
    let Some(bin) = tool("cwltool") else { return };
    let sandbox = node();
    let job = "#!/bin/sh\necho \"device ${CUDA_VISIBLE_DEVICES:-none}.\"\n";
    let job = sandbox.file("work/says", job, 0o755);
    let tool =
        "{cwlVersion: v1.2, class: CommandLineTool, inputs: {}, outputs: [], baseCommand: JOB}";
    let tool = tool.replace("JOB", &job.display().to_string());
    sandbox.file("work/tool.cwl", &tool, 0o644);
    let keeps = "--preserve-environment CUDA_VISIBLE_DEVICES";
    for (option, sees) in [("", "device none."), (keeps, "device MIG-")] {
        let line = format!("cudawrap -- {}/cwltool {option} tool.cwl", bin.display());
        let outcome = sandbox
            .shell("bash", &line)
            .env("TMPDIR", sandbox.text("work"))
            .run();
        outcome.exits(0).mentions(sees);
    }
    sandbox.assert_clean();
}

/// By a stand-in that reads CUDA_VISIBLE_DEVICES as vLLM before 0.24 does.
#[test]
fn a_program_that_reads_numbers_only() {
    let line = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$(getgpu -n 2 --format index) \
        vllm serve MODEL --tensor-parallel-size 2";
    documented(line);
    let sandbox = Sandbox::new("gpus4");
    let program = "#!/bin/sh\n\
        case $CUDA_VISIBLE_DEVICES in *[!0-9,]* | '') exit 4 ;; esac\n\
        exec sim-cuda --run 3\n";
    sandbox.file("bin/vllm", program, 0o755);
    let servers = [(); 2].map(|()| sandbox.shell("bash", line).spawn());
    for server in servers {
        server.wait().exits(0);
    }
    sandbox.assert_exclusive();
    assert_eq!(sandbox.runs_by_device().len(), 2);
    sandbox.assert_clean();
}

/// Runs a program of tests/python/launchers: eight jobs by four workers.
#[track_caller]
fn workers_lease(package: &str, file: &str) {
    let Some(bin) = tool(package) else {
        return;
    };
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = |sandbox: &Sandbox, fails: &str| {
        let variables = "PYTHONDONTWRITEBYTECODE=1 RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0 \
            TMPDIR=@/work RAY_TMPDIR=@/work";
        let line = format!("{variables} FAILS={fails} {}/python", bin.display());
        let command = sandbox.words(&line);
        let command = command.args([checkout.join("tests/python/launchers").join(file)]);
        let command = command.env("PYTHONPATH", checkout.join("packaging/python/src"));
        command.limit(Duration::from_secs(180)).run()
    };
    let sandbox = node();
    let outcome = run(&sandbox, "");
    outcome.exits(0).prints("True\n");
    sandbox.assert_exclusive();
    assert_eq!(sandbox.runs().len(), JOBS);
    sandbox.assert_clean();
    let sandbox = node();
    let outcome = run(&sandbox, "1");
    outcome.exits(1).mentions("returned non-zero exit status 3");
    sandbox.assert_clean();
}

#[test]
fn joblib() {
    documented(
        "Parallel(n_jobs=4, initializer=cudawrap.lease)(delayed(job)(n) for n in range(80))",
    );
    workers_lease("joblib", "joblib_workers.py");
}

#[test]
fn dask() {
    documented("client = Client(LocalCluster(n_workers=4, threads_per_worker=1))");
    documented("client.register_plugin(cudawrap.dask.Lease())");
    workers_lease("distributed", "dask_workers.py");
}

#[test]
fn ray() {
    documented("`ray.init(num_gpus=0)` with `RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0` set");
    workers_lease("ray", "ray_actors.py");
}
