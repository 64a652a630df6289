//! `cargo run -p xtask`: writes man/ and completions/ anew from the tables. A test compares
//! what lies there with the tables, so that none is forgotten. With `size`: counts lines.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("size") {
        let table = xtask::size::table(xtask::top()).map_err(io::Error::other)?;
        return io::stdout().write_all(table.as_bytes());
    }
    for made in xtask::all() {
        let path = xtask::top().join(&made.path);
        std::fs::create_dir_all(path.parent().unwrap_or(xtask::top()))?;
        std::fs::write(&path, &made.text)?;
    }
    Ok(())
}
