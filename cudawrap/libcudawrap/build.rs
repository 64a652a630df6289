//! Keeps the library in the process once it is loaded: who unloads it and loads it again
//! finds the lease that the program has.

fn main() {
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
