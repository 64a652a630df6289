//! What ends a test's processes when the test program is killed: a shell that waits for the
//! end of a pipe which only the test program has open, then kills what belongs to its
//! sandboxes and removes them.

use std::io::PipeWriter;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// In the background, so that it is no child of the test program.
const SCRIPT: &str = r#"exec 3<&0
(trap '' HUP INT TERM
read -r _ <&3
for try in 1 2 3 4 5; do
    found=$( { grep -lsF "/$1" /proc/[0-9]*/environ
        find /proc/[0-9]*/fd -lname "*/$1*" 2>/dev/null; } | cut -d/ -f3 | sort -u)
    [ "$found" ] || break
    kill -9 $found 2>/dev/null
done
rm -rf "$0/$1"*) &"#;

/// The beginning of the names of this program's sandboxes below `base`, which a watcher
/// knows.
pub(crate) fn prefix(base: &std::path::Path) -> String {
    static PIPE: OnceLock<Option<PipeWriter>> = OnceLock::new();
    let prefix = format!("getgpu-test-{}-", std::process::id());
    PIPE.get_or_init(|| {
        let (reader, writer) = std::io::pipe().ok()?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT]).arg(base).arg(&prefix);
        shell
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/");
        let shell = shell
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        shell.process_group(0).status().ok()?;
        Some(writer)
    });
    prefix
}
