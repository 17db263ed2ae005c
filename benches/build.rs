//! Compiles the test service's proto without protoc.
//!
//! The generated code of `steadfast-tests` would do, but with it comes tokio's `test-util`,
//! which makes every clock read dearer.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../tests/proto");
    let files = protox::compile(["carts.proto"], ["../tests/proto"])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
