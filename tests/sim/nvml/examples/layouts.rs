//! Prints the sizes and offsets of the structures that the simulated library fills.
//! `outsiders/check.sh` compares them with those of NVIDIA's own header.
#![allow(clippy::print_stdout, reason = "printing is its job")]

fn main() {
    print!("{}", sim_nvml::abi::layouts());
}
