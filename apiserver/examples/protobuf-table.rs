//! Prints the table of protobuf fields: `protobuf-table FILE... > apiserver/src/protobuf/table.txt`, the files being
//! the `generated.proto` of the API groups served and of apimachinery.

use std::process::ExitCode;

fn main() -> ExitCode {
    let texts: Result<Vec<String>, _> = std::env::args().skip(1).map(std::fs::read_to_string).collect();
    match texts {
        Ok(texts) => {
            print!("{}", muster_apiserver::protobuf::generate_message_table(&texts));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot read a file: {error}");
            ExitCode::FAILURE
        }
    }
}
