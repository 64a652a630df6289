//! How cudawrap finds the program behind its name, and what it reports if there is none:
//! 126 if it cannot run, 127 if it cannot be found, as env(1) and the shells do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use getgpu_tests::wrapped::{Facts, put, wrap};
use harness::{Outcome, Sandbox, copy_program};

pub(crate) fn run(sandbox: &Sandbox, program: impl AsRef<OsStr>) -> Outcome {
    sandbox.command(program).args(["one"]).run()
}

/// Asserts that the payload at `path` ran.
#[track_caller]
pub(crate) fn ran(outcome: &Outcome, path: &Path) {
    outcome.exits(0).says(&[]);
    let facts = Facts::parse(&outcome.stdout);
    assert_eq!(facts.get("exe"), path.to_str(), "{outcome:#?}");
    assert_eq!(facts.arguments().last(), Some(&"one"));
}

#[test]
fn a_copy_a_hard_link_and_a_moved_cudawrap_are_still_cudawrap() {
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings(&format!("getgpu = {:?}", sandbox.path("bin/getgpu")));
    for place in ["work/a", "work/b"] {
        put(&sandbox, &sandbox.path(place).join("CUDAWRAP_app"), "probe");
    }
    put(&sandbox, &sandbox.path("work/a/app"), "cudawrap");
    copy_program(sandbox.path("bin/cudawrap"), sandbox.path("work/b/app"));
    wrap(&sandbox, "work/c", "app", "probe");
    for place in ["work/a", "work/b", "work/c"] {
        if place == "work/c" {
            let script = "cd .. && mkdir opt && mv bin/cudawrap opt/cudawrap-1.2 && \
                          ln -s ../opt/cudawrap-1.2 bin/cudawrap";
            sandbox.shell("sh", script).run().exits(0);
        }
        let place = sandbox.path(place);
        ran(
            &run(&sandbox, place.join("app")),
            &place.join("CUDAWRAP_app"),
        );
    }
    let own = sandbox.words("cudawrap -- probe one").run();
    ran(&own, &sandbox.path("bin/probe"));
}

/// Beside a directory of links as ccache has it, programs of the same name in other directories of
/// PATH, and another installation with a link directory of its own.
#[test]
fn a_link_without_a_sibling_runs_the_next_of_its_name_in_path() {
    let sandbox = Sandbox::new("mig4");
    let script = "cd .. && mkdir links links2 other && ln -s ../bin/cudawrap links/app && \
                  cp bin/cudawrap bin/getgpu other && ln -s ../other/cudawrap links2/app && \
                  ln -s links alias";
    sandbox.shell("sh", script).run().exits(0);
    let real = sandbox.path("real/app");
    put(&sandbox, &real, "probe");
    put(&sandbox, &sandbox.path("first/app"), "probe");
    #[rustfmt::skip]
    let cases = [
        ("app", &["links", "real", "first"][..]),
        ("links/app", &["first", "links", "real"]),
        ("links/app", &["real", "first"]),
        // Where cudawrap itself is, is not where the link is.
        ("links/app", &["real", "bin"]),
        ("links/app", &["real", "bin", "first"]),
        ("app", &["bin", "links", "real"]),
        ("app", &["links", "real", "bin"]),
        ("app", &["links", "bin", "real"]),
        ("app", &["links", "links2", "other", "real"]),
        ("app", &["links2", "links", "real"]),
        ("links2/app", &["links", "real"]),
        ("app", &["first/none", "alias", "links", "real"]),
    ];
    let start = |program: &str, path: &[&str]| {
        let path: Vec<String> = path.iter().map(|name| sandbox.text(name)).collect();
        let program = match program.contains('/') {
            true => sandbox.text(program),
            false => program.to_owned(),
        };
        let command = sandbox.command("launch").args([program.as_str(), "one"]);
        command.env("PATH", path.join(":")).run()
    };
    for (program, path) in cases {
        ran(&start(program, path), &real);
    }
    let line = "app: there is no CUDAWRAP_app beside it and no other app in PATH";
    start("app", &["links", "links2", "links"]).refuses(127, line);
}

