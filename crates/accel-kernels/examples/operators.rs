//! Prints which of TOSA's operators and types this build runs: `operators [--markdown]`, otherwise as JSON.

fn main() {
    if std::env::args().any(|argument| argument == "--markdown") {
        print!("{}", accel_kernels::operators_markdown());
    } else {
        println!("{}", accel_kernels::operators_json());
    }
}
