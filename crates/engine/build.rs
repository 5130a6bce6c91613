//! Names the systems without a keeper: `cfg(portable)` is everything but Linux.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(portable)");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "linux") {
        println!("cargo::rustc-cfg=portable");
    }
}
