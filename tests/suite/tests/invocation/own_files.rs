//! Programs that look for their other files from argv[0], links followed: once wrapped that
//! ends in cudawrap's directory, and `argv0 = "file"` gives them the path of their own file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use getgpu_tests::wrapped::wrap_shell;
use harness::{Sandbox, copy_program};

/// As `gmx` finds `share/gromacs` in a tree that was moved.
const LOOK: &str = r#"f=$(readlink -f "$0"); cat "${f%/*}/../share/gromacs/residuetypes.dat""#;

#[test]
fn a_program_of_a_moved_tree_finds_its_files_by_the_setting() {
    let sandbox = Sandbox::new("mig4");
    wrap_shell(&sandbox, "tree/bin", "gmx");
    sandbox.file("tree/share/gromacs/residuetypes.dat", "protein\n", 0o644);
    fs::rename(sandbox.path("tree"), sandbox.path("moved")).unwrap();
    let gmx = sandbox.text("moved/bin/gmx");
    let run = |start: &str| {
        let script = format!("cd ../moved; {start} -c '{}'", LOOK.replace('\'', "'\\''"));
        sandbox.shell("bash", &script).run()
    };
    // A link to the wrapped path, a relative path, and by PATH.
    symlink(&gmx, sandbox.path("work/link")).unwrap();
    let by_path = "PATH=$PWD/bin:$PATH gmx";
    let link = sandbox.text("work/link");
    let starts = [&*gmx, "bin/gmx", "./bin/gmx", by_path, &link];
    for start in starts {
        assert_ne!(run(start).code(), Some(0), "{start}: by its name");
    }
    sandbox.set_settings("[program.'gmx']\nargv0 = 'file'");
    for start in starts {
        run(start).exits(0).prints("protein\n");
    }
    // Nobody else's name is changed, nor by cudawrap's own name.
    run(&format!("CUDAWRAP_DISABLE=1 {gmx}"))
        .exits(0)
        .prints("protein\n");
    wrap_shell(&sandbox, "opt", "other");
    let name = |start: &str| {
        sandbox
            .shell("bash", &format!("{start} -c 'echo $0'"))
            .run()
            .line()
    };
    assert_eq!(name("PATH=../opt:$PATH; exec -a mine other"), "mine");
    assert_eq!(
        name("PATH=../moved/bin:$PATH; cudawrap -- CUDAWRAP_gmx"),
        "CUDAWRAP_gmx"
    );
}

/// A copied or conda Python finds its modules from its own file.
#[test]
fn a_copied_python_keeps_its_prefix_by_the_setting() {
    let python = fs::canonicalize("/usr/bin/python3").ok();
    let Some(python) = python.filter(|path| path.file_name().is_some()) else {
        return;
    };
    let version = python.file_name().unwrap().to_str().unwrap().to_owned();
    let library = format!("/usr/lib/{version}");
    if !fs::exists(&library).unwrap_or(false) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    wrap_shell(&sandbox, "env/bin", &version);
    let hidden = sandbox.path(&format!("env/bin/CUDAWRAP_{version}"));
    fs::remove_file(&hidden).unwrap();
    copy_program(&python, &hidden);
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(sandbox.path("env/lib")).unwrap();
    symlink(&library, sandbox.path(&format!("env/lib/{version}"))).unwrap();
    let prefix = || {
        let line = format!("@/env/bin/{version} -c import\\tsys;print(sys.prefix)");
        let line = line.replace("\\t", "\t");
        let mut words = line.split(' ');
        let command = sandbox.words(words.next().unwrap());
        command.args(words).run().line()
    };
    assert_ne!(prefix(), sandbox.text("env"));
    sandbox.set_settings("[program.'python*']\nargv0 = 'file'");
    assert_eq!(prefix(), sandbox.text("env"));
}

