//! Gives the library the soname of the one it stands for.
//! Programs that were linked against libnvidia-ml.so.1 then take it as that.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
