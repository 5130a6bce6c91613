//! `raymond diagram`.

use std::{path::Path, process::ExitCode};

use raymond_engine::{Loaded, load};
use raymond_flow::{
    diagram::Diagram,
    id::RunId,
    lint::{self, Known},
    source::{Platform, Severity},
};

use super::{lint::open, place::state_dir};
use crate::{
    cli::authoring::{self, Format},
    failure::Failure,
    out, quote,
    report::{warning, words::count},
};

/// `raymond diagram WORKFLOW`
pub(in crate::cli) fn diagram(arguments: &authoring::DiagramArgs) -> Result<ExitCode, Failure> {
    let loaded = match &arguments.run {
        Some(id) => Some(load(&state_dir(&arguments.place)?, &RunId::new(id)?)?),
        None => None,
    };
    let of_run = loaded.as_ref().map(|loaded| Path::new(&loaded.run.scope_dir));
    let workflow = arguments.workflow.as_deref().or(of_run).unwrap_or(Path::new("."));
    let opened = open(workflow, Platform::HERE)?;
    let trace = loaded.as_ref().map(|loaded| &loaded.view.trace);
    let picture = Diagram::of(&title(workflow, loaded.as_ref()), &opened.graph, trace);
    let text = match (arguments.html, arguments.format) {
        (true, _) => picture.html(),
        (false, Format::Mermaid) => picture.mermaid(),
        (false, Format::Dot) => picture.dot(),
    };
    out::data(&text)?;
    let found = lint::lint(&opened.graph, &Known::default());
    let errors = found.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        let (errors, path) = (count(errors as u64, "error"), quote::path(workflow));
        out::people().line(&warning(&format!(
            "the workflow has {errors}, so the diagram may be incomplete; see it: raymond lint {path}"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn title(workflow: &Path, loaded: Option<&Loaded>) -> String {
    let absolute = std::path::absolute(workflow).unwrap_or_else(|_| workflow.to_owned());
    let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match loaded {
        Some(Loaded { run, .. }) => format!("{name}, run {}: {}", run.id, run.total_cost_usd),
        None => name,
    }
}
