//! The graph of a workflow as numbers and paths, and what a run did on it.

use std::path::Path;

use raymond_engine::{observe::overview::Overview, store::scope::WorkflowFiles};
use raymond_flow::{diagram::Diagram, graph::Graph, source::Platform, view::Trace};
use serde_json::{Value, json};

/// The graph of a run's workflow as its files are now, with what the run did.
pub(crate) fn of_run(overview: &Overview) -> Value {
    let Some(run) = overview.run() else {
        return without(overview.problem.as_deref().unwrap_or("the run cannot be read"));
    };
    let graph = match read(Path::new(&run.scope_dir)) {
        Ok((_, graph)) => graph,
        Err(problem) => return without(&problem),
    };
    of_graph(&graph, Some(&overview.trace))
}

/// The files of a workflow, and their graph.
pub(crate) fn read(path: &Path) -> Result<(WorkflowFiles, Graph), String> {
    let files = WorkflowFiles::read(path).map_err(|error| error.to_string())?;
    let graph = files.graph(Platform::HERE).map_err(|error| error.to_string())?;
    Ok((files, graph))
}

fn without(problem: &str) -> Value {
    json!({
        "fingerprint": null, "size": [0, 0], "nodes": [], "links": [], "visits": {}, "taken": [],
        "problem": problem,
    })
}

/// The graph. Its geometry does not depend on how often a run did something, so that it stays while the run goes on.
pub(crate) fn of_graph(graph: &Graph, trace: Option<&Trace>) -> Value {
    let ways = trace.map(|trace| Trace { ways: trace.ways.clone(), ..Trace::default() });
    let mut diagram = Diagram::of("", graph, ways.as_ref());
    let taken = diagram.taken.take().unwrap_or_default();
    let geometry = diagram.geometry();
    let nodes: Vec<_> = diagram
        .nodes
        .iter()
        .zip(&geometry.boxes)
        .map(|(node, place)| {
            json!({
                "name": node.label, "kind": node.kind.name(), "is_entry": node.is_entry,
                "center": place.center, "width": place.width, "height": place.height,
            })
        })
        .collect();
    let links: Vec<_> = diagram
        .links
        .iter()
        .zip(&geometry.lines)
        .map(|(link, place)| {
            json!({
                "from": link.from, "to": link.to, "kind": link.kind.name(), "path": place.path,
                "label": place.label, "label_at": place.label_at,
            })
        })
        .collect();
    let drawn = json!({ "size": geometry.size, "nodes": nodes, "links": links });
    let fingerprint = format!("{:08x}", crc32fast::hash(drawn.to_string().as_bytes()));
    let visits = trace.into_iter().flat_map(|trace| &trace.visits).map(|(state, totals)| {
        let totals = json!({
            "steps": totals.steps, "cost_usd": totals.cost_usd, "duration_ms": totals.duration_ms,
            "failures": totals.failures,
        });
        (state.to_string(), totals)
    });
    let taken: Vec<_> =
        taken.iter().map(|(link, count)| json!({ "link": link, "count": count })).collect();
    let mut value = drawn;
    value["fingerprint"] = json!(fingerprint);
    value["visits"] = Value::Object(visits.collect());
    value["taken"] = json!(taken);
    value["problem"] = Value::Null;
    value
}
