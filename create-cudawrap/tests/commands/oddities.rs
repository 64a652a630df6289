//! What may take a link's place and is no newer program: create-cudawrap says what it is and
//! where the program is, and leaves both alone.

use crate::state_rows::hidden;
use crate::support::Sandbox;

/// What lies at `app/x`, beside the program `app/CUDAWRAP_x`, by the words for it.
type Oddity = (&'static str, fn(&Sandbox), &'static str);

#[rustfmt::skip]
pub(crate) const ODDITIES: &[Oddity] = &[
    ("a copy of create-cudawrap over it",
        |s| (hidden(s), s.run_sh("cp bin/create-cudawrap app/x")).1,
        "is a copy of create-cudawrap"),
    ("a file that cannot be started over it", |s| (hidden(s), s.run_sh("echo data >app/x")).1,
        "is not executable"),
    ("an empty file over it", |s| (hidden(s), s.run_sh(": >app/x; chmod 755 app/x")).1,
        "is an empty file"),
    ("a copy that was cut short over it",
        |s| (hidden(s), s.run_sh("head -c 9999 bin/cudawrap >app/x; chmod 755 app/x")).1,
        "is a program whose end is missing"),
    ("a text over it that the kernel does not execute",
        |s| (hidden(s), s.run_sh("echo echo >app/x; chmod 755 app/x")).1,
        "is a file that the kernel cannot execute"),
    ("a script over it that runs the program",
        |s| (hidden(s), s.program("app/x", "#!/bin/sh\nexec \"${0%/*}/CUDAWRAP_x\" mine\n")).1,
        "is a script that names CUDAWRAP_, so not a newer program"),
    ("a script over it that makes the program's name",
        |s| (hidden(s), s.program("app/x", "#!/bin/sh\nexec \"./CUDAWRAP_$(basename $0)\"\n")).1,
        "is a script that names CUDAWRAP_, so not a newer program"),
    ("a link over it to such a script",
        |s| (hidden(s), s.program("links/s", "#!/bin/sh\nexec /x/CUDAWRAP_x\n"),
            s.link("../links/s", "app/x")).2,
        "is a script that names CUDAWRAP_, so not a newer program"),
    ("a link over it that leads nowhere", |s| (hidden(s), s.link("nothing", "app/x")).1,
        "is a link that leads to no file (nothing)"),
    ("a directory over it", |s| (hidden(s), s.run_sh("mkdir app/x")).1, "is a directory"),
];
