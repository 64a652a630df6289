//! The table of states: the files of a path, and what each command makes of them.

use crate::support::Sandbox;

/// `app/x`, `app/CUDAWRAP_x` and `app/.CUDAWRAP_x~` as a state has them.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) files: fn(&Sandbox),
    /// Its words, up to a `(` or to a `)`.
    pub(crate) status: &'static str,
    pub(crate) attention: bool,
    /// The names in `app` afterwards, and what `x` prints; or a word of the refusal.
    pub(crate) wrap: Result<(&'static str, &'static str), &'static str>,
    pub(crate) repair: Result<(&'static str, &'static str), &'static str>,
    pub(crate) undo: Result<(&'static str, &'static str), &'static str>,
}

const PLAIN: Result<(&str, &str), &str> = Ok(("x", "one a b"));

const WRAPPED: Result<(&str, &str), &str> = Ok(("CUDAWRAP_x x", "one a b"));

fn app(s: &Sandbox) {
    s.script("app/x", "one");
}

fn hidden(s: &Sandbox) {
    s.script("app/CUDAWRAP_x", "one");
}

fn upgraded(s: &Sandbox) {
    app(s);
    s.script("app/CUDAWRAP_x", "old");
}

fn ours(s: &Sandbox, name: &str) {
    s.link(s.path("bin/cudawrap"), name);
}

fn migtools(s: &Sandbox) {
    s.script("bin/migtools_wrapper", "m");
    s.link("../bin/migtools_wrapper", "app/x");
}

fn gone(s: &Sandbox, name: &str) {
    s.link("/nowhere/cudawrap", name);
}

