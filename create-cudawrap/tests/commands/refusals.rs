//! What is refused, with its reason and nothing changed, and what gives a warning.

use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Instant;

use harness::Outcome;

use crate::support::{Sandbox, USER, is_root, said};

#[test]
fn our_own_programs_are_refused_by_any_name() {
    let sandbox = Sandbox::new();
    for name in ["cudawrap", "getgpu", "create-cudawrap", "create_cudawrap"] {
        sandbox.script(&format!("app/{name}"), "other");
        sandbox.refused(&["--force", name], &format!("{name} itself"));
        sandbox.refused(&["--undo", name], &format!("{name} itself"));
    }
    sandbox.script("bin/getgpu", "getgpu");
    sandbox.link("../bin/getgpu", "app/x");
    sandbox.refused(&["--force", "x"], "getgpu itself");
    std::fs::hard_link(sandbox.path("bin/cudawrap"), sandbox.path("app/y")).unwrap();
    sandbox.refused(&["--force", "y"], "cudawrap itself");
    // A copy of our own: the other tests' names for the file would come and go with its
    // change time.
    sandbox.run_sh("cp bin/create-cudawrap bin/copy && mv bin/copy bin/create-cudawrap");
    std::fs::hard_link(sandbox.path("bin/create-cudawrap"), sandbox.path("app/z")).unwrap();
    sandbox.refused(&["--force", "z"], "create-cudawrap itself");
}

#[test]
fn what_is_not_a_program_is_refused() {
    let sandbox = Sandbox::with_program();
    std::fs::create_dir(sandbox.path("app/d")).unwrap();
    for path in ["d", "d/", ".", "..", "/", "x/", "d/."] {
        sandbox.refused(&[path], "");
    }
    sandbox.refused(&["nothing"], "no such file");
    sandbox.refused(&["no/thing"], "its directory cannot be reached");
    std::fs::write(sandbox.path("app/data"), "").unwrap();
    sandbox.refused(&["--force", "data"], "not executable");
    sandbox.run_sh("mkfifo app/pipe");
    sandbox.refused(&["--force", "pipe"], "not a program");
    sandbox.ok(&["x"]);
    sandbox.refused(&["CUDAWRAP_x"], "not a path to wrap");
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

#[test]
fn names_up_to_the_longest_that_leaves_room() {
    let sandbox = Sandbox::new();
    let (longest, longer) = ("n".repeat(234), "n".repeat(235));
    sandbox.script(&format!("app/{longest}"), "one");
    sandbox.script(&format!("app/{longer}"), "one");
    sandbox.refused(&[&longer], "name too long: at most 234 bytes");
    let hint = "hint: wrap a link to it that has a shorter name";
    sandbox.refused(&[&longer], hint);
    sandbox.link(&longer, "app/short");
    sandbox.ok(&["short"]);
    assert_eq!(sandbox.output_of("app/short"), "one a b");
    sandbox.ok(&[&longest]);
    // The longest name of all is used by a repair only.
    sandbox.run_sh(&format!("rm app/{longest}"));
    sandbox.script(&format!("app/{longest}"), "two");
    sandbox.ok(&["--repair", &longest]);
    assert_eq!(sandbox.output_of(&format!("app/{longest}")), "two a b");
}

#[test]
fn bytes_that_are_no_text_are_a_name_like_any_other() {
    let sandbox = Sandbox::with_program();
    let name = std::ffi::OsStr::from_bytes(b"a\xff\n b");
    std::fs::rename(sandbox.path("app/x"), sandbox.path("app").join(name)).unwrap();
    let wrapped = said(sandbox.command().arg(name));
    assert_eq!(wrapped.exits(0).stderr.lines().count(), 1, "{wrapped:#?}");
    let status = sandbox.command().args(["--status", "--all"]).output();
    let shown = status.unwrap().stdout;
    let line = b"/a\xff\\012 b: wrapped\n";
    assert!(shown.ends_with(line), "{}", shown.escape_ascii());
    let json = sandbox.create(&["--status", "--json", "--all"]);
    json.shows("\"path_bytes\":[");
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["paths"][0]["state"], "wrapped");
    sandbox.ok(&["--undo", "--all"]);
    let nothing = sandbox.ok(&["--undo", "--all"]);
    nothing.mentions("--all: nothing is recorded as wrapped");
    let mut entries = sandbox.path("app").read_dir().unwrap();
    assert_eq!(entries.next().unwrap().unwrap().file_name(), name);
}

#[test]
fn a_directory_that_may_not_be_written() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("chmod 555 app");
    sandbox.refused(&["x"], "Permission denied");
    sandbox.run_sh("chmod 755 app");
    sandbox.ok(&["x"]);
    sandbox.run_sh("chmod 555 app");
    sandbox.refused(&["--undo", "x"], "Permission denied");
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

