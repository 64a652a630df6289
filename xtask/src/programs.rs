//! The three programs as their tables describe them. The tables are the programs' own
//! files, read here a second time, so that no program has to become a library for the
//! sake of its man page.

use clap::Command;
use getgpu_cli::HelpText;

#[path = "../../create-cudawrap/src/options/table.rs"]
pub mod create_cudawrap;
#[path = "../../cudawrap/src/options/table.rs"]
pub mod cudawrap;
#[path = "../../getgpu/core/src/options/table.rs"]
pub mod getgpu;

#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub command: Command,
    /// The texts beside the options.
    pub guide: HelpText,
    /// Its hand-written page, with places for what the tables know.
    pub page: &'static str,
}

pub fn all() -> [Program; 3] {
    [
        Program {
            name: "getgpu",
            command: getgpu::command(),
            guide: getgpu::GUIDE,
            page: include_str!("../pages/getgpu.1"),
        },
        Program {
            name: "cudawrap",
            command: cudawrap::command(),
            guide: cudawrap::GUIDE,
            page: include_str!("../pages/cudawrap.1"),
        },
        Program {
            name: "create-cudawrap",
            command: create_cudawrap::command(),
            guide: create_cudawrap::GUIDE,
            page: include_str!("../pages/create-cudawrap.1"),
        },
    ]
}
