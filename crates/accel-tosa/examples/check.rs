//! Prints `accept` or the refusal of each `.tosa` file named on the command line, one line a file.

fn main() {
    for path in std::env::args().skip(1) {
        let verdict = match std::fs::read(&path).map(accel_tosa::read) {
            Ok(Ok(graph)) => format!("accept: {} operators, profile {:?}", graph.nodes.len(), graph.profile),
            Ok(Err(refusal)) => format!("{:?}: {refusal}", refusal.rule),
            Err(error) => format!("unreadable: {error}"),
        };
        println!("{path}: {verdict}");
    }
}
