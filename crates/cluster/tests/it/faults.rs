//! Faults, with real processes.
