//! `cargo run -p xtask`: writes man/ and completions/ anew from the tables. A test compares
//! what lies there with the tables, so that none is forgotten. With `size`: counts lines.

use std::process::ExitCode;

fn main() -> ExitCode {
    let is_size = std::env::args().nth(1).is_some_and(|word| word == "size");
    let done = if is_size { show_size() } else { write() };
    match done {
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

fn show_size() -> Result<(), String> {
    let table = xtask::size::table(xtask::top())?;
    std::io::Write::write_all(&mut std::io::stdout(), table.as_bytes()).map_err(|e| e.to_string())
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
