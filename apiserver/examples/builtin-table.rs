//! Prints the table of built-in types from the OpenAPI v3 documents of a Kubernetes release:
//! `builtin-table KUBERNETES/api/openapi-spec/v3 > apiserver/src/builtin/table.txt`.

use std::error::Error;
use std::{env, fs};

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args()
        .nth(1)
        .ok_or("usage: builtin-table DIRECTORY-OF-OPENAPI-V3-DOCUMENTS")?;
    let mut paths: Vec<_> = fs::read_dir(&directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let documents: Vec<Value> = paths
        .iter()
        .map(|path| Ok(serde_json::from_str(&fs::read_to_string(path)?)?))
        .collect::<Result<_, Box<dyn Error>>>()?;
    print!("{}", muster_apiserver::builtin::generate_type_table(&documents));
    Ok(())
}
