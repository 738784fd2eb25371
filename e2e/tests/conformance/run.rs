//! Runs the tables, and prints the results.

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{
    deviations::{self, Rule},
    matcher::{Difference, Rules, differences, exact},
    reader::{self, Case},
    registry::{Adapter, Answer, Input, System, Table},
};

/// The directory of cases, next to the repository.
const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/conformance");

/// Which cases are run.
pub(crate) struct Settings {
    /// A directory of systems, or of one system.
    pub directory: PathBuf,
    /// The directory whose tables must match all rules of deviation, and in which cases that others refer to are found.
    pub home: PathBuf,
    /// Whether a missing directory is a failure.
    pub required: bool,
    /// Only files whose names contain this.
    pub only: String,
    pub deviations: Vec<Rule>,
}

impl Settings {
    /// `MUSTER_CONFORMANCE` is the directory, `MUSTER_CONFORMANCE_REQUIRED=1` makes a missing one a failure,
    /// `MUSTER_CONFORMANCE_ONLY` is a part of file names.
    pub(crate) fn from_environment() -> Self {
        let given = env::var_os("MUSTER_CONFORMANCE").filter(|directory| !directory.is_empty());
        Self {
            directory: given.map_or_else(|| DEFAULT.into(), PathBuf::from),
            home: DEFAULT.into(),
            required: env::var("MUSTER_CONFORMANCE_REQUIRED").is_ok_and(|value| value == "1"),
            only: env::var("MUSTER_CONFORMANCE_ONLY").unwrap_or_default(),
            deviations: deviations::rules().unwrap_or_else(|error| panic!("{error:#}")),
        }
    }
}

/// The counts of results in a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub equal: usize,
    pub safer: usize,
    pub deviating: usize,
    pub not_applicable: usize,
    pub failed: usize,
}

/// All results, as lines to print.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<String>,
    pub total: Counts,
}

impl Report {
    /// Whether nothing failed.
    pub(crate) fn good(&self) -> bool {
        self.total.failed == 0
    }

    fn fail(&mut self, text: &str) {
        self.lines.push(format!("FAILED  {text}"));
        self.total.failed += 1;
    }

    fn add(&mut self, name: &str, note: &str, counts: &Counts) {
        self.lines.push(format!("{name}: {counts}{note}"));
        self.total.equal += counts.equal;
        self.total.safer += counts.safer;
        self.total.deviating += counts.deviating;
        self.total.not_applicable += counts.not_applicable;
        self.total.failed += counts.failed;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} equal, {} safer, {} deviating, {} not applicable, {} failed",
            self.equal, self.safer, self.deviating, self.not_applicable, self.failed
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "all: {}", self.total)
    }
}

/// Runs the tables in the directory.
pub(crate) fn run(settings: &Settings, systems: &[System]) -> anyhow::Result<Report> {
    let mut report = Report::default();
    if !settings.directory.is_dir() {
        let text = format!("not run: {} does not exist", settings.directory.display());
        if settings.required {
            report.fail(&text);
        } else {
            report.lines.push(text);
        }
        return Ok(report);
    }
    let mut run = Run {
        settings,
        used: BTreeSet::new(),
        report,
    };
    for directory in run.systems(systems)? {
        run.system(&directory, systems)?;
    }
    run.unused(systems)?;
    Ok(run.report)
}

struct Run<'a> {
    settings: &'a Settings,
    /// Rules under which a case differs, by index.
    used: BTreeSet<usize>,
    report: Report,
}

