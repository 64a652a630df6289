//! What has to come of each error of each NVML function: one row per rule. A function for which
//! no row is there fails the test, so that a new call says what its errors mean.

use std::collections::BTreeSet;

use getgpu_tests::all_at_once;
use harness::Sandbox;

/// What has to come of it, where the first GPU gives the error and the request is for all four
/// devices of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It can be done without: all are given.
    Given,
    /// The GPU is passed by, and its fault is named with the function and the code.
    PassedBy,
    /// What its devices do is not known: they count as in use.
    Unknown,
    /// Its devices are not well, and count as in use.
    Unhealthy,
    /// An older function that counts the driver's own memory answers instead.
    Busy,
    /// A GPU in MIG mode counts as a whole one.
    Whole,
    /// Nothing can be asked: a line with these words, status 3.
    Refused(&'static str),
}

use Outcome::{Busy, Given, PassedBy, Refused, Unhealthy, Unknown, Whole};

/// `nvmlReturn_t` of nvml.h.
const NOT_SUPPORTED: i32 = 3;
const NO_PERMISSION: i32 = 4;
const INVALID_ARGUMENT: i32 = 2;
const NOT_FOUND: i32 = 6;
const DRIVER_NOT_LOADED: i32 = 9;
const FUNCTION_NOT_FOUND: i32 = 13;
const GPU_IS_LOST: i32 = 15;
const RESET_REQUIRED: i32 = 16;
const ARGUMENT_VERSION_MISMATCH: i32 = 25;
const GPU_NOT_FOUND: i32 = 28;
const UNKNOWN: i32 = 999;

/// A driver that is older than the function, or a GPU that does not have what it is about.
const LACKING: &[i32] = &[NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH];
/// No program can start there.
const LOST: &[i32] = &[GPU_IS_LOST, RESET_REQUIRED];
/// Behind the last MIG device, or hidden from this process.
const NO_SUCH: &[i32] = &[INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND];
/// All others.
const ANY: &[i32] = &[];

/// A function without its version, the errors, the kind of node where the row is only about one
/// (`mig4`, `gpus4`), and what has to come of them. The first row that fits counts.
#[rustfmt::skip]
const ROWS: &[(&str, &[i32], &str, Outcome)] = &[
    ("nvmlInit", &[DRIVER_NOT_LOADED], "", Refused("no NVIDIA driver on this node")),
    ("nvmlInit", &[GPU_NOT_FOUND], "", Refused("no NVIDIA GPU on this node")),
    ("nvmlInit", ANY, "", Refused("NVML Init: ")),
    ("nvmlDeviceGetCount", ANY, "", Refused("NVML DeviceGetCount: ")),
    ("nvmlShutdown", ANY, "", Given),
    ("nvmlSystemGetDriverVersion", ANY, "", Given),
    // What a device is called is for those who choose by it.
    ("nvmlDeviceGetName", ANY, "", Given),
    // Which devices there are.
    ("nvmlDeviceGetHandleByIndex", ANY, "", PassedBy),
    ("nvmlDeviceGetUUID", ANY, "", PassedBy),
    ("nvmlDeviceGetMigMode", LACKING, "gpus4", Given),
    ("nvmlDeviceGetMigMode", LACKING, "mig4", Whole),
    ("nvmlDeviceGetMigMode", ANY, "", PassedBy),
    ("nvmlDeviceGetMaxMigDeviceCount", ANY, "", PassedBy),
    ("nvmlDeviceGetMigDeviceHandleByIndex", NO_SUCH, "", Refused("its GPUs are in MIG mode and have no MIG devices")),
    ("nvmlDeviceGetMigDeviceHandleByIndex", ANY, "", PassedBy),
    ("nvmlDeviceGetGpuInstanceId", ANY, "", Given),
    ("nvmlDeviceGetComputeInstanceId", ANY, "", Given),
    // What they do.
    ("nvmlDeviceGetComputeRunningProcesses", LOST, "", Unhealthy),
    ("nvmlDeviceGetComputeRunningProcesses", &[FUNCTION_NOT_FOUND], "", Given),
    ("nvmlDeviceGetComputeRunningProcesses", ANY, "", Unknown),
    ("nvmlDeviceGetGraphicsRunningProcesses", LOST, "", Unhealthy),
    ("nvmlDeviceGetGraphicsRunningProcesses", LACKING, "", Given),
    ("nvmlDeviceGetGraphicsRunningProcesses", ANY, "", Unknown),
    ("nvmlDeviceGetMemoryInfo", LOST, "", Unhealthy),
    ("nvmlDeviceGetMemoryInfo", LACKING, "mig4", Given),
    ("nvmlDeviceGetMemoryInfo", LACKING, "gpus4", Busy),
    ("nvmlDeviceGetMemoryInfo", ANY, "", Unknown),
    // Whether they are well.
    ("nvmlDeviceGetComputeMode", LOST, "", Unhealthy),
    ("nvmlDeviceGetComputeMode", ANY, "", Given),
    ("nvmlDeviceGetFieldValues", LOST, "", Unhealthy),
    ("nvmlDeviceGetFieldValues", ANY, "", Given),
    ("nvmlDeviceGetRemappedRows", LOST, "", Unhealthy),
    ("nvmlDeviceGetRemappedRows", ANY, "", Given),
    ("nvmlDeviceGetUnrepairableMemoryFlag", LOST, "", Unhealthy),
    ("nvmlDeviceGetUnrepairableMemoryFlag", ANY, "", Given),
    ("nvmlSystemGetConfComputeGpusReadyState", ANY, "", Given),
    ("nvmlDeviceGetGpuFabricInfoV", LOST, "", Unhealthy),
    ("nvmlDeviceGetGpuFabricInfoV", ANY, "", Given),
];

