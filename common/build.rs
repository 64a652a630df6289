//! Has the programs contain GCC's unwinder (libgcc_eh.a) where there is one: Rust's standard
//! library asks the linker for libgcc_s.so, which the loader would have to find and map at
//! every start of a program. `-static-libgcc` does not change a library that is asked for
//! by its name, so the linker is shown another one of that name first.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    let linker = match std::env::var_os("RUSTC_LINKER") {
        Some(linker) => linker,
        None if variable("HOST") == variable("TARGET") => "cc".into(),
        None => return,
    };
    let find = |library: &str| -> Option<PathBuf> {
        let argument = format!("-print-file-name={library}");
        let output = Command::new(&linker).arg(argument).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        // A library that it does not have is printed as it was asked for.
        (output.status.success() && path.is_absolute() && path.is_file()).then_some(path)
    };
    let (Some(unwinder), Some(rest)) = (find("libgcc_eh.a"), find("libgcc.a")) else {
        return;
    };
    let directory = PathBuf::from(variable("OUT_DIR"));
    let script = format!("INPUT(\"{}\" \"{}\")\n", unwinder.display(), rest.display());
    if std::fs::write(directory.join("libgcc_s.so"), script).is_ok() {
        println!("cargo:rustc-link-search=native={}", directory.display());
    }
}
