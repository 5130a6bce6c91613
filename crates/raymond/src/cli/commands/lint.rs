//! `raymond lint`.

use std::{path::Path, process::ExitCode};

use raymond_engine::store::scope::WorkflowFiles;
use raymond_flow::{
    graph::Graph,
    lint::{self, Finding, Known},
    machine::{Phase, Run},
    source::{Platform, Severity},
};

use super::{prepare::LoadedProject, workflows};
use crate::{
    cli::{
        args::Place,
        authoring::{FindingFormat, Lint},
    },
    failure::Failure,
    out,
    report::{Placed, Sources, as_github, as_json, as_sarif, as_text},
};

/// `raymond lint WORKFLOW`
pub(in crate::cli) fn lint(arguments: &Lint) -> Result<ExitCode, Failure> {
    if let Some(rule) = &arguments.explain {
        return explain(rule);
    }
    let platform = arguments.platform.map_or(Platform::HERE, Platform::from);
    let project = LoadedProject::of(&Place { data_dir: None }).ok();
    let known = Known {
        variables: arguments.variables.iter().cloned().collect(),
        coding_agents: project.map(|project| project.agents.known()),
    };
    let level = Severity::from(arguments.level);
    let (mut all, mut places, mut text) = (Vec::new(), Vec::new(), String::new());
    for workflow in workflows::named(&arguments.workflow)? {
        let OpenedWorkflow { files, graph } = open(&workflow, platform)?;
        let mut found = lint::lint(&graph, &known);
        let yaml = files.place(&mut found);
        weigh(&mut found, &arguments.deny, &arguments.allow)?;
        let sources = Sources { path: &files.path, graph: &graph, yaml };
        let shown: Vec<_> = found.iter().filter(|f| f.severity >= level).cloned().collect();
        text.push_str(&as_text(&shown, &sources));
        places.extend(
            shown.into_iter().map(|finding| Placed { path: sources.file(&finding), finding }),
        );
        all.append(&mut found);
    }
    let text = match arguments.format {
        _ if arguments.json => as_json(&places),
        Some(FindingFormat::Github) => as_github(&places),
        Some(FindingFormat::Sarif) => as_sarif(&places),
        None => text,
    };
    out::text(&text)?;
    if !arguments.json && arguments.format.is_none() {
        summarize(&all, places.len());
    }
    let has_errors = all.iter().any(|finding| finding.severity == Severity::Error);
    Ok(ExitCode::from(u8::from(has_errors)))
}

/// Applies `--deny` and `--allow` to the findings. If a rule is in both, it is allowed.
fn weigh(found: &mut Vec<Finding>, deny: &[String], allow: &[String]) -> Result<(), Failure> {
    const WARNINGS: &str = "warnings";
    let rules = deny.iter().filter(|name| *name != WARNINGS).chain(allow);
    if let Some(name) = rules.into_iter().find(|name| lint::rule(name).is_none()) {
        return Err(no_such_rule(name));
    }
    found.retain(|finding| !allow.iter().any(|name| name == finding.rule));
    for finding in found {
        let is_warning = finding.severity == Severity::Warning;
        if deny.iter().any(|name| name == finding.rule || (is_warning && name == WARNINGS)) {
            finding.severity = Severity::Error;
        }
    }
    Ok(())
}

fn no_such_rule(name: &str) -> Failure {
    let meant = lint::suggest_rule(name);
    let meant = meant.map(|rule| format!(" (did you mean `{rule}`?)")).unwrap_or_default();
    Failure::usage(format!("there is no rule `{name}`{meant}"))
        .with_hint("list the rules: raymond lint --explain all")
}

/// The files and the graph of a workflow.
pub(super) struct OpenedWorkflow {
    pub(super) files: WorkflowFiles,
    pub(super) graph: Graph,
}

impl OpenedWorkflow {
    /// The lint errors that are meant, if there are any: how many, and as text.
    pub(super) fn errors(
        &self,
        known: &Known,
        is_meant: impl Fn(&Finding) -> bool,
    ) -> Option<(usize, String)> {
        let mut found = lint::lint(&self.graph, known);
        let yaml = self.files.place(&mut found);
        found.retain(|finding| finding.severity == Severity::Error && is_meant(finding));
        let sources = Sources { path: &self.files.path, graph: &self.graph, yaml };
        (!found.is_empty()).then(|| (found.len(), as_text(&found, &sources)))
    }
}

pub(super) fn open(workflow: &Path, platform: Platform) -> Result<OpenedWorkflow, Failure> {
    let files = WorkflowFiles::read(workflow)?;
    let graph = files.graph(platform).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(OpenedWorkflow { files, graph })
}

/// The lint errors in the states in which agents of a run have failed, as text.
pub(super) fn mistakes(run: &Run) -> Option<String> {
    let errors: Vec<_> = run
        .agents
        .values()
        .filter_map(|agent| match &agent.phase {
            Phase::Failed { error, .. } => Some(error.as_str()),
            _ => None,
        })
        .collect();
    let opened = open(Path::new(&run.scope_dir), Platform::HERE).ok()?;
    let failed = opened.errors(&Known::default(), |finding| {
        let file = finding.file.as_deref().unwrap_or_default();
        let place = format!("{file}:{}", finding.position);
        errors.iter().any(|error| error.contains(&place))
    });
    failed.map(|(_, text)| text)
}

fn explain(name: &str) -> Result<ExitCode, Failure> {
    let text = match lint::rule(name) {
        Some(rule) => rule.manual(),
        None if name == "all" => {
            let titles = lint::RULES
                .iter()
                .filter_map(|rule| rule.manual().lines().next().map(|title| format!("{title}\n")));
            titles.collect()
        }
        None => return Err(no_such_rule(name)),
    };
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The last line: the number of findings.
fn summarize(found: &[Finding], shown: usize) {
    let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
    let many = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    };
    let counts = [
        many(count(Severity::Error), "error"),
        many(count(Severity::Warning), "warning"),
        many(count(Severity::Note), "note"),
    ];
    let hidden = found.len() - shown;
    let rest =
        if hidden > 0 { format!(" ({hidden} not shown, see --level)") } else { String::new() };
    out::note(&format!("{}{rest}", counts.join(", ")));
}
