//! Files, links, pipes, devices and libraries planted where our programs read: refused in
//! one line, never opened, never loaded.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use getgpu_tests::OTHER;
use harness::skip::Need;
use harness::{Sandbox, copy_program};
use nix::libc;

/// What a stranger may have put where a user's private lock goes; every one is refused,
/// whatever the kernel's own protection says. Whoever makes that directory first may watch what
/// is made in it and swap it: so nothing is ever made there.
#[test]
fn planted_private_lock_directories_are_refused_unopened() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts, Need::Root], "mig4", "") else {
        return;
    };
    let victim = 61_236;
    let mine = format!("/tmp/getgpu-{victim}");
    #[rustfmt::skip]
    let planted = [
        ("an empty directory of a stranger", "mkdir -m 777 $P && chown 1001 $P"),
        ("a directory of a stranger",
            "mkdir -m 777 $P && mkfifo -m 666 $P/lock && chown -R 1001 $P"),
        ("a link to a directory of a stranger",
            "mkdir -m 777 $P.d && mkfifo $P.d/lock && ln -s $P.d $P"),
        ("a link to nothing", "ln -s /nonexistent $P"),
        ("a file", "echo x >$P; chmod 666 $P"),
        ("a FIFO", "mkfifo -m 666 $P"),
        ("one's own directory that all may write to", "mkdir $P && chmod 777 $P && chown V $P"),
        ("one's own with a file for a lock", "mkdir -m 700 $P && echo x >$P/lock && chown -R V $P"),
        ("one's own with a link for a lock",
            "mkdir -m 700 $P && ln -s /etc/passwd $P/lock && chown -hR V $P"),
        ("one's own with a stranger's FIFO",
            "mkdir -m 700 $P && mkfifo -m 666 $P/lock && chown V $P && chown 1001 $P/lock"),
    ];
    for (what, plant) in planted {
        let plant = plant
            .replace("$P", &mine)
            .replace(" V ", &format!(" {victim} "));
        let script = format!(
            "mount -t tmpfs -o mode=755 run /run; {plant}; touch -hd @1000 {mine}; \
             setpriv --reuid {victim} --clear-groups getgpu --for 60; s=$?; \
             stat -c %Y {mine} >&2; rm -rf {mine} {mine}.d; exit $s"
        );
        let outcome = sandbox.apart(&script).env_remove("GETGPU_LOCK").run();
        outcome.exits(4).prints("");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [refused, hints @ .., "1000"] = &lines[..] else {
            panic!("{what}: changed, or not one line: {outcome:#?}")
        };
        let strangers = "belongs to uid 1001, which is neither root nor you";
        let told = !what.starts_with("an empty") || refused.contains(strangers);
        let all_hints = hints.iter().all(|line| line.starts_with("getgpu: hint: "));
        let is_ours = refused.starts_with("getgpu: lock ");
        assert!(is_ours && all_hints && told, "{what}: {outcome:#?}");
    }
}

/// A chmod(2) by name follows whatever stands under the name by then, so the lock has its
/// mode from the first instant.
#[test]
fn the_lock_is_created_with_its_final_mode() {
    let sandbox = Sandbox::new("mig4");
    fs::remove_file(sandbox.lock()).unwrap();
    let (mut command, _out, _err) = sandbox
        .shell("sh", "umask 077; exec getgpu --no-reserve")
        .parts();
    let story = inject::follow(&mut command, None, |_| false, |_| ());
    let made = |number| story.calls.iter().any(|call| call.number == number);
    assert_eq!(story.status, 0);
    assert!(made(libc::SYS_mknodat));
    assert!(!made(libc::SYS_fchmodat), "changed by name");
    let mode = fs::symlink_metadata(sandbox.lock()).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o666);
}

/// A library whose start writes down who loaded it.
fn trap(sandbox: &Sandbox, directory: &str) -> std::path::PathBuf {
    let source = format!(
        "#include <stdio.h>\n#include <sys/prctl.h>\n__attribute__((constructor)) static void hit(void) {{\n\
         char name[17] = \"\"; prctl(PR_GET_NAME, name); FILE *f = fopen(\"{}\", \"a\"); if (f) {{ fprintf(f, \"%s\\n\", name); fclose(f); }} }}\n\
         unsigned la_version(unsigned v) {{ return v; }}\n",
        sandbox.text("work/hits")
    );
    let source = sandbox.file(&format!("{directory}/trap.c"), &source, 0o644);
    let library = sandbox.path(&format!("{directory}/libnvidia-ml.so.1"));
    let build = sandbox.words("cc -shared -fPIC -o");
    build.args([&library, &source]).run().exits(0);
    library
}

