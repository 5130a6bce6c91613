//! Decides which runner of steps is built: the keeper, which needs Linux, or the portable one.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(portable)");
    println!("cargo::rerun-if-changed=build.rs");
    // Lets the portable one be tested on Linux. Not a feature, because features are additive, and tools
    // turn on all of them at once.
    println!("cargo::rerun-if-env-changed=PORTABLE_KEEPER");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let is_asked_for = std::env::var("PORTABLE_KEEPER").is_ok_and(|word| word == "1");
    if !is_linux || is_asked_for {
        println!("cargo::rustc-cfg=portable");
    }
}
