//! The Python package, tested by `tests/python` with real pytest, xdist and Jupyter in a
//! sandbox. The packages come from PyPI into a virtual environment of the target folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use getgpu_tests::wrapped::python;
use harness::Sandbox;
use harness::skip::{self, Need};
use nix::fcntl::{Flock, FlockArg};

/// The checkout.
fn top() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    top.canonicalize().expect("the checkout")
}

/// Runs a command without its output; what it said if it failed.
fn quietly(program: &Path, words: &[&str]) -> Result<(), String> {
    let outcome = Command::new(program)
        .args(words)
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
        let pip = |words: &[&str]| {
            let quiet = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
            quietly(&own, &[&quiet[..], words].concat())
        };
        pip(&["-r", "tests/python/requirements.txt"])
            .map_err(|why| format!("pip cannot install from PyPI: {why}"))?;
        pip(&[
            "--no-deps",
            "--no-build-isolation",
            "--force-reinstall",
            "packaging/python",
        ])
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
        #[rustfmt::skip]
        let words = [
            "-m", "pip", "install", "-q", "--disable-pip-version-check", package,
        ];
        quietly(&bin.join("python"), &words)
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
    let directory = environment.display().to_string();
    quietly(Path::new(python), &["-m", "venv", &directory])
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
    let outcome = sandbox
        .command(python)
        .args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"])
        .args([tests.join(file)])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", sandbox.path("work"))
        .limit(Duration::from_secs(180))
        .run();
    assert_eq!(
        outcome.code(),
        Some(0),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    for line in outcome.stdout.lines() {
        if let Some(why) = line.strip_prefix("SKIPPED ") {
            skip::say(why);
        }
    }
    sandbox.assert_clean(Duration::from_secs(5));
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

/// Installed alone, in an environment whose PATH has no getgpu.
#[test]
fn the_wheel_carries_the_programs() {
    let Some(python) = ready() else {
        return;
    };
    if skip::lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let wheels = sandbox.path("work/wheels");
    let assign = |name: &str, value: &Path| format!("{name}={}", value.display());
    let words = [
        "wheel-only".to_owned(),
        assign("programs", built),
        assign("wheels", &wheels),
        assign("PYTHON", python),
        "PIP=--no-build-isolation --no-cache-dir --disable-pip-version-check".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    quietly(Path::new("make"), &words).unwrap();
    let wheel = std::fs::read_dir(&wheels).unwrap().next().unwrap().unwrap();
    let name = wheel.file_name().into_string().unwrap();
    let begin = concat!(
        "cudawrap-",
        env!("CARGO_PKG_VERSION"),
        "-py3-none-manylinux_2_"
    );
    assert!(name.starts_with(begin), "{name}");
    let environment = sandbox.text("work/venv");
    quietly(python, &["-m", "venv", "--without-pip", &environment]).unwrap();
    let file = wheel.path().display().to_string();
    let pip = ["-m", "pip", "--python", &environment, "install", "-q"];
    let rest = [
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
        &file,
    ];
    quietly(python, &[&pip[..], &rest].concat()).unwrap();
    let program = sandbox.text("bin/sim-cuda");
    let script = format!(
        "import cudawrap\nfrom cudawrap._programs import find\n\
         print(find('getgpu'), flush=True)\n\
         with cudawrap.lease(): cudawrap.run([{program:?}], check=True)\n\
         import subprocess\n\
         subprocess.run([find('cudawrap'), '--auto', '--', 'printenv', 'CUDA_INJECTION64_PATH'])"
    );
    let outcome = sandbox
        .command(format!("{environment}/bin/python"))
        .args(["-c", &script])
        .env("PATH", "/bin")
        .run();
    outcome.exits(0);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [getgpu, run, library] = lines[..] else {
        panic!("{outcome:#?}");
    };
    // A site's own would come first.
    if !["/bin/getgpu", "/usr/local/bin/getgpu"]
        .iter()
        .any(|file| Path::new(file).exists())
    {
        assert_eq!(getgpu, format!("{environment}/bin/getgpu"));
        assert_eq!(library, format!("{environment}/lib/getgpu/libcudawrap.so"));
    }
    assert!(run.starts_with("RUN MIG-"), "{outcome:#?}");
    sandbox.assert_clean(Duration::from_secs(5));
}

#[test]
fn the_python_package_is_typed() {
    let Some(python) = ready() else {
        return;
    };
    let outcome = Command::new(python)
        .args(["-m", "mypy", "--cache-dir", "/dev/null"])
        .current_dir(top().join("packaging/python"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(outcome.status.success(), "{said}");
}
