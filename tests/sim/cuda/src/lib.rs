//! What stands for the CUDA driver: the order in which cuInit reads variables and loads a
//! tool (`injection`), which device a program gets (`visible`), and the few
//! functions of libcuda.so.1 that a program of the tests calls (`driver`).

mod driver;
pub mod injection;
pub mod visible;
