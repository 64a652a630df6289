//! The address of the repository, which Cargo.toml says once: `cargo run -p xtask` writes it into
//! the files of other tools, which cannot read it there. cargo-deb and cargo-generate-rpm can.

use std::path::PathBuf;

use crate::Made;

/// Where the address is written: a file, what is before it, once in the file, and what ends it.
const PLACES: [(&str, &str, &str); 9] = [
    ("CITATION.cff", "repository-code: \"", "\""),
    ("SECURITY.md", "address of this project is <", ">"),
    ("packaging/README.md", "address of this project is <", ">"),
    ("packaging/conda/recipe.yaml", "  repository: ", "\n"),
    ("packaging/deb/copyright", "Source: ", "\n"),
    ("packaging/easybuild/getgpu-0.1.0.eb", "\nhomepage = '", "'"),
    ("packaging/python/pyproject.toml", "\nRepository = \"", "\""),
    ("packaging/rpm/getgpu.spec", "\nURL:            ", "\n"),
    ("packaging/spack/package.py", "    git = \"", "\""),
];

/// `text` with `address` in the one place between `before` and `after`; `None` if it has none.
fn placed(text: &str, address: &str, before: &str, after: &str) -> Option<String> {
    let (head, rest) = text.split_once(before)?;
    let tail = &rest[rest.find(after)?..];
    (!rest.contains(before)).then(|| format!("{head}{before}{address}{tail}"))
}

/// Each file that has the address, with that of Cargo.toml in it.
///
/// # Errors
/// A file cannot be read, or has not the one place for the address.
pub fn all() -> Result<Vec<Made>, String> {
    let top = crate::top();
    PLACES
        .iter()
        .map(|&(path, before, after)| {
            let text = std::fs::read_to_string(top.join(path));
            let text = text.map_err(|error| format!("{path}: {error}"))?;
            let text = placed(&text, env!("CARGO_PKG_REPOSITORY"), before, after)
                .ok_or_else(|| format!("{path} does not have {before:?} once"))?;
            let path = PathBuf::from(path);
            Ok(Made { path, text })
        })
        .collect()
}
