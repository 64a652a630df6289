//! What may take a link's place and is no newer program: create-cudawrap says what it is and
//! where the program is, and leaves both alone.

use crate::state_rows::hidden;
use crate::support::Sandbox;

/// What lies at `app/x`, beside the program `app/CUDAWRAP_x`, by the words for it.
type Oddity = (&'static str, fn(&Sandbox), &'static str);

/// The other forms of files are told apart by the unit tests of `state` and `executable`.
#[rustfmt::skip]
pub(crate) const ODDITIES: &[Oddity] = &[
    ("a copy of create-cudawrap over it",
        |s| (hidden(s), s.run_sh("cp bin/create-cudawrap app/x")).1,
        "is a copy of create-cudawrap"),
    ("a file that cannot be started over it", |s| (hidden(s), s.run_sh("echo data >app/x")).1,
        "is not executable"),
    ("a link over it to a script that runs the program",
        |s| (hidden(s), s.program("links/s", "#!/bin/sh\nexec /x/CUDAWRAP_x\n"),
            s.link("../links/s", "app/x")).2,
        "is a script that names CUDAWRAP_, so not a newer program"),
    ("a directory over it", |s| (hidden(s), s.run_sh("mkdir app/x")).1, "is a directory"),
];
