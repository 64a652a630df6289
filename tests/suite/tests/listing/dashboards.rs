//! The shipped alerts, dashboard and timer: they ask for metrics that getgpu gives, and the
//! tools that read them have nothing to complain of.

use std::collections::BTreeSet;
use std::process::Command;

use harness::Sandbox;
use harness::skip::{self, Need};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/prometheus");

/// Every word of `text` that begins like one of getgpu's metrics.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| word.starts_with("getgpu_"))
        .map(str::to_owned)
        .collect()
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(format!("{SHIPPED}/{name}")).unwrap()
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let sandbox = Sandbox::new("mig4");
    let given = sandbox.getgpu(["--list", "--format", "prometheus"]).run();
    let given = metrics(&given.exits(0).stdout);
    let dashboard = shipped("getgpu-dashboard.json");
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert_eq!(parsed["panels"].as_array().unwrap().len(), 8);
    for text in [&dashboard, &shipped("getgpu-alerts.yml")] {
        let asked = metrics(text);
        assert!(asked.len() > 3 && asked.is_subset(&given), "{asked:?}");
    }
}

#[test]
fn prometheus_takes_the_metrics_and_the_alerts() {
    if skip::lacks(&[Need::Tool("promtool")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    sandbox.getgpu(["--hold", "--tag", "train"]).run().exits(0);
    let given = sandbox.getgpu(["--list", "--format", "prometheus"]).run();
    let file = sandbox.file("metrics", &given.stdout, 0o644);
    let lint = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(lint.status.success(), "{lint:?}");
    let rules = Command::new("promtool")
        .args(["check", "rules", &format!("{SHIPPED}/getgpu-alerts.yml")])
        .output()
        .unwrap();
    assert!(rules.status.success(), "{rules:?}");
}

#[test]
fn systemd_takes_the_timer_and_the_service() {
    if skip::lacks(&[Need::Tool("systemd-analyze")]) {
        return;
    }
    let units = ["service", "timer"].map(|kind| format!("{SHIPPED}/getgpu-metrics.{kind}"));
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(units)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("getgpu-metrics"))
        .collect();
    assert!(verified.status.success() && ours.is_empty(), "{said}");
}
