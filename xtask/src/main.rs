//! `cargo run -p xtask`: writes man/ and completions/ anew from the tables. A test compares
//! what lies there with the tables, so that none is forgotten.

fn main() -> std::io::Result<()> {
    for made in xtask::all() {
        let path = xtask::top().join(&made.path);
        std::fs::create_dir_all(path.parent().unwrap_or(xtask::top()))?;
        std::fs::write(&path, &made.text)?;
    }
    Ok(())
}
