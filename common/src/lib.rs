//! What getgpu, cudawrap and create-cudawrap share. Modules in layers: each uses only
//! what stands above it.
//!
//! | layer | modules |
//! | --- | --- |
//! | the kernel's edges | `sys` system calls that no crate offers, `blocked_signals` signals held back for a moment, `byte_range` ranges of the lock file, `child` making and reaping a process, `procfs` what /proc tells, `resolve_program` which program a wrapped path runs, `installed` files of this installation, `descriptors` which ones a process has, `poll` waiting until one is ready, `reader_child` reads what may hang, `detached` starts the small processes that outlive a program, `unseen_child` those that a program waits for and never sees |
//! | words and values | `error` and `exit` failures and their statuses, `startup` whether there is memory to start in, `package_mark` how this package's executables are known, `diag` lines for people, `ident` UUIDs, `mig_profile` names of MIG profiles, `quantity` sizes and times, `similar` what was meant by a mistyped word, `cpus` sets of CPUs, `batch` and `job` what a batch system says |
//! | the lock | `lock` taking, confirming and reading locks, `share` parts of a device in units of the lock |
//! | the node | `inventory` GPUs and devices as data, `gpu_listing` how they are put together, `gpu_bus` whether GPUs are on the bus, `health` whether a GPU is well, `visible` CUDA_VISIBLE_DEVICES, `frameworks` variables for shares, `settings` files, variables and the site's lists, `node_lock` the lock of this node, `syslog` the system's log |
//! | what is typed | `flags` the form of a table of options, `shared_flags` the options that several programs have, `help_text` help texts, `overrides` options as settings |
//! | one call | `pool` which devices it may choose from, `index_order` what INDEX counts, `nearest` which is best for a rank, `ownership` what it owns already, `nvml_client` the session with the process that asks NVML, `node` what was read through it, `hook` that between libcudawrap.so and cudawrap, `request` what it asks for |
//! | choosing | `choice` claiming free devices, `queue` waiting for them, `select` one look at the node |
//!
//! NVML itself is in the crate `getgpu-nvml`, in `common/nvml`, which getgpu alone links.

pub mod blocked_signals;
pub mod byte_range;
pub mod child;
pub mod descriptors;
pub mod detached;
pub mod installed;
pub mod poll;
pub mod procfs;
pub mod reader_child;
pub mod resolve_program;
pub mod sys;
pub mod trust;
pub mod unseen_child;

pub mod batch;
pub mod cpus;
pub mod diag;
pub mod error;
pub mod exit;
pub mod frameworks;
pub mod ident;
pub mod job;
pub mod mig_profile;
pub mod package_mark;
pub mod quantity;
pub mod similar;
pub mod startup;
pub mod units;

pub mod lock;
pub mod share;

pub mod gpu_bus;
pub mod gpu_listing;
pub mod health;
pub mod inventory;
pub mod node_lock;
pub mod settings;
pub mod syslog;
pub mod visible;

pub mod flags;
pub mod help_text;
pub mod overrides;
pub mod shared_flags;

pub mod hook;
pub mod index_order;
pub mod nearest;
pub mod node;
pub mod nvml_client;
pub mod ownership;
pub mod pool;
pub mod request;

pub mod choice;
pub mod queue;
pub mod select;
