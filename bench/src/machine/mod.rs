//! The machine, and what each process takes of it: CPU time and memory.

pub mod cpu;
pub mod hardware;
pub mod memory;
pub mod needs;
