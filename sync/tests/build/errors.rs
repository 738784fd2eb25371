//! Messages if files cannot be built, or a directory cannot be read: one snapshot for each enum.

use std::sync::Arc;

use muster_sync::{
    build::{BuildError, Duplicate, Identity, NameProblem, Origin},
    source::{DirectoryError, SourceError},
    substitute::{SubstituteError, SubstituteProblem},
    yaml::{Position, YamlError, YamlProblem},
};

fn at(line: usize) -> Position {
    Position { line, column: 3 }
}

fn origin(line: usize) -> Origin {
    Origin {
        file: Arc::from("apps/web.yaml"),
        at: at(line),
    }
}

#[test]
fn build_errors() {
    let file: Arc<str> = Arc::from("apps/web.yaml");
    let identity = Identity {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: "web".into(),
        name: "site".into(),
    };
    let all = [
        BuildError::Yaml(YamlError {
            file: Arc::clone(&file),
            at: at(7),
            problem: YamlProblem::Depth,
        }),
        BuildError::Substitute(SubstituteError {
            file,
            at: at(8),
            problem: SubstituteProblem::TooDeep(9),
        }),
        BuildError::Variables(SubstituteProblem::InvalidName { name: "1st".into() }),
        BuildError::Field {
            origin: origin(9),
            field: "metadata.name".into(),
            why: "is missing",
        },
        BuildError::Name {
            origin: origin(10),
            field: "metadata.name",
            text: "a__b".into(),
            problem: NameProblem::Misread,
        },
        BuildError::Duplicate(Box::new(Duplicate {
            identity,
            first: origin(1),
            second: origin(20),
        })),
    ];
    // Add new variants above, too.
    for error in &all {
        match error {
            BuildError::Yaml(_)
            | BuildError::Substitute(_)
            | BuildError::Variables(_)
            | BuildError::Field { .. }
            | BuildError::Name { .. }
            | BuildError::Duplicate(_) => {}
        }
    }
    let messages: Vec<String> = all.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("build_errors", messages.join("\n"));
}

#[test]
fn directory_errors() {
    let all = [
        DirectoryError::Source(SourceError::KustomizeUnsupported {
            path: "apps/kustomization.yaml".into(),
        }),
        DirectoryError::Absent { path: "apps".into() },
        DirectoryError::Unreadable {
            path: "apps/web.yaml".into(),
            why: "Permission denied (os error 13)".into(),
        },
    ];
    for error in &all {
        match error {
            DirectoryError::Source(_) | DirectoryError::Absent { .. } | DirectoryError::Unreadable { .. } => {
            }
        }
    }
    let messages: Vec<String> = all.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("directory_errors", messages.join("\n"));
}
