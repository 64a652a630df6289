//! create-cudawrap: makes a program start through cudawrap, and undoes that. Everything
//! is in the library, where tests and the generators of manual and completions reach it.

fn main() -> std::process::ExitCode {
    create_cudawrap::run::main()
}
