//! Explores scopes and prints the table. Without arguments: all; `--short`: those of the test command; `--table`: none,
//! only prints the table as in the docs; or the names of scopes.

use std::process::ExitCode;

use muster_model::check::exhaust;
use muster_model::table::{SCOPES, row, table};
use muster_model::world::World;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.iter().any(|word| word == "--table") {
        print!("{}", table());
        return ExitCode::SUCCESS;
    }
    let is_wanted = |name: &str, short: bool| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|word| word == name || word == "--short" && short)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut problems = Vec::new();
    for scope in SCOPES.iter().filter(|scope| is_wanted(scope.name, scope.short)) {
        let found = exhaust(World::new(scope.clone()), threads);
        println!(
            "{} {:>4} deep {:>5.0} s",
            row(scope, found.states),
            found.depth,
            found.took.as_secs_f64()
        );
        println!("      {}", found.reached.join("; "));
        problems.extend(found.problems(scope));
    }
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
