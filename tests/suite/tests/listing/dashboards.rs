//! The shipped alerts, dashboard and timer: they ask for metrics that getgpu gives, and the
//! tools that read them have nothing to complain of.

use std::process::Command;

use getgpu_tests::on_target;
use harness::Sandbox;
use harness::skip::{self, Need};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/prometheus");

fn shipped(name: &str) -> String {
    std::fs::read_to_string(format!("{SHIPPED}/{name}")).unwrap()
}

/// There is no Grafana to be had here, but the types of what it imports are published.
#[test]
fn the_dashboard_is_of_the_types_that_grafana_publishes() {
    let tsc = on_target("tools/node/node_modules/typescript/bin/tsc");
    if skip::lacks(&[Need::Tool("node")]) {
        return;
    }
    if !tsc.exists() {
        skip::say("typescript is not installed below target/tools/node (.ci/run does that)");
        return;
    }
    // Beside the packages, where tsc looks for them.
    let module = on_target("tools/node/dashboard.ts");
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/listing");
    let script = format!("{here}/dashboard-types.mjs");
    let node = |words: &[&std::ffi::OsStr]| Command::new("node").args(words).output().unwrap();
    let dashboard = format!("{SHIPPED}/getgpu-dashboard.json");
    let printed = node(&[script.as_ref(), dashboard.as_ref()]);
    assert!(printed.status.success(), "{printed:?}");
    std::fs::write(&module, printed.stdout).unwrap();
    let flags = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler \
                 --target es2022";
    let mut words: Vec<&std::ffi::OsStr> = vec![tsc.as_ref(), module.as_ref()];
    words.extend(flags.split_whitespace().map(std::ffi::OsStr::new));
    let checked = node(&words);
    assert!(checked.status.success(), "{checked:?}");
}

/// A test of promtool: series that stay as they are for two hours, and what its engine
/// must make of them then.
fn promtool_test(series: &[(String, f64)], expected: &[(String, Vec<(String, f64)>)]) -> String {
    let series = series.iter().map(|(name, value)| {
        format!("      - series: '{name}'\n        values: '{value:.0}+0x120'\n")
    });
    let expected = expected.iter().map(|(expression, samples)| {
        let samples = samples.iter().map(|(labels, value)| {
            format!("          - labels: '{labels}'\n            value: {value}\n")
        });
        let samples: String = samples.collect();
        let test = format!("      - expr: '{expression}'\n        eval_time: 2h\n");
        format!("{test}        exp_samples:\n{samples}")
    });
    let (series, expected): (String, String) = (series.collect(), expected.collect());
    let intro = "  - interval: 1m\n    input_series:\n";
    format!("{intro}{series}    promql_expr_test:\n{expected}")
}

/// The metrics of a node as Prometheus stores them: with the node's name.
fn series(metrics: &str) -> Vec<(String, f64)> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let series = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = match name.strip_suffix('}') {
            Some(labelled) => format!("{labelled},instance=\"n1\"}}"),
            None => format!("{name}{{instance=\"n1\"}}"),
        };
        (name, value.parse().unwrap())
    });
    series.collect()
}

