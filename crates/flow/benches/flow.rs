//! What the language costs: parsing, and one transition of a run of many agents.

fn main() {
    divan::main();
}
