//! Whatever the name, the path or the loader, a link to cudawrap runs the program beside
//! it. Each way runs with a link to cudawrap, a link to that link, and one more.

use std::fs;
use std::os::unix::fs::symlink;

use getgpu_tests::wrapped::{Facts, wrap};
use harness::{Sandbox, skip, wait};

/// What needs which tool, how the link is started, the name that the program must find in
/// argv\[0\], and the arguments before `one`.
type Text = &'static str;
type Way = (Text, Option<Text>, Text, Text, &'static [Text]);

const fn way(what: Text, script: Text, name: Text) -> Way {
    (what, None, script, name, &[])
}

const fn tool(needs: Text, script: Text, name: Text) -> Way {
    (needs, Some(needs), script, name, &[])
}

const fn script(what: Text, script: Text, before: &'static [Text]) -> Way {
    (what, None, script, "@/app", before)
}

/// `@` is the link's directory. The working directory is the one above it.
#[rustfmt::skip]
const WAYS: [Way; 47] = [
    way("absolute", "@/app one", "@/app"),
    way("relative", "a/app one", "a/app"),
    way("relative to here", "cd a; ./app one", "./app"),
    way("through the directory above", "cd other; ../a/app one", "../a/app"),
    way("slashes and dots", "a//.///app one", "a//.///app"),
    way("PATH", "PATH=@:$PATH; app one", "app"),
    way("a relative element of PATH", "PATH=a:$PATH; launch app one", "app"),
    way("an empty element of PATH", "cd a; PATH=:$PATH; launch app one", "app"),
    way("an empty element at the end of PATH", "cd a; PATH=$PATH:; launch app one", "app"),
    way("a dot in PATH", "cd a; PATH=.:$PATH; launch app one", "app"),
    way("a link to the directory", "ln -s a dir; dir/app one", "dir/app"),
    way("a link to a link to the directory",
        "ln -s @ d1; ln -s d1 d2; PATH=d2:$PATH; launch app one", "app"),
    way("exec -a", "exec -a other @/app one", "other"),
    way("exec -a, another path", "exec -a /usr/bin/true @/app one", "/usr/bin/true"),
    way("exec -a, an empty name", "exec -a '' @/app one", ""),
    way("exec -l", "exec -l @/app one", "-@/app"),
    way("exec -l by PATH", "PATH=@:$PATH; exec -l app one", "-app"),
    way("exec -a cudawrap", "exec -a cudawrap @/app one", "cudawrap"),
    way("a name that says the hidden program", "launch --as @/CUDAWRAP_app a/app one",
        "@/CUDAWRAP_app"),
    way("execveat in its directory", "launch --at @ app one", "app"),
    way("by descriptor, argv[0] with the path", "launch --as @/app --by-fd @/app one", "@/app"),
    way("by descriptor, argv[0] in PATH", "PATH=@:$PATH; launch --as app --by-fd @/app one", "app"),
    way("a descriptor of its directory", "exec 7<@; exec /proc/self/fd/7/app one",
        "/proc/self/fd/7/app"),
    way("/dev/fd", "exec 7<a; exec /dev/fd/7/app one", "/dev/fd/7/app"),
    way("/proc/self/cwd", "/proc/self/cwd/a/app one", "/proc/self/cwd/a/app"),
    way("/proc/self/root", "/proc/self/root/@/app one", "/proc/self/root/@/app"),
    way("a working directory that is gone", "mkdir gone; cd gone; rmdir ../gone; @/app one",
        "@/app"),
    way("command", "command @/app one", "@/app"),
    way("a subshell", "(@/app one)", "@/app"),
    way("env", "env @/app one", "@/app"),
    way("env by PATH", "PATH=@:$PATH env app one", "app"),
    way("an empty environment", "env -i $(env | grep -E '^(GET|SIM|LD)') @/app one", "@/app"),
    tool("nohup", "nohup @/app one", "@/app"),
    tool("nice", "nice @/app one", "@/app"),
    tool("timeout", "timeout 20 @/app one", "@/app"),
    tool("setsid", "setsid -w @/app one", "@/app"),
    tool("xargs", "echo one | xargs @/app", "@/app"),
    tool("find", "find @/app -exec {} one ';'", "@/app"),
    tool("perl", "perl -e 'exec {\"@/app\"} \"odd\", \"one\"'", "odd"),
    tool("strace", "strace -o trace @/app one", "@/app"),
    tool("gdb", "gdb -q -batch -return-child-result -ex run --args @/app one 2>/dev/null", "@/app"),
    tool("valgrind", "valgrind -q --trace-children=yes @/app one", "@/app"),
    way("without an argument vector", "launch --no-argv @/app", ""),
    script("an interpreter", "printf '#!@/app\\n' >s; chmod +x s; ./s one", &["./s"]),
    script("an interpreter with an argument", "printf '#!@/app -x y\\n' >s; chmod +x s; ./s one",
        &["-x y", "./s"]),
    script("an interpreter in PATH",
        "printf '#!@/app\\n' >s; chmod +x s; PATH=.:$PATH; launch s one", &["./s"]),
    script("an interpreter called by env",
        "printf '#!/usr/bin/env @/app\\n' >s; chmod +x s; ./s one", &["./s"]),
];

/// Where the payload is, by depth.
const PAYLOADS: [&str; 3] = [
    "/work/a/CUDAWRAP_app",
    "/work/a/CUDAWRAP_app1.2",
    "/opt/bin/CUDAWRAP_app-real",
];

/// `work/a/app`, so many links away from cudawrap; the payload is beside the last of
/// them.
fn place(depth: usize) -> Sandbox {
    let sandbox = Sandbox::new("mig4");
    fs::create_dir_all(sandbox.path("work/other")).unwrap();
    fs::create_dir_all(sandbox.path("work/a")).unwrap();
    match depth {
        1 => drop(wrap(&sandbox, "work/a", "app", "probe")),
        2 => {
            // As python3 is to python3.11: in one directory, by a relative link.
            wrap(&sandbox, "work/a", "app1.2", "probe");
            symlink("app1.2", sandbox.path("work/a/app")).unwrap();
        }
        _ => {
            // As /etc/alternatives has it. A sibling nearer to the start does not count.
            let last = wrap(&sandbox, "opt/bin", "app-real", "probe");
            symlink(last, sandbox.path("opt/alternative")).unwrap();
            symlink("../../opt/alternative", sandbox.path("work/a/app")).unwrap();
            let wrong = "#!/bin/sh\necho the wrong one\n";
            sandbox.file("work/a/CUDAWRAP_app", wrong, 0o755);
        }
    }
    sandbox
}

#[test]
fn every_way_runs_the_right_program_with_its_name_and_arguments() {
    getgpu_tests::all_at_once(1..=3, |depth| {
        for (what, needs, script, name, before) in WAYS {
            if needs.is_some_and(|tool| skip::lacks(&[skip::Need::Tool(tool)])) {
                continue;
            }
            let sandbox = place(depth);
            let directory = sandbox.text("work/a");
            let [script, name] = [script, name].map(|text| text.replace('@', &directory));
            if what == "valgrind" {
                // On a busy machine NVML takes longer under it than a driver that hangs.
                sandbox.set_settings("nvml_timeout = '3m'");
            }
            let outcome = sandbox.shell("bash", &script).limit(4 * wait::LONG).run();
            let shown = format!("{what} at depth {depth}: {outcome:#?}");
            assert_eq!((outcome.code(), &*outcome.stderr), (Some(0), ""), "{shown}");
            let facts = Facts::parse(&outcome.stdout);
            let one = (what != "without an argument vector").then_some("one");
            let mut arguments = facts.arguments();
            // valgrind starts what is executed under it by its path, wrapped or not.
            if what == "valgrind" {
                arguments[0] = &name;
            }
            let expected = [name.as_str()]
                .into_iter()
                .chain(before.iter().copied())
                .chain(one);
            assert_eq!(arguments, expected.collect::<Vec<_>>(), "{shown}");
            let ran = facts.get("exe").unwrap();
            assert!(ran.ends_with(PAYLOADS[depth - 1]), "{shown}");
            let uuid = facts.visible().unwrap_or_default().to_owned();
            assert!(sandbox.uuids().contains(&uuid), "{shown}");
        }
    });
}

/// A directory of links at the end of PATH has nothing behind it, and an empty rest of
/// PATH is not the working directory.
#[test]
fn a_working_directorys_program_is_never_run_for_one_in_path() {
    let sandbox = Sandbox::new("mig4");
    fs::create_dir_all(sandbox.path("links")).unwrap();
    symlink(sandbox.path("bin/cudawrap"), sandbox.path("links/app")).unwrap();
    sandbox.file("work/app", "#!/bin/sh\necho planted\n", 0o755);
    let script = format!("PATH=/usr/bin:/bin:{}; app", sandbox.text("links"));
    let outcome = sandbox.shell("sh", &script).run();
    let line = "links/app: there is no CUDAWRAP_app beside it and no other app in PATH";
    outcome.refuses(127, line);
    // One that is asked for is another matter.
    let asked = script.replace("; app", ":.; app");
    sandbox
        .shell("sh", &asked)
        .run()
        .exits(0)
        .prints("planted\n");
}
