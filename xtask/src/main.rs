//! `cargo run -p xtask`: writes man/ and completions/ anew from the tables.
//! A test compares what lies there with the tables, so that none is forgotten.

use std::process::ExitCode;

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // The same form as the programs' own messages, which `diag` writes.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("xtask: {why}\n").as_bytes(),
            );
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), String> {
    for made in xtask::all()? {
        let path = xtask::top().join(&made.path);
        let directory = path.parent().unwrap_or(xtask::top());
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        std::fs::write(&path, &made.text)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