impl Run<'_> {
    /// The directory itself if it is named like a system, otherwise its subdirectories.
    fn systems(&self, systems: &[System]) -> anyhow::Result<Vec<PathBuf>> {
        let directory = fs::canonicalize(&self.settings.directory)?;
        if systems.iter().any(|system| directory.ends_with(system.directory)) {
            return Ok(vec![directory]);
        }
        let directories: Vec<PathBuf> = entries(&directory)?
            .into_iter()
            .filter(|entry| entry.is_dir())
            .collect();
        if directories.is_empty() {
            bail!("{} has no directory of a system", directory.display());
        }
        Ok(directories)
    }

    fn system(&mut self, directory: &Path, systems: &[System]) -> anyhow::Result<()> {
        let name = file_name(directory);
        let Some(system) = systems.iter().find(|system| system.directory == name) else {
            self.report.fail(&format!("{name}: an unknown system"));
            return Ok(());
        };
        let Some(tables) = system.tables else {
            self.report.lines.push(format!("{name}: not built"));
            return Ok(());
        };
        for file in entries(directory)? {
            let file_name = file_name(&file);
            if file_name == "README.md" || !file_name.contains(&self.settings.only) {
                continue;
            }
            match tables
                .iter()
                .copied()
                .flatten()
                .find(|table| table.file == file_name)
            {
                Some(table) if file.is_dir() => self.directory(&file_name, table),
                Some(table) => self.table(&name, &file, table),
                None => self.report.fail(&format!("{name}/{file_name}: an unknown file")),
            }
        }
        Ok(())
    }

    /// Subdirectories contain manifests, not cases.
    fn directory(&mut self, name: &str, table: &Table) {
        match table.answer {
            Answer::Elsewhere(reason) | Answer::NotApplicable(reason) => {
                self.report.lines.push(format!("{name}: not run ({reason})"));
            }
            Answer::Product(..) => self.report.fail(&format!("{name}: a directory has no cases")),
        }
    }

    fn table(&mut self, system: &str, file: &Path, table: &Table) {
        let name = format!("{system}/{}", table.file);
        // A file without cases is allowed here.
        if let Answer::Elsewhere(by) = table.answer {
            return self.report.lines.push(format!("{name}: not run ({by})"));
        }
        let cases = match reader::read(file) {
            Ok(read) => read.cases,
            Err(error) => return self.report.fail(&format!("{name}: {error:#}")),
        };
        match table.answer {
            Answer::Elsewhere(_) => {}
            Answer::NotApplicable(reason) => {
                let counts = Counts {
                    not_applicable: cases.len(),
                    ..Counts::default()
                };
                self.report.add(&name, &format!(" ({reason})"), &counts);
            }
            Answer::Product(function, adapter) => {
                let mut counts = Counts::default();
                for case in &cases {
                    self.case(system, table, adapter, case, &cases, &mut counts);
                }
                self.report.add(&name, &format!(" ({function})"), &counts);
            }
        }
    }

    fn case(
        &mut self,
        system: &str,
        table: &Table,
        adapter: Adapter,
        case: &Case,
        others: &[Case],
        counts: &mut Counts,
    ) {
        let called = format!("{system}/{}: {}", table.file, case.name);
        match self.outcome(system, table, adapter, case, others) {
            Ok(CaseResult::Equal) if case.safer.is_some() => counts.safer += 1,
            Ok(CaseResult::Equal) => counts.equal += 1,
            Ok(CaseResult::Deviating) => counts.deviating += 1,
            Ok(CaseResult::Differs(found)) => {
                counts.failed += 1;
                self.report.lines.push(format!("FAILED  {called}"));
                let texts = found.iter().map(|difference| format!("    {}", difference.text));
                self.report.lines.extend(texts);
            }
            Err(error) => {
                counts.failed += 1;
                self.report.lines.push(format!("FAILED  {called}\n    {error:#}"));
            }
        }
    }

    fn outcome(
        &mut self,
        system: &str,
        table: &Table,
        adapter: Adapter,
        case: &Case,
        others: &[Case],
    ) -> anyhow::Result<CaseResult> {
        let answer = adapter_answer(adapter, case)?;
        let mut found = differences(&case.expect, case.safer.as_ref(), &answer, &table.rules);
        for (named, alike) in [(&case.same_as, true), (&case.differs_from, false)] {
            for named in named {
                found.extend(self.identity(system, table, adapter, &answer, others, (named, alike))?);
            }
        }
        if found.is_empty() {
            return Ok(CaseResult::Equal);
        }
        for (number, rule) in self.settings.deviations.iter().enumerate() {
            if !rule.applies(system, table.file, &case.input)? {
                continue;
            }
            let before = found.len();
            found.retain(|difference| !rule.differs.iter().any(|at| difference.is_under(at)));
            if found.len() < before {
                self.used.insert(number);
            }
        }
        Ok(if found.is_empty() {
            CaseResult::Deviating
        } else {
            CaseResult::Differs(found)
        })
    }

    /// Whether this answer has the same identity as the answer to another case.
    fn identity(
        &mut self,
        system: &str,
        table: &Table,
        adapter: Adapter,
        answer: &Value,
        others: &[Case],
        (named, alike): (&str, bool),
    ) -> anyhow::Result<Vec<Difference>> {
        let here = others.iter().find(|case| case.name == named).cloned();
        let home = || {
            let table = reader::read(&self.settings.home.join(system).join(table.file)).ok()?;
            table.cases.into_iter().find(|case| case.name == named)
        };
        let Some(other) = here.or_else(home) else {
            let text = format!(
                "{system}/{}: {named:?} is in neither directory, so it is not compared",
                table.file
            );
            self.report.lines.push(text);
            return Ok(Vec::new());
        };
        let other = adapter_answer(adapter, &other)?;
        let mut found = Vec::new();
        for key in table.rules.identity {
            let differs = !exact(key, &other[key], &answer[key], &Rules::EXACT).is_empty();
            if differs == alike {
                found.push(Difference {
                    key: (*key).to_owned(),
                    path: (*key).to_owned(),
                    text: format!(
                        "{key}: {} the one of {named:?}, {}",
                        if alike { "is not" } else { "is" },
                        answer[key]
                    ),
                });
            }
        }
        Ok(found)
    }

    /// A rule that no case needs is out of date.
    fn unused(&mut self, systems: &[System]) -> anyhow::Result<()> {
        let home = fs::canonicalize(&self.settings.home).ok();
        if home != Some(fs::canonicalize(&self.settings.directory)?) || !self.settings.only.is_empty() {
            return Ok(());
        }
        for (number, rule) in self.settings.deviations.iter().enumerate() {
            let built = systems
                .iter()
                .any(|system| system.directory == rule.system && system.tables.is_some());
            if !self.used.contains(&number) || !built {
                let text = format!(
                    "{}/{}: no case deviates when {}",
                    rule.system, rule.file, rule.when
                );
                self.report.fail(&text);
            }
        }
        Ok(())
    }
}

enum CaseResult {
    Equal,
    Deviating,
    Differs(Vec<Difference>),
}

/// The product's answer to a case; a panic is an error.
fn adapter_answer(adapter: Adapter, case: &Case) -> anyhow::Result<Value> {
    let answered = catch_unwind(AssertUnwindSafe(|| adapter(&Input::of(case))));
    answered.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        bail!("panicked: {}", text.unwrap_or("without a text"))
    })
}

fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut entries = read
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
