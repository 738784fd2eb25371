//! The generated page of the health table.

use std::fmt::Write as _;

use muster_health::table::{self, Entry};

const FILE: &str = "docs/health.md";

const START: &str = "\
# Health of well-known kinds

Some operators do not report the state of an object in a condition `Ready`, so the [rules of kstatus](sync.md#how-they-are-applied-pruned-and-judged)
treat it as healthy too early, or never. muster has a table of [expressions](sync.md#health-by-expressions) for such kinds. A package opts in:

```yaml
spec:
  sync:
    package:
      healthTable: v1
```

The table is used only on request. Each entry becomes one of `healthCheckExprs` of the Kustomization, with the built-in sync as with Flux. An entry of the
package's own `healthExpressions` for the same group and kind takes precedence. The table replaces the verdict, never the
[evidence](sync.md#evidence): where a controller does not report `observedGeneration`, health must hold for `package.settle` after a change. Agents that do
not know the table get no such row (`SyncUnsupported`). `muster lint` proposes the table if a module has a kind of it (MST0308), and
`muster build --health FILE` prints its results for recorded objects.

**A version of the table never changes.** Its result for an object depends on the value in the package alone, not on the version of muster or of an agent,
so an upgrade changes no verdict. A correction, or another kind, comes with the next version (`v2`), and reaches a fleet like any other change of a package:
cluster by cluster. `healthTable` is part of the revision; a package without it keeps its revision.

`failed` ends the wait at once. It is set only where a controller reports that it gave up on what the object itself asks for; other failures are waited out
until `timeout`. An expression that has no value yet, such as one about a missing status, is waited for.

Not covered: changes behind an unchanged object. A `Canary` or a `Rollout` with `workloadRef` does not report a new Deployment before its controller
observed it, and a `Subscription` does not report the Deployments of its operator.

This page is generated from the table by `cargo xtask generate`.
";

const END: &str = "
## Sources

Each kind has at least three statuses as tests (`health-cel/tests/fixtures/table/`). They are taken from the public health tests of
[Argo CD](https://github.com/argoproj/argo-cd/tree/master/resource_customizations) (Apache License 2.0), shortened to the relevant fields; the expressions and texts are muster's.
";

/// The page, by its path.
pub fn health_page() -> (String, String) {
    (
        FILE.to_owned(),
        format!("{START}{}{END}", version("v1", table::V1)),
    )
}

fn version(name: &str, table: &[Entry]) -> String {
    // Writing to a String cannot fail.
    let mut text =
        format!("\n## {name}\n\n| kind | group | operator | read | why |\n|---|---|---|---|---|\n");
    for entry in table {
        let Entry {
            kind,
            operator,
            versions,
            why,
            ..
        } = entry;
        let group = entry.group();
        let _ = writeln!(text, "| `{kind}` | `{group}` | {operator} | {versions} | {why} |");
    }
    for entry in table {
        let _ = write!(text, "\n### {}.{}\n\n```yaml\n", entry.kind, entry.group());
        for (field, expression) in [
            ("inProgress", entry.in_progress),
            ("failed", entry.failed),
            ("current", Some(entry.current)),
        ] {
            if let Some(expression) = expression {
                let _ = writeln!(text, "{field}: >-\n  {expression}");
            }
        }
        text.push_str("```\n");
    }
    text
}
