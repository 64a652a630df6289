//! What getgpu, cudawrap and create-cudawrap share.

pub mod afresh;
pub mod ask;
pub mod batch;
pub mod choice;
pub mod cpus;

pub mod detached;
pub mod diag;
pub mod error;
pub mod exit;
pub mod flags;
pub mod frameworks;
pub mod guide;
pub mod ident;
pub mod inventory;
pub mod job;
pub mod line;
pub mod lock;
pub mod locked;
pub mod nvml;
pub mod ownership;
pub mod pool;
pub mod procfs;
pub mod quantity;
pub mod record;
pub mod recorder;
pub mod request;
pub mod settings;
pub mod share;
pub mod sys;
pub mod typed;
pub mod visible;
