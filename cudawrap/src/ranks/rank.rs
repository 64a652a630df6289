//! One rank, and how the variables that tell it are read: what all launchers have in common.

use getgpu_model::Failure;

use crate::causes::CudawrapUsage;

/// One rank of a parallel program on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number on this node, from 0.
    pub local: usize,
    /// How many there are on this node, if that is known.
    pub size: Option<usize>,
    /// The devices of the whole step on this node, where the launcher may have given each
    /// rank its own already (Slurm).
    pub devices: Option<usize>,
    /// Whether it speaks for all: rank 0 of the whole program.
    pub first: bool,
}

impl Rank {
    /// Whether other ranks of the node may wait for this one.
    pub fn has_siblings(&self) -> bool {
        self.size.map_or(self.local > 0, |size| size > 1)
    }
}

/// How a variable of the environment is read.
pub type RankVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable that holds a number; `None` if it is not set or empty.
pub fn number(get: RankVariables<'_>, name: &str) -> Result<Option<usize>, Failure> {
    let Some(text) = Some(name)
        .filter(|name| !name.is_empty())
        .and_then(get)
        .filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    text.trim().parse().map(Some).map_err(|_| {
        let shown = getgpu_model::diag::printable(&text);
        CudawrapUsage::NotRank { name, shown }.into()
    })
}
