//! `cargo run -p xtask`: writes man/ and completions/ anew from the tables, and Cargo.toml's
//! address where it has to stand. A test compares what lies there, so that none is forgotten. With `size`: counts lines; with
//! `messages`: prints all failures; with `rooms`: the lines that name an extra outside its place (`rooms --files`: by file).

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let table = match arguments.next().as_deref() {
        Some("messages") => Some(xtask::messages::table(xtask::top())),
        Some("size") => Some(xtask::size::table(xtask::top())),
        Some("rooms") => {
            let by_file = arguments.next().as_deref() == Some("--files");
            Some(xtask::rooms::table(xtask::top(), by_file))
        }
        _ => None,
    };
    if let Some(table) = table {
        return io::stdout().write_all(table.map_err(io::Error::other)?.as_bytes());
    }
    let addressed = xtask::address::all().map_err(io::Error::other)?;
    for made in xtask::all().into_iter().chain(addressed) {
        let path = xtask::top().join(&made.path);
        std::fs::create_dir_all(path.parent().unwrap_or(xtask::top()))?;
        std::fs::write(&path, &made.text)?;
    }
    Ok(())
}