/// The names of the processes that loaded the trap.
fn hits(sandbox: &Sandbox) -> Vec<String> {
    let file = sandbox.path("work/hits");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn planted_libraries_are_not_loaded() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("cc")], "mig4", "") else {
        return;
    };
    let library = trap(&sandbox, "work/evil");
    let evil = sandbox.path("work/evil");
    // An empty element, a dot and a relative one: the working directory. The real one
    // comes last.
    for search in [":", ".:", "evil:../work/evil:"] {
        let path = format!("{search}{}", sandbox.text("lib"));
        for words in ["getgpu --no-reserve", "getgpu --list", "cudawrap -- true"] {
            let command = sandbox.words(words).directory(&evil);
            command.env("LD_LIBRARY_PATH", &path).run().exits(0);
            // The loader of a program that was started with such a path searches it for
            // what the program itself needs; that is the caller's own doing. NVML's
            // process and cudawrap's helper do not.
            assert_eq!(hits(&sandbox), [""; 0], "{search} {words}");
        }
    }
    // These two are the caller's wish for all that he starts; the helper that cudawrap
    // starts is not his.
    for name in ["LD_PRELOAD", "LD_AUDIT"] {
        let command = sandbox.words("cudawrap -- /bin/true");
        command.env(name, &library).run().exits(0);
        let hits = hits(&sandbox);
        let ours = hits.iter().any(|hit| hit == "getgpu");
        assert!(!hits.is_empty() && !ours, "{name}: {hits:?}");
    }
}

/// Secure execution: a set-group-id copy believes no variable of ours.
#[test]
fn under_secure_execution_no_variable_is_believed() {
    let Some(sandbox) = Sandbox::given(&[Need::Root, Need::Bare], "mig4", "idle_memory = '99M'")
    else {
        return;
    };
    for name in ["getgpu", "cudawrap"] {
        let copy = sandbox.path(&format!("work/secure/{name}"));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        copy_program(sandbox.path("bin").join(name), &copy);
        std::os::unix::fs::chown(&copy, Some(0), Some(61_237)).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o2755)).unwrap();
    }
    let show = |program: &str| {
        let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
        let command = sandbox.bare("env").args(user.split(' '));
        command.args([program, "--show-config"]).run().stdout
    };
    // An ordinary copy reads GETGPU_CONFIG.
    let shown = show(&sandbox.text("bin/getgpu"));
    assert!(shown.contains("103809024"), "{shown}");
    let secure = show(&sandbox.text("work/secure/getgpu"));
    let believed = ["103809024", &sandbox.text("")].map(|part| secure.contains(part));
    assert!(!secure.is_empty(), "it shows nothing");
    assert_eq!(believed, [false; 2], "{secure}");
    let disabled = |program: &str| {
        let line = format!("CUDAWRAP_DISABLE=1 @/{program} -- true");
        sandbox.words(&line).uid(OTHER).run()
    };
    disabled("bin/cudawrap").exits(0).says(&[]);
    let secure = disabled("work/secure/cudawrap");
    assert_ne!(secure.code(), Some(0), "switched off by a variable");
}

/// What stands where a file is looked for: nothing hangs, and nothing is read without
/// end.
#[test]
fn pipes_and_devices_in_the_place_of_files_hang_nobody() {
    let sandbox = Sandbox::new("mig4");
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
    for name in ["pipe", "home/.config/getgpu/config.toml"] {
        fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
        nix::unistd::mkfifo(&sandbox.path(name), mode).unwrap();
    }
    let ask = || {
        let command = sandbox.words("getgpu --no-reserve");
        command.limit(Duration::from_secs(10))
    };
    let config = "home/.config/getgpu/config.toml";
    let why = format!("{config}: cannot be read: it is not a file");
    ask().run().refuses(2, &why);
    fs::remove_file(sandbox.path(config)).unwrap();
    for bad in [sandbox.text("pipe"), "/dev/zero".to_owned(), "/".to_owned()] {
        let named = ask().env("GETGPU_CONFIG", &bad).run();
        named.refuses(2, ": cannot be read: ");
        sandbox.set_settings(&format!("allowed_file = {bad:?}"));
        ask().run().refuses(2, ": cannot be read: ");
        sandbox.set_settings("");
    }
}