/// A function's name without its version.
fn plain(function: &str) -> &str {
    let (name, version) = function.rsplit_once("_v").unwrap_or((function, ""));
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    if is_version { name } else { function }
}

/// The functions that a choice on this node calls.
fn functions(node: &str) -> BTreeSet<String> {
    let sandbox = Sandbox::new(node);
    sandbox.log_calls();
    sandbox.line("-q -n 4 --no-reserve");
    let names = sandbox.calls().into_iter().map(|call| call.function);
    let names: BTreeSet<String> = names.filter(|name| name != "attach").collect();
    assert!(names.len() >= 9, "{names:?}");
    names
}

/// What an error of a function comes to, against its row.
fn judge(sandbox: &Sandbox, node: &str, function: &str, code: i32) -> Result<(), String> {
    let name = plain(function);
    let mut rows = ROWS.iter();
    let row = rows.find(|(about, codes, on, _)| {
        *about == name
            && (codes.is_empty() || codes.contains(&code))
            && (on.is_empty() || *on == node)
    });
    let (.., outcome) = row.ok_or_else(|| format!("no row for {function}"))?;
    let is_about_one = name.starts_with("nvmlDevice") && name != "nvmlDeviceGetCount";
    let gpu = if is_about_one { "gpu = 0\n" } else { "" };
    sandbox.faults(&format!(
        "[[rule]]\nfunction = '{function}'\n{gpu}returns = {code}\n"
    ));
    let asked = sandbox.ask("-q -n 4 --no-reserve");
    let said = asked.stderr.lines().next().unwrap_or_default();
    let call = name.trim_start_matches("nvml");
    let code_text = format!("(NVML code {code})");
    let (status, words): (i32, &[&str]) = match outcome {
        Given => (0, &[]),
        PassedBy => (3, &["GPU 0", call, &code_text]),
        Unknown => (1, &["(unknown to NVML "]),
        Unhealthy => (1, &["(unhealthy "]),
        Busy => (1, &["(other programs 1)"]),
        Whole => (3, &["only 1 such device exists here"]),
        Refused(words) => (3, &[words]),
    };
    let as_said = asked.code() == Some(status) && words.iter().all(|words| said.contains(words));
    if !as_said {
        return Err(format!("not {outcome:?} but {:?}: {said}", asked.code()));
    }
    // The other GPUs are as good as before, and what cannot be given is never among them.
    if node == "gpus4" && is_about_one {
        let others = sandbox.ask("-q -n 3 --no-reserve");
        let has_first = others.stdout.contains(&sandbox.uuids()[0]);
        if others.code() != Some(0) || (has_first && *outcome != Given) {
            return Err(format!(
                "of the others: {:?} {}",
                others.code(),
                others.stdout
            ));
        }
    }
    Ok(())
}

#[test]
fn each_error_of_each_function_comes_to_what_its_row_says() {
    for node in ["mig4", "gpus4"] {
        all_at_once(functions(node), |function| {
            let sandbox = Sandbox::new(node);
            let codes = (1..=30).chain([UNKNOWN]);
            let wrong = codes.filter_map(|code| {
                let judged = judge(&sandbox, node, &function, code);
                judged.err().map(|why| format!("{code}: {why}"))
            });
            let wrong: Vec<String> = wrong.collect();
            assert!(wrong.is_empty(), "{function} on {node}: {wrong:#?}");
        });
    }
}