/// A part of a pipeline that runs beside another program today would end once it is wrapped.
#[test]
fn create_cudawrap_names_the_parts_of_pipelines_that_wait() {
    let sandbox = Sandbox::new("mig4");
    let names = ["eddy_cuda10.2", "eddy", "bedpostx_gpu", "eddy_cpu"];
    let script = "mkdir ../fsl && for p in $*; do cp ../bin/sim-cuda ../fsl/$p; done";
    let copy = sandbox.shell("sh", &script.replace("$*", &names.join(" ")));
    copy.run().exits(0);
    let create = |words: &str| {
        let command = sandbox.words(&format!("create-cudawrap {words}"));
        command.env("XDG_STATE_HOME", sandbox.path("state")).run()
    };
    let told = create("@/fsl/eddy_cuda10.2");
    let wait = "set wait = \"12h\" below [program.\"eddy_cuda10.2\"]";
    told.exits(0).mentions(wait);
    let told = create("@/fsl/eddy");
    told.exits(0).mentions("undo this, and wrap eddy_cuda*");
    let told = create("@/fsl/bedpostx_gpu");
    told.exits(0).mentions("undo this, and wrap xfibres_gpu");
    assert!(!create("@/fsl/eddy_cpu").exits(0).stderr.contains("hint"));
    create("--undo @/fsl/eddy_cuda10.2").exits(0);
    sandbox.set_settings("[program.'eddy_cuda*']\nwait = '12h'");
    let told = create("@/fsl/eddy_cuda10.2");
    assert!(!told.exits(0).stderr.contains("hint"), "{told:#?}");
}

/// Whoever wraps such a program is told, and `--status` shows what is set.
#[test]
fn create_cudawrap_tells_of_programs_that_look_for_their_files() {
    let sandbox = Sandbox::new("mig4");
    sandbox.file("tree/share/gromacs/x", "", 0o644);
    let script = "mkdir -p ../tree/bin ../plain && for p in tree/bin/gmx plain/python3.9 plain/app; do cp ../bin/sim-cuda ../$p; done";
    sandbox.shell("sh", script).run().exits(0);
    let create = |words: &str| {
        let command = sandbox.words(&format!("create-cudawrap {words}"));
        command.env("XDG_STATE_HOME", sandbox.path("state")).run()
    };
    let hint = |name: &str| {
        format!("it does not find them, set argv0 = \"file\" below [program.\"{name}\"]")
    };
    let several = "divides several itself, set count = \"all\" below [program.\"gmx\"]";
    let told = create("@/tree/bin/gmx");
    told.exits(0).mentions(&hint("gmx")).mentions(several);
    create("@/plain/python3.9")
        .exits(0)
        .mentions(&hint("python3.9"));
    let plain = create("@/plain/app");
    assert!(!plain.exits(0).stderr.contains("argv0"), "{plain:#?}");
    create("--undo @/tree/bin/gmx").exits(0);
    sandbox.set_settings("[program.'gmx']\nargv0 = 'file'\nlease = 'first_call'\ncount = 'all'");
    let told = create("@/tree/bin/gmx");
    assert!(!told.exits(0).stderr.contains("hint"), "{told:#?}");
    let status = create("--status @/tree/bin @/plain")
        .exits(0)
        .stdout
        .clone();
    let lines: Vec<&str> = status.lines().collect();
    assert!(
        lines[0]
            .ends_with("gmx: wrapped (argv0 = \"file\", lease = \"first_call\", count = \"all\")"),
        "{status}"
    );
    assert!(lines[1].ends_with("app: wrapped"), "{status}");
    // A script calls its siblings by $0.
    sandbox.file("plain/script", "#!/bin/sh\nexec ${0%/*}/app\n", 0o755);
    create("@/plain/script")
        .exits(0)
        .mentions("if it starts others by $0, use --link-dir instead");
    // Root's record of what is wrapped is the host's.
    create("--undo -q @/tree/bin/gmx @/plain/python3.9 @/plain/app @/plain/script").exits(0);
}
