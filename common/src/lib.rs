//! What getgpu, cudawrap and create-cudawrap share.

pub mod ask;
pub mod diag;
pub mod error;
pub mod exit;
pub mod ident;
pub mod inventory;
pub mod lock;
pub mod nvml;
pub mod procfs;
pub mod quantity;
pub mod settings;
pub mod sys;
