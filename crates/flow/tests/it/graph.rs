//! The transitions that the files of a workflow declare.

use raymond_flow::{
    graph::{Graph, WayOrigin},
    id::StateName,
    world::MemoryWorld,
};

fn graph<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Graph {
    Graph::of(&MemoryWorld::new(files), None).unwrap()
}

fn edges(graph: &Graph) -> Vec<String> {
    graph.edges().map(|edge| format!("{} {} {}", edge.from, edge.kind, edge.to)).collect()
}

fn is_open(graph: &Graph, name: &str) -> bool {
    graph.state(&StateName::new(name)).unwrap().is_open
}

#[test]
fn graph_has_two_lines_for_a_tag_that_names_two_states() {
    let start = "<call return=\"B\">A</call> <fork next=\"B\">A</fork>";
    let graph = graph([("START.md", start), ("A.md", ""), ("B.md", "")]);
    assert_eq!(
        edges(&graph),
        ["START.md call A.md", "START.md return B.md", "START.md fork A.md", "START.md next B.md"]
    );
}

#[test]
fn graph_uses_the_policy_and_not_the_prose() {
    let start = "---\nallowed_transitions:\n  - { tag: goto, target: A }\n---\n<goto>B</goto>";
    let graph = graph([("START.md", start), ("A.md", ""), ("B.md", "")]);
    assert_eq!(edges(&graph), ["START.md goto A.md"]);
    assert!(graph.edges().all(|edge| edge.origin == WayOrigin::Policy));
}

#[test]
fn graph_takes_from_the_prose_what_the_policy_leaves_open() {
    let start =
        "---\nallowed_transitions:\n  - { tag: goto }\n---\n<goto>B</goto> <reset>A</reset>";
    let told = graph([("START.md", start), ("A.md", ""), ("B.md", "")]);
    assert_eq!(edges(&told), ["START.md goto B.md"]);
    assert!(!is_open(&told, "START.md"));
    let untold = graph([("START.md", "---\nallowed_transitions:\n  - { tag: goto }\n---\nx")]);
    assert!(is_open(&untold, "START.md"));
}

#[test]
fn graph_reads_scripts_without_their_comments() {
    let script = "# <goto>A</goto>\necho \"<function return=\\\"A\\\">B</function>\"\n";
    let graph = graph([("START.sh", script), ("A.md", ""), ("B.md", "")]);
    assert_eq!(edges(&graph), ["START.sh function B.md", "START.sh return A.md"]);
}

#[test]
fn graph_leaves_open_what_is_decided_only_at_run_time() {
    for script in ["echo \"<goto>$1</goto>\"", "./decide", "printf '<goto>%s</goto>' x"] {
        assert!(is_open(&graph([("START.sh", script)]), "START.sh"), "{script}");
    }
    assert!(!is_open(&graph([("START.sh", "echo '<result>$1</result>'")]), "START.sh"));
}

#[test]
fn graph_distinguishes_evaluators_from_entered_states() {
    let start = "---\nevaluators:\n  - prompt: J\n  - prompt: K\n---\n<goto>K</goto>";
    let graph = graph([("START.md", start), ("J.md", "<goto>K</goto>"), ("K.md", "")]);
    assert_eq!(
        edges(&graph),
        ["START.md goto K.md", "START.md evaluate J.md", "START.md evaluate K.md"]
    );
    let is_evaluator = |name: &str| graph.state(&StateName::new(name)).unwrap().is_evaluator;
    assert!(is_evaluator("J.md"));
    assert!(!is_evaluator("K.md"));
}

#[test]
fn graph_keeps_the_place_of_a_name_in_a_byte_order_marked_file() {
    let text =
        "\u{feff}---\nallowed_transitions:\n  - { tag: goto, target: Ä }\n---\n<goto>Ä</goto>";
    let graph = graph([("START.md", text), ("Ä.md", "")]);
    let state = graph.state(&StateName::new("START.md")).unwrap();
    for way in state.said() {
        let written = &way.target.as_ref().unwrap().written;
        assert_eq!(written.span.slice(&state.text), Some("Ä"));
    }
}