/// It is said what is there and where the program is, and both are left alone.
#[rustfmt::skip]
const LEFT_ALONE: Row = Row { name: "", files: |_| (), status: "", attention: true,
    wrap: Err("; the program is CUDAWRAP_name beside it"),
    repair: Err("; the program is CUDAWRAP_name beside it"),
    undo: Err("; the program is CUDAWRAP_name beside it") };

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    Row { name: "plain", files: app, status: "plain", attention: false, wrap: WRAPPED,
        repair: PLAIN, undo: PLAIN },
    Row { name: "wrapped", files: |s| (hidden(s), ours(s, "app/x")).1, status: "wrapped",
        attention: false, wrap: WRAPPED, repair: WRAPPED, undo: PLAIN },
    Row { name: "wrapped, not executable",
        files: |s| (hidden(s), ours(s, "app/x"), s.run_sh("chmod a-x app/CUDAWRAP_x")).2,
        status: "broken", attention: true, wrap: Err("cannot be run"), repair: Err("cannot be run"),
        undo: Ok(("x", "")) },
    Row { name: "same file", files: |s| (app(s), s.run_sh("ln app/x app/CUDAWRAP_x")).1,
        status: "plain", attention: true, wrap: WRAPPED, repair: WRAPPED, undo: PLAIN },
    Row { name: "same file, not executable",
        files: |s| (app(s), s.run_sh("ln app/x app/CUDAWRAP_x; chmod a-x app/x")).1,
        status: "plain", attention: true, wrap: Err("is not executable"),
        repair: Err("is not executable"), undo: Ok(("x", "")) },
    Row { name: "wrapped, our link left over",
        files: |s| (hidden(s), ours(s, "app/x"), ours(s, "app/.CUDAWRAP_x~")).2, status: "wrapped",
        attention: true, wrap: WRAPPED, repair: WRAPPED, undo: PLAIN },
    Row { name: "cudawrap gone", files: |s| (hidden(s), gone(s, "app/x")).1, status: "broken",
        attention: true, wrap: WRAPPED, repair: WRAPPED, undo: PLAIN },
    Row { name: "upgraded over", files: upgraded, status: "upgraded over", attention: true,
        wrap: Err("--repair"), repair: Ok(("CUDAWRAP_x CUDAWRAP_x.replaced-1 x", "one a b")),
        undo: Err("both are kept") },
    Row { name: "upgraded over for the second time",
        files: |s| (upgraded(s), s.script("app/CUDAWRAP_x.replaced-1", "older")).1, status: "upgraded over",
        attention: true, wrap: Err("--repair"),
        repair: Ok(("CUDAWRAP_x CUDAWRAP_x.replaced-1 CUDAWRAP_x.replaced-2 x", "one a b")),
        undo: Err("both are kept") },
    Row { name: "upgraded over, repair stopped half way",
        files: |s| (upgraded(s), s.run_sh("ln app/CUDAWRAP_x app/CUDAWRAP_x.replaced-1"),
            s.run_sh("ln app/x app/.CUDAWRAP_x~")).1,
        status: "upgraded over", attention: true, wrap: Err("--repair"),
        repair: Ok(("CUDAWRAP_x CUDAWRAP_x.replaced-1 x", "one a b")), undo: Err("both are kept") },
    Row { name: "copied", files: |s| (hidden(s), s.run_sh("cp bin/cudawrap app/x")).1,
        status: "copied", attention: true, wrap: Err("--repair"), repair: WRAPPED, undo: PLAIN },
    Row { name: "a stripped copy",
        files: |s| (hidden(s), s.run_sh("strip -o app/x bin/cudawrap || cp bin/cudawrap app/x")).1,
        status: "copied", attention: true, wrap: Err("--repair"), repair: WRAPPED, undo: PLAIN },
    Row { name: "a link to a copy under another name",
        files: |s| (hidden(s), s.run_sh("cp bin/cudawrap links/cudawrap-0.1"),
            s.link("../links/cudawrap-0.1", "app/x")).2,
        status: "copied", attention: true, wrap: Err("--repair"), repair: WRAPPED, undo: PLAIN },
    Row { name: "a copy without a program", files: |s| s.run_sh("cp bin/cudawrap app/x"),
        status: "copied", attention: true, wrap: Err("cudawrap itself"),
        repair: Err("is copied: a copy of cudawrap, with no CUDAWRAP_x beside it"),
        undo: Ok(("x", "")) },
    Row { name: "upgraded from one version behind a link to another",
        files: |s| (s.script("app/x-2", "one"), s.link("x-2", "app/x"),
            s.link("x-1", "app/CUDAWRAP_x")).2,
        status: "upgraded over", attention: true, wrap: Err("--repair"),
        repair: Ok(("CUDAWRAP_x CUDAWRAP_x.replaced-1 x x-2", "one a b")), undo: Err("both are kept") },
    Row { name: "unwrapped by hand", files: |s| (hidden(s), s.link("CUDAWRAP_x", "app/x")).1,
        status: "plain", attention: false, wrap: WRAPPED, repair: WRAPPED, undo: PLAIN },
    Row { name: "unwrapped by hand, through another directory",
        files: |s| (hidden(s), s.link("../app/CUDAWRAP_x", "links/far"),
            s.link("../links/far", "app/x")).2,
        status: "plain", attention: false, wrap: WRAPPED, repair: WRAPPED, undo: PLAIN },
    Row { name: "path missing", files: hidden, status: "broken", attention: true,
        wrap: Err("--undo"), repair: Err("--undo"), undo: PLAIN },
    Row { name: "program lost", files: |s| (ours(s, "app/x"), ours(s, "app/CUDAWRAP_x")).1,
        status: "broken", attention: true, wrap: Err("its program does not exist"),
        repair: Err("its program does not exist"), undo: Err("its program does not exist") },
    Row { name: "link without program", files: |s| ours(s, "app/x"), status: "broken",
        attention: true, wrap: Err("no program"), repair: Err("no program"), undo: Ok(("", "")) },
    Row { name: "migtools", files: |s| (s.script("app/MIGTOOLS_x", "one"), migtools(s)).1,
        status: "foreign", attention: true, wrap: WRAPPED, repair: WRAPPED, undo: Err("migtools") },
    Row { name: "migtools, adopted half-way",
        files: |s| (s.script("app/MIGTOOLS_x", "one"), migtools(s),
            s.run_sh("ln app/MIGTOOLS_x app/CUDAWRAP_x")).2,
        status: "foreign", attention: true, wrap: WRAPPED, repair: WRAPPED, undo: Err("migtools") },
    Row { name: "migtools, adopted but for the last step",
        files: |s| (hidden(s), ours(s, "app/x"), s.run_sh("ln app/CUDAWRAP_x app/MIGTOOLS_x")).2,
        status: "wrapped", attention: false, wrap: WRAPPED,
        repair: Ok(("CUDAWRAP_x MIGTOOLS_x x", "one a b")),
        undo: Ok(("MIGTOOLS_x x", "one a b")) },
    Row { name: "migtools without its program", files: migtools, status: "foreign",
        attention: true, wrap: Err("does not exist"), repair: Err("does not exist"),
        undo: Err("migtools") },
    Row { name: "another's file in the way",
        files: |s| (app(s), s.run_sh("echo data >app/CUDAWRAP_x")).1, status: "foreign",
        attention: true, wrap: Err("something else"), repair: Err("something else"),
        undo: Err("something else") },
    Row { name: "another's directory in the way",
        files: |s| (app(s), s.run_sh("mkdir app/CUDAWRAP_x")).1, status: "foreign",
        attention: true, wrap: Err("something else"), repair: Err("something else"),
        undo: Err("something else") },
    Row { name: "link to a program",
        files: |s| (s.script("app/x-1.2", "one"), s.link("x-1.2", "app/x")).1, status: "plain",
        attention: false, wrap: Ok(("CUDAWRAP_x x x-1.2", "one a b")),
        repair: Ok(("x x-1.2", "one a b")), undo: Ok(("x x-1.2", "one a b")) },
    Row { name: "link to a wrapped path",
        files: |s| (s.script("app/CUDAWRAP_x1", "one"), ours(s, "app/x1"), s.link("x1", "app/x")).2,
        status: "wrapped", attention: false, wrap: Ok(("CUDAWRAP_x1 x x1", "")),
        repair: Ok(("CUDAWRAP_x1 x x1", "")), undo: Err("undo that one") },
    Row { name: "link that leads nowhere", files: |s| s.link("nothing", "app/x"), status: "broken",
        attention: true, wrap: Err("leads to no file"), repair: Err("leads to no file"),
        undo: Ok(("x", "")) },
    // What may take the link's place and is no newer program; other forms of files are told apart
    // by the unit tests of `state` and `executable`.
    Row { name: "a copy of create-cudawrap over it",
        files: |s| (hidden(s), s.run_sh("cp bin/create-cudawrap app/x")).1,
        status: "broken (a copy of create-cudawrap; the program is CUDAWRAP_name beside it",
        ..LEFT_ALONE },
    Row { name: "a file that cannot be started over it",
        files: |s| (hidden(s), s.run_sh("echo data >app/x")).1,
        status: "broken (not executable; the program is CUDAWRAP_name beside it", ..LEFT_ALONE },
    Row { name: "a link over it to a script that runs the program",
        files: |s| (hidden(s), s.program("links/s", "#!/bin/sh\nexec /x/CUDAWRAP_x\n"),
            s.link("../links/s", "app/x")).2,
        status: "broken (a script that names CUDAWRAP_, so not a newer program; \
            the program is CUDAWRAP_name beside it", ..LEFT_ALONE },
    Row { name: "a directory over it", files: |s| (hidden(s), s.run_sh("mkdir app/x")).1,
        status: "broken (a directory; the program is CUDAWRAP_name beside it", ..LEFT_ALONE },
];
