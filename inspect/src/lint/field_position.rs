//! The position of a field of an object in its file.

use muster_sync::yaml::{Kind, Node, Position};

/// The position of a field by its path in the API server's form, such as `spec.dependsOn[0].name`; of the closest
/// parent, if it is not set.
pub(crate) fn field_position(root: &Node, path: &str) -> Position {
    nearest(root, path).1
}

/// Whether the value at that position is an unsubstituted variable, and so unknown.
pub(crate) fn has_variable(root: &Node, path: &str) -> bool {
    nearest(root, path)
        .0
        .text()
        .is_some_and(|text| text.contains("${"))
}

fn nearest<'a>(root: &'a Node, path: &str) -> (&'a Node, Position) {
    let (mut node, mut at) = (root, root.at);
    for step in steps(path) {
        let next = match &node.kind {
            Kind::Mapping(pairs) => pairs
                .iter()
                .find(|(key, _)| key.text() == Some(step))
                .map(|(key, value)| (value, key.at)),
            Kind::Sequence(items) => {
                let item = step.parse().ok().and_then(|index: usize| items.get(index)); // a segment that is not a number has no item
                item.map(|item| (item, item.at))
            }
            Kind::Scalar(_) => None,
        };
        let Some((value, place)) = next else { break };
        (node, at) = (value, place);
    }
    (node, at)
}

/// The segments of `a.b[0][x.y/z]`: a, b, 0 and x.y/z.
pub(crate) fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('[').enumerate().flat_map(|(place, part)| {
        let (key, rest) = match part.split_once(']') {
            Some((key, rest)) if place > 0 => (Some(key), rest),
            _ => (None, part),
        };
        key.into_iter()
            .chain(rest.split('.').filter(|step| !step.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_sync::yaml;

    const TEXT: &str =
        "metadata:\n  labels:\n    a.b/c: x\nspec:\n  list:\n  - name: one\n  - name: two\n    value: 2\n";

    fn check(path: &str, line: usize, column: usize) {
        let document = yaml::documents("f", TEXT.as_bytes()).unwrap().remove(0);
        assert_eq!(
            field_position(&document.root, path),
            Position { line, column },
            "{path}"
        );
    }

    #[test]
    fn a_field_is_found_or_what_holds_it() {
        check("spec.list[1].value", 8, 5);
        check("spec.list[1].nothing", 7, 5);
        check("spec.list[7]", 5, 3);
        check("metadata.labels[a.b/c]", 3, 5);
        check("<nil>", 1, 1);
    }
}
