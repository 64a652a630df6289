//! What getgpu, cudawrap and create-cudawrap share.

pub mod diag;
pub mod error;
pub mod exit;