#[test]
fn a_program_that_is_not_there_or_cannot_run_says_so() {
    let sandbox = Sandbox::new("mig4");
    let link = wrap(&sandbox, "work/a", "app", "probe");
    let hidden = link.with_file_name("CUDAWRAP_app");
    fs::remove_file(&hidden).unwrap();
    let line = "there is no CUDAWRAP_app beside it and no other app in PATH";
    run(&sandbox, &link).refuses(127, line);
    #[rustfmt::skip]
    let content: [(&[u8], u32, i32, &str); 7] = [
        (b"#!/bin/sh\nexit 5\n", 0o755, 5, ""),
        (b"exit $#\n", 0o755, 1, ""),
        (b"", 0o755, 0, ""),
        (b"#!/bin/sh\nexit 5\n", 0o644, 126, "CUDAWRAP_app: Permission denied"),
        (b"#!/no/such/interpreter\n", 0o755, 127, "CUDAWRAP_app: "),
        (b"\x7fELF\x02\x01\x01\0\0\0 of another machine", 0o755, 126,
            "CUDAWRAP_app: Exec format error"),
        (b"MZ\0\0\n", 0o755, 126, "CUDAWRAP_app: Exec format error"),
    ];
    for (bytes, mode, status, line) in content {
        // By another process: one that is forked here meanwhile would keep the file open
        // for writing.
        fs::write(sandbox.path("work/source"), bytes).unwrap();
        let install = format!("install -m {mode:o} source a/CUDAWRAP_app");
        sandbox.words(&install).run().exits(0);
        #[rustfmt::skip]
        let outcomes = [
            run(&sandbox, &link),
            sandbox.command("cudawrap").args([hidden.as_os_str(), "one".as_ref()]).run(),
        ];
        for outcome in outcomes {
            if line.is_empty() {
                outcome.exits(status).says(&[]);
            } else {
                outcome.refuses(status, line);
            }
        }
    }
    fs::remove_file(&hidden).unwrap();
    fs::create_dir(&hidden).unwrap();
    run(&sandbox, &link).refuses(126, "CUDAWRAP_app: Permission denied");
    sandbox.words("cudawrap config.toml/x").run().exits(127);
    sandbox.words("chmod 644 @/node/node.toml").run().exits(0);
    sandbox.file("work/lost", "#!/no/such/interpreter\n", 0o755);
    #[rustfmt::skip]
    let cases = [
        ("cudawrap no-such-program", 127, "no-such-program: no such program in PATH"),
        ("cudawrap ./none", 127, "./none: No such file or directory"),
        ("cudawrap @/work/lost", 127, "lost: its interpreter does not exist"),
        ("cudawrap ", 127, "'': no such program in PATH"),
        ("cudawrap @/node/node.toml", 126, "Permission denied"),
        ("cudawrap", 125, "no program to run"),
    ];
    sandbox.refuses(&cases);
    sandbox.assert_clean();
}

#[test]
fn a_hidden_name_that_leads_to_cudawrap_runs_what_is_beside_it() {
    let sandbox = Sandbox::new("mig4");
    put(&sandbox, &sandbox.path("work/a/app"), "probe");
    let cudawrap = sandbox.path("bin/cudawrap");
    symlink(&cudawrap, sandbox.path("work/a/CUDAWRAP_app")).unwrap();
    let outcome = run(&sandbox, sandbox.path("work/a/CUDAWRAP_app"));
    ran(&outcome, &sandbox.path("work/a/app"));
    // Both lead here: no program, and no end of links to follow.
    fs::remove_file(sandbox.path("work/a/app")).unwrap();
    symlink(sandbox.path("bin/cudawrap"), sandbox.path("work/a/app")).unwrap();
    run(&sandbox, sandbox.path("work/a/app")).exits(127);
    run(&sandbox, sandbox.path("work/a/CUDAWRAP_app")).exits(127);
}

#[test]
fn where_no_name_can_be_known_it_says_how_to_start_it() {
    let sandbox = Sandbox::new("mig4");
    let link = wrap(&sandbox, "work/a", "app", "probe");
    let link = link.display();
    let line = "cannot tell by which name this program was started";
    for how in [
        format!("launch --as other --by-fd {link}"),
        format!("launch --no-argv --by-fd {link}"),
    ] {
        sandbox.shell("bash", &how).run().refuses(125, line);
    }
    // The dynamic loader, which this test has too; its name differs between processors.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut mapped = maps.split_whitespace();
    if let Some(loader) = mapped.find(|path| path.contains("/ld-linux")) {
        sandbox.refuses(&[(&format!("{loader} {link}"), 125, line)]);
    }
}