#[test]
fn root_keeps_out_of_what_others_can_write() {
    if !is_root() {
        harness::skip::say("not run as root");
        return;
    }
    let sandbox = Sandbox::with_program();
    // An access control list lets user 65534 write, until chmod g-w sets its mask.
    let all = u32::MAX;
    #[rustfmt::skip]
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 7, all), (0x02, 7, 65534), (0x04, 5, all), (0x10, 7, all), (0x20, 5, all),
    ];
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let attribute = "system.posix_acl_access";
    let flags = rustix::fs::XattrFlags::empty();
    sandbox.run_sh("chown 0:0 app && chmod 755 app");
    if rustix::fs::setxattr(sandbox.path("app"), attribute, &list, flags).is_ok() {
        refused(&sandbox);
        sandbox.run_sh("chmod g-w app");
        as_root(&sandbox, "--dry-run").exits(0);
        rustix::fs::removexattr(sandbox.path("app"), attribute).unwrap();
    } else {
        harness::skip::say("no access control lists here");
    }
    for (owner, mode) in [(65534, 0o755), (0, 0o775), (0, 0o777), (0, 0o1777)] {
        sandbox.run_sh(&format!("chown {owner} app && chmod {mode:o} app"));
        refused(&sandbox);
    }
}

fn as_root(sandbox: &Sandbox, option: &str) -> Outcome {
    let mut command = Command::new(sandbox.path("bin/create-cudawrap"));
    said(command.arg(option).arg(sandbox.path("app/x")))
}

/// Fails unless root refuses to wrap the program, and changes nothing.
fn refused(sandbox: &Sandbox) {
    let before = sandbox.listing("app");
    let said = as_root(sandbox, "--");
    said.exits(1)
        .mentions("that users other than root can write to");
    assert_eq!(sandbox.listing("app"), before);
}

#[test]
fn other_names_and_setuid_are_warned_of() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("ln app/x app/y && chmod 4755 app/x");
    let said = sandbox.ok(&["x"]);
    said.mentions("warning: the file has other names");
    said.mentions("warning: is setuid");
}

#[test]
fn a_package_owns_it() {
    let sandbox = Sandbox::with_program();
    let path = sandbox.path("app/x");
    for (tool, answer) in [
        ("dpkg", format!("amber, other: {}", path.display())),
        ("rpm", "amber".to_owned()),
    ] {
        sandbox.run_sh("rm -f bin/dpkg bin/rpm");
        let script = format!("#!/bin/sh\n[ \"$HOME\" = /dev/null ] && echo '{answer}'\n");
        sandbox.program(&format!("bin/{tool}"), &script);
        let with = |args: &[&str]| sandbox.with("PATH", sandbox.path("bin"), args);
        let before = sandbox.listing("app");
        let refused = with(&["x"]);
        refused.exits(1).mentions("--link-dir");
        refused.mentions("package amber");
        assert_eq!(sandbox.listing("app"), before);
        with(&["--force", "x"]).exits(0);
        with(&["--undo", "x"]).exits(0);
    }
}

#[test]
fn a_failed_package_tool_does_not_mean_that_no_package_owns_it() {
    let sandbox = Sandbox::with_program();
    let with = |args: &[&str]| sandbox.with("PATH", sandbox.path("bin"), args);
    #[rustfmt::skip]
    let cases = [
        ("dpkg", "exit 1", true), ("dpkg", "exit 2", false), ("dpkg", "exit 127", false),
        ("dpkg", "kill -9 $$", false), ("rpm", "exit 1", true), ("rpm", "exit 4", true),
        ("rpm", "exit 127", false), ("rpm", "kill -9 $$", false),
    ];
    for (tool, ends, answers) in cases {
        sandbox.program(&format!("bin/{tool}"), &format!("#!/bin/sh\n{ends}\n"));
        let before = sandbox.listing("app");
        let said = with(&["x"]);
        let accepted = said.code() == Some(0);
        assert_eq!(accepted, answers, "{tool}: {ends}: {said:#?}");
        if !answers {
            said.mentions(&format!("bin/{tool}: failed ("))
                .mentions("hint: --force");
            assert_eq!(sandbox.listing("app"), before);
            with(&["--force", "x"]).exits(0);
        }
        with(&["--undo", "x"]).exits(0);
        std::fs::remove_file(sandbox.path(&format!("bin/{tool}"))).unwrap();
    }
}

#[test]
fn a_tool_that_hangs_does_not_hang_us() {
    let sandbox = Sandbox::with_program();
    sandbox.program("bin/dpkg", "#!/bin/sh\nexec sleep 60\n");
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    let with = |args: &[&str]| sandbox.with("PATH", &path, args);
    let said = with(&["x"]);
    said.exits(1).mentions("no answer in 10 s");
    said.mentions("--force");
    assert_eq!(sandbox.names("app"), ["x"]);
    with(&["--force", "x"]).exits(0);
}