#[test]
fn prometheus_computes_a_nodes_figures_and_fires_right_alerts() {
    if skip::lacks(&[Need::Tool("promtool")]) {
        return;
    }
    // By its path: it need not be in the PATH that a sandbox has.
    let promtool = skip::tool("promtool").unwrap();
    let sandbox = Sandbox::new("mig4");
    sandbox.ask("--hold --tag train").exits(0);
    let _program = sandbox
        .words("cudawrap -- sim-cuda --run forever --memory 1000000")
        .spawn();
    sandbox.until_running(1);
    let given = sandbox.ask("--list --format prometheus");
    let file = sandbox.file("metrics", &given.exits(0).stdout, 0o644);
    let lint = sandbox.command(&promtool).args(["check", "metrics"]);
    lint.stdin(std::fs::File::open(file).unwrap())
        .run()
        .exits(0);
    let node = series(&given.stdout);
    let memory = node
        .iter()
        .filter(|(name, _)| name.starts_with("getgpu_device_memory_used_bytes"));
    let memory: f64 = memory.map(|(_, bytes)| bytes).sum();

    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap();
    #[rustfmt::skip]
    let states = [
        ("busy", 0.0), ("claimed", 0.0), ("free", 2.0), ("kept", 0.0), ("leased", 1.0),
        ("reserved", 1.0), ("shared", 0.0), ("unhealthy", 0.0), ("unknown", 0.0),
    ];
    let one = |labels: &str, value: f64| vec![(labels.to_owned(), value)];
    #[rustfmt::skip]
    let figures = [
        ("Free devices", one("{}", 2.0)),
        ("Waiting programs", one("{}", 0.0)),
        ("Held but empty", one("{}", 1.0)),
        ("Longest wait", one("{}", 0.0)),
        ("Who holds devices", one(&format!("{{user=\"{}\"}}", user.unwrap().name), 2.0)),
        ("State of the devices",
            states.map(|(state, n)| (format!("{{state=\"{state}\"}}"), n)).to_vec()),
        ("Waiting", one("{instance=\"n1\"}", 0.0)),
        ("Memory in use", one("{instance=\"n1\"}", memory)),
    ];
    let dashboard: serde_json::Value =
        serde_json::from_str(&shipped("getgpu-dashboard.json")).unwrap();
    let query = |title: &str| {
        let panels = dashboard["panels"].as_array().unwrap();
        let panel = panels.iter().find(|panel| panel["title"] == title);
        let query = panel.unwrap()["targets"][0]["expr"].as_str().unwrap();
        query.replace("$node", "n1|n2")
    };
    let figures = figures.into_iter();
    let mut expected: Vec<_> = figures
        .map(|(title, samples)| (query(title), samples))
        .collect();
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!(expected.len(), panels.len());
    let firing = "count by (alertname) (ALERTS{alertstate=\"firing\"})".to_owned();
    let alerts = |names: &[&str]| {
        let labels = names
            .iter()
            .map(|name| (format!("{{alertname=\"{name}\"}}"), 1.0));
        (firing.clone(), labels.collect())
    };
    expected.push(alerts(&["GpuHeldButEmpty"]));
    let ill = "getgpu_device_state{uuid=\"MIG-1\",state=\"unknown\"} 1\n\
               getgpu_waiting 3\ngetgpu_longest_wait_seconds 4000\ngetgpu_problems 2\n\
               getgpu_lock_shared 0\nnode_textfile_mtime_seconds{file=\"/x/getgpu.prom\"} 0\n";
    // Of metrics that there are.
    let given = |(name, _): &(String, f64)| {
        let name = name.split('{').next().unwrap_or_default();
        name.starts_with("node_") || node.iter().any(|(known, _)| known.starts_with(name))
    };
    assert!(series(ill).iter().all(given));
    #[rustfmt::skip]
    let all = [
        "GetgpuMetricsOld", "GpuLockNotShared", "GpuNodeSick", "GpuUnknown", "GpusAllTaken",
    ];
    let text = format!(
        "rule_files: ['{SHIPPED}/getgpu-alerts.yml']\nevaluation_interval: 1m\ntests:\n{}{}",
        promtool_test(&node, &expected),
        promtool_test(&series(ill), &[alerts(&all)])
    );
    let file = sandbox.file("work/test.yml", &text, 0o644);
    let test = sandbox.command(&promtool).args(["test", "rules"]);
    let test = test.args([file]).run();
    assert_eq!(test.code(), Some(0), "{test:?}\n{text}");
}

#[test]
fn systemd_takes_the_service_of_the_monitor() {
    if skip::lacks(&[Need::Tool("systemd-analyze")]) {
        return;
    }
    // getgpu need not be installed here.
    let unit = std::fs::read_to_string(format!("{SHIPPED}/../systemd/getgpu-monitor.service"));
    let unit = unit.unwrap().replace("/usr/bin/getgpu", "/bin/true");
    let sandbox = Sandbox::new("mig4");
    let unit = sandbox.file("work/getgpu-monitor.service", &unit, 0o644);
    let verify = sandbox.words("systemd-analyze verify --man=no");
    let verified = verify.args([unit]).run();
    if verified
        .stderr
        .contains("directory '/run/systemd/': Permission denied")
    {
        return skip::say("systemd-analyze needs /run/systemd, which this user cannot make");
    }
    let said = &verified.exits(0).stderr;
    assert!(!said.contains("getgpu-monitor"), "{said}");
}
