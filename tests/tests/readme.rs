//! The README says what is so.

#[test]
fn its_example_is_the_one_that_is_compiled() {
    let readme = include_str!("../../README.md");
    let example = include_str!("../../transport-tokio/examples/first_call.rs");
    let shown = readme
        .split("```rust\n")
        .nth(2)
        .and_then(|rest| rest.split("```").next());
    let shown = shown.expect("a block of Rust");
    assert!(shown.lines().count() > 20, "{shown}");
    assert!(
        example.ends_with(shown),
        "the README's example differs from first_call.rs"
    );
}