/// A script in a mount namespace of its own, whose words are these.
fn apart(sandbox: &Sandbox, script: &str, args: &[&str]) -> Outcome {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["-m", "sh", "-c", script, "sh"])
        .args(args)
        .env("XDG_STATE_HOME", sandbox.path("state"))
        .env("GETGPU_CONFIG", sandbox.path("config.toml"));
    said(&mut unshare)
}

/// In a mount namespace with a profile of its own in /etc.
#[test]
fn a_program_that_an_apparmor_profile_names_needs_force() {
    if harness::skip::lacks(&[harness::skip::Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("mkdir etc");
    let (root, user) = (sandbox.path(""), USER);
    let etc = sandbox.path("etc");
    let script = format!(
        "cd {etc} && mount -t tmpfs none {etc} && mkdir {etc}/up {etc}/work && \
         mount -t overlay -o lowerdir=/etc,upperdir={etc}/up,workdir={etc}/work none /etc && \
         mkdir -p /etc/apparmor.d && echo 'profile x {root}app/x {{ }}' >/etc/apparmor.d/x && \
         cd {root}app && exec setpriv --reuid={user} --regid={user} --clear-groups \
         {root}bin/create-cudawrap \"$@\"",
        etc = etc.display(),
        root = root.display(),
    );
    let with_profile = |args: &[&str]| apart(&sandbox, &script, args);
    let refused = with_profile(&["x"]);
    if refused.stderr.contains("mount: ") {
        return harness::skip::say("no overlay over /etc can be mounted here");
    }
    refused
        .exits(1)
        .mentions("is named in the AppArmor profile /etc/apparmor.d/x");
    refused.mentions("create-cudawrap: hint: use --link-dir; --force wraps it anyway");
    assert_eq!(sandbox.names("app"), ["x"]);
    with_profile(&["--force", "x"]).exits(0);
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "x"]);
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

#[test]
fn a_locked_directory_is_waited_for_10_seconds() {
    let sandbox = Sandbox::with_program();
    let lock = std::fs::File::open(sandbox.path("app")).unwrap();
    fs4::FileExt::lock(&lock).unwrap();
    let begin = Instant::now();
    sandbox.refused(&["x"], "another process has locked its directory");
    assert!(begin.elapsed().as_secs() >= 10);
    // Looking only needs no lock.
    sandbox.ok(&["--dry-run", "x"]);
    assert_eq!(sandbox.status_of("app/x"), ("plain".to_owned(), 0));
}

/// The first run keeps the lock while dpkg answers, and between two programs lets it go for an
/// instant.
#[test]
fn two_runs_on_many_programs_of_a_directory_take_turns() {
    let sandbox = Sandbox::with_program();
    let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
    for name in &names {
        sandbox.run_sh(&format!("cp -p app/x app/{name}"));
    }
    sandbox.program("bin/dpkg", "#!/bin/sh\nsleep 0.5\nexit 1\n");
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    let mut first = sandbox.command();
    first.env("PATH", path).arg("-q").args(&names);
    let mut first = first.spawn().unwrap();
    harness::wait::until("the first run is on its way", || {
        sandbox.exists("app/CUDAWRAP_p0")
    });
    let second = sandbox.with("PATH", sandbox.path("links"), &["x"]);
    let is_first_done = first.try_wait().unwrap().is_some();
    first.kill().unwrap();
    first.wait().unwrap();
    second.exits(0);
    assert!(!is_first_done, "too few programs for this test");
}

#[test]
fn a_locked_note_delays_and_fails_nothing() {
    let sandbox = Sandbox::with_program();
    sandbox.script("app/y", "two");
    sandbox.ok(&["y"]);
    let lock = std::fs::File::open(sandbox.path("state/getgpu/.wrapped.lock")).unwrap();
    fs4::FileExt::lock(&lock).unwrap();
    sandbox.ok(&["x"]).mentions("cannot record");
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

/// The kernel's answer about the file system is made NFS's, on a file system of its own.
#[test]
fn a_program_on_a_network_file_system_needs_force() {
    use harness::skip::Need;

    if harness::skip::lacks(&[Need::Mounts, Need::Tool("strace")]) {
        return;
    }
    let sandbox = Sandbox::with_program();
    let (root, user) = (sandbox.path(""), USER);
    let script = format!(
        "cd {root} && rm -rf kept && cp -a app kept && mount -t tmpfs none app && chmod 755 app && \
         cp -a kept/. app && chown -R {user}:{user} app && cd app && setpriv --reuid={user} \
         --regid={user} --clear-groups strace -f -qq -o /dev/null \
         -e inject=fstatfs:poke_exit=@arg2=6969000000000000 {root}bin/create-cudawrap \"$@\"; \
         status=$?; ls; exit $status",
        root = root.display(),
    );
    let on_nfs = |args: &[&str]| apart(&sandbox, &script, args);
    let refused = on_nfs(&["x"]);
    refused
        .exits(1)
        .prints("x\n")
        .mentions("is on NFS, and cudawrap is not");
    on_nfs(&["--force", "x"]).exits(0).prints("CUDAWRAP_x\nx\n");
}
