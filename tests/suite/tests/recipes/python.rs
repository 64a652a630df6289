//! The Python package, tested by `tests/python` with real pytest, xdist and Jupyter in a
//! sandbox. The packages come from PyPI into a virtual environment of the target folder.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use getgpu_tests::wrapped::python;
use harness::skip::{self, Need};
use harness::{Outcome, Sandbox};
use nix::fcntl::{Flock, FlockArg};

/// The checkout.
fn top() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    top.canonicalize().expect("the checkout")
}

/// What pip installs with, in any environment.
const INSTALL: &str = "install -q --disable-pip-version-check";

/// Runs a command without its output, of words without a space in any and others; what it said
/// if it failed.
fn quietly(program: &Path, words: &str, more: &[&str]) -> Result<(), String> {
    let outcome = Command::new(program)
        .args(words.split(' '))
        .args(more)
        .current_dir(top())
        .stdin(Stdio::null())
        .output();
    let outcome = outcome.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&outcome.stderr);
    let last = || said.lines().last().unwrap_or("no reason given").to_owned();
    outcome.status.success().then_some(()).ok_or_else(last)
}

/// The interpreter of a virtual environment that has the package as it is in the checkout.
fn interpreter() -> Result<&'static Path, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(|| {
        let system = python().ok_or("python3 is not installed")?;
        let _lock = turn()?;
        let environment = top().join("target/python/venv");
        let own = environment.join("bin/python");
        make(&system, &environment)?;
        let pip = |words: &str| quietly(&own, &format!("-m pip {INSTALL} {words}"), &[]);
        pip("-r tests/python/requirements.txt")
            .map_err(|why| format!("pip cannot install from PyPI: {why}"))?;
        pip("--no-deps --no-build-isolation --force-reinstall packaging/python")
            .unwrap_or_else(|why| panic!("packaging/python cannot be installed: {why}"));
        Ok(own)
    })
    .as_deref()
    .map_err(Clone::clone)
}

/// The directory of programs of a virtual environment that has this package of PyPI, or
/// none; then it has been said.
pub fn tool(package: &str) -> Option<PathBuf> {
    from_pypi(package).map_err(|why| skip::say(&why)).ok()
}

fn from_pypi(package: &str) -> Result<PathBuf, String> {
    let system = python().ok_or("python3 is not installed")?;
    let _lock = turn()?;
    let environment = top().join("target/python/launchers");
    make(&system, &environment)?;
    let bin = environment.join("bin");
    let installed = environment.join(format!(".{package}"));
    if !installed.exists() {
        quietly(
            &bin.join("python"),
            &format!("-m pip {INSTALL} {package}"),
            &[],
        )
        .map_err(|why| format!("pip cannot install {package} from PyPI: {why}"))?;
        File::create(installed).map_err(|error| error.to_string())?;
    }
    Ok(bin)
}

/// Makes a virtual environment if there is none.
fn make(python: &str, environment: &Path) -> Result<(), String> {
    if environment.join("bin/pip").exists() {
        return Ok(());
    }
    let words = format!("-m venv {}", environment.display());
    quietly(Path::new(python), &words, &[])
}

/// One test process at a time; the lock ends with what is returned.
fn turn() -> Result<Flock<File>, String> {
    let folder = top().join("target/python");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let file = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.to_string())
}

/// The same, or none if it cannot be had; then it has been said.
fn ready() -> Option<&'static Path> {
    interpreter().map_err(|why| skip::say(&why)).ok()
}

/// Runs a file of tests/python on a node with four MIG devices.
#[track_caller]
fn passes(file: &str) -> Option<Sandbox> {
    let python = ready()?;
    let sandbox = Sandbox::new("mig4");
    let tests = top().join("tests/python");
    let variables = "PYTHONDONTWRITEBYTECODE=1 TMPDIR=@/work";
    let pytest = "-m pytest -q -rs -p no:cacheprovider";
    let line = format!("{variables} {} {pytest}", python.display());
    let command = sandbox.words(&line).args([tests.join(file)]);
    let outcome = command.limit(Duration::from_secs(1800)).run();
    let said = [&*outcome.stdout, &outcome.stderr].concat();
    assert_eq!(outcome.code(), Some(0), "{said}");
    for line in outcome.stdout.lines() {
        if let Some(why) = line.strip_prefix("SKIPPED ") {
            skip::say(why);
        }
    }
    sandbox.assert_clean();
    Some(sandbox)
}

#[test]
fn a_python_process_leases_devices_for_itself() {
    passes("test_lease.py");
}

#[test]
fn one_python_process_leases_the_one_device_of_a_grant() {
    passes("test_one_device.py");
}

#[test]
fn each_worker_of_a_python_pool_has_its_own_device() {
    if let Some(sandbox) = passes("test_pools.py") {
        sandbox.assert_exclusive();
    }
}

#[test]
fn each_worker_of_pytest_has_its_own_device() {
    passes("test_pytest_plugin.py");
}

#[test]
fn each_jupyter_kernel_has_its_own_device_by_the_provisioner() {
    passes("test_jupyter.py");
}

