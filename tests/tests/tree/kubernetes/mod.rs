//! The base in ops/kubernetes says what the processes, ops/Dockerfile, compose.yaml and the units say: settings,
//! secrets, ports, probes, times and sizes; and its objects find each other.

mod base;
mod objects;
mod pods;
mod settings;