/// The devices of two users' servers on a real hub, and of two kernels of each; none: it cannot
/// be installed.
#[track_caller]
fn hub(line: &str) -> Option<Vec<(String, Vec<String>)>> {
    crate::launchers::documented(line);
    let bin = ready()?.parent()?;
    let sandbox = Sandbox::new("gpus4");
    // What the hub starts by name is the environment's.
    let path = format!("{}:{}:/usr/bin:/bin", sandbox.text("bin"), bin.display());
    let script = top().join("tests/python/launchers/hub_users.py");
    let command = sandbox.words(&format!("{}/python", bin.display()));
    let command = command.args([script]).env("PATH", path);
    let command = command.env("SETTING", line);
    let outcome = command.limit(Duration::from_secs(400)).run();
    outcome.exits(0);
    sandbox.assert_clean();
    let users = outcome.stdout.lines().map(|user| {
        let mut words = user.split(' ').map(str::to_owned);
        let server = words.next().expect("the device of the server");
        (server, words.collect())
    });
    Some(users.collect())
}

#[test]
fn each_notebook_of_a_jupyterhub_has_its_own_device() {
    let line = r#"c.Spawner.environment = {"JUPYTER_DEFAULT_PROVISIONER_NAME": "cudawrap"}"#;
    if let Some(users) = hub(line) {
        assert!(users.iter().all(|(server, _)| server == "-"), "{users:?}");
        let kernels = users.iter().flat_map(|(_, kernels)| kernels);
        let devices: HashSet<&String> = kernels.filter(|device| *device != "-").collect();
        assert_eq!(devices.len(), 4, "{users:?}");
    }
}

#[test]
fn each_user_of_a_jupyterhub_has_one_device() {
    let line = r#"c.Spawner.cmd = ["cudawrap", "--", "jupyterhub-singleuser"]"#;
    if let Some(users) = hub(line) {
        let [(ana, of_ana), (ben, of_ben)] = &users[..] else {
            panic!("{users:?}");
        };
        assert!(ana != ben && ana.starts_with("GPU-"), "{users:?}");
        assert_eq!(
            (of_ana, of_ben),
            (&vec![ana.clone(); 2], &vec![ben.clone(); 2])
        );
    }
}

/// Installed alone, in an environment whose PATH has no getgpu.
#[test]
fn the_wheel_carries_the_programs() {
    let Some(python) = ready() else {
        return;
    };
    let Some(sandbox) = Sandbox::given(&[Need::Tool("make")], "mig4", "") else {
        return;
    };
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let wheels = sandbox.path("work/wheels");
    let [built, made, by] = [built, &wheels, python].map(Path::display);
    let words = format!("wheel-only programs={built} wheels={made} PYTHON={by}");
    let pip = "PIP=--no-build-isolation --no-cache-dir --disable-pip-version-check";
    quietly(Path::new("make"), &words, &[pip]).unwrap();
    let wheel = std::fs::read_dir(&wheels).unwrap().next().unwrap().unwrap();
    let name = wheel.file_name().into_string().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let begin = format!("cudawrap-{version}-py3-none-manylinux_2_");
    assert!(name.starts_with(&begin), "{name}");
    let environment = sandbox.text("work/venv");
    let venv = format!("-m venv --without-pip {environment}");
    quietly(python, &venv, &[]).unwrap();
    let file = wheel.path().display().to_string();
    let pip = format!("-m pip --python {environment} {INSTALL} --no-index --no-deps");
    quietly(python, &pip, &[&file]).unwrap();
    let program = sandbox.text("bin/sim-cuda");
    let script = format!(
        "import cudawrap\nfrom cudawrap._programs import find\n\
         print(find('getgpu'), flush=True)\n\
         with cudawrap.lease(): cudawrap.run([{program:?}], check=True)\n\
         import subprocess\n\
         subprocess.run([find('cudawrap'), '--auto', '--', 'printenv', 'CUDA_INJECTION64_PATH'])"
    );
    let alone = sandbox.words("PATH=/bin @/work/venv/bin/python -c");
    let outcome = alone.args([&script]).run();
    outcome.exits(0);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [getgpu, run, library] = lines[..] else {
        panic!("{outcome:#?}");
    };
    // A site's own would come first.
    let sites = ["/bin/getgpu", "/usr/local/bin/getgpu"].map(Path::new);
    if !sites.iter().any(|file| file.exists()) {
        assert_eq!(getgpu, format!("{environment}/bin/getgpu"));
        assert_eq!(library, format!("{environment}/lib/getgpu/libcudawrap.so"));
    }
    assert!(run.starts_with("RUN MIG-"), "{outcome:#?}");
    sandbox.assert_clean();
}

#[test]
fn the_python_package_is_typed() {
    let Some(python) = ready() else {
        return;
    };
    let mut mypy = Command::new(python);
    mypy.args("-m mypy --cache-dir /dev/null".split(' '));
    Outcome::of(mypy.current_dir(top().join("packaging/python"))).exits(0);
}
