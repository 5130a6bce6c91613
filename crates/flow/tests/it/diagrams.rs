//! Diagrams of workflows.

use raymond_flow::{diagram::Diagram, graph::Graph, world::MemoryWorld};

use crate::sim::Sim;

fn diagram<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Diagram {
    Diagram::of("flow", &Graph::of(&MemoryWorld::new(files), None).unwrap(), None)
}

fn small() -> Diagram {
    diagram([
        ("START.sh", "echo '<call return=\"LAST\">SUB</call>'"),
        ("SUB.md", "<result>x</result>"),
        ("LAST.md", "<goto>GONE</goto> <goto>START</goto>"),
    ])
}

#[test]
fn mermaid_distinguishes_scripts_and_names_every_kind_of_transition() {
    let text = small().mermaid();
    let picture = text.split("  classDef").next().unwrap();
    assert_eq!(
        picture,
        r#"flowchart TD
  n0["LAST.md"]:::prompt
  n1[["▶ START.sh"]]:::script
  n2["SUB.md"]:::prompt
  n3["GONE"]:::missing
  n0 --> n1
  n0 --> n3
  n1 -->|call| n2
  n2 -.->|result| n0
"#
    );
}

#[test]
fn states_of_a_subworkflow_are_drawn_in_a_cluster() {
    let diagram = diagram([
        ("START.md", "<call return=\"LAST\">review/</call>"),
        ("LAST.md", "<result>x</result>"),
        ("review/START.md", "<fork next=\"END\">deep/</fork>"),
        ("review/END.md", "<result>x</result>"),
        ("review/deep/START.md", "<result>x</result>"),
    ]);
    let text = diagram.mermaid();
    let picture = text.split("  classDef").next().unwrap();
    assert_eq!(
        picture,
        r#"flowchart TD
  n0["LAST.md"]:::prompt
  n1["▶ START.md"]:::prompt
  n5(["result"]):::finish
  n6(["worker ends"]):::finish
  subgraph s1 ["review#47;"]
    n2["review#47;END.md"]:::prompt
    n3["review#47;START.md"]:::prompt
    subgraph s2 ["review#47;deep#47;"]
      n4["review#47;deep#47;START.md"]:::prompt
    end
  end
  n0 -.-> n5
  n1 -->|call| n3
  n2 -.->|result| n0
  n3 -.->|next| n2
  n3 -->|fork| n4
  n4 -.-> n6
"#
    );
    let dot = diagram.dot();
    assert!(
        dot.contains("  subgraph cluster_1 {\n    label=\"review/\";\n    n2 [label="),
        "{dot}"
    );
    assert!(
        dot.contains("    subgraph cluster_2 {\n      label=\"review/deep/\";\n      n4 "),
        "{dot}"
    );
    assert_eq!(dot.matches('{').count(), dot.matches('}').count(), "{dot}");
}

#[test]
fn mermaid_and_dot_cannot_be_broken_by_a_name() {
    let name = "A\"]; x -> y.md";
    let text = format!("<goto>{name}</goto>");
    let diagram = diagram([("START.md", &*text), (name, "")]);
    assert!(diagram.mermaid().contains("[\"A#34;#93;#59; x -#62; y.md\"]"));
    assert!(diagram.dot().contains(r#"label="A\"]; x -> y.md""#));
}

#[test]
fn dot_has_a_box_for_each_state_and_a_line_for_each_transition() {
    let text = small().dot();
    assert!(text.starts_with("digraph \"flow\" {"), "{text}");
    assert!(text.contains("n1 [label=\"START.sh\""), "{text}");
    assert!(text.contains("n2 -> n0 [label=\"result\", style=dashed];"), "{text}");
}

#[test]
fn results_of_workers_subtasks_and_the_run_lead_to_different_places() {
    let text = diagram([
        ("START.md", "<fork next=\"CALL\">WORK</fork>"),
        ("WORK.md", "<result>w</result>"),
        ("CALL.md", "<function return=\"LAST\">SUB</function>"),
        ("SUB.md", "<result>s</result>"),
        ("LAST.md", "<result>r</result>"),
    ]);
    let lines = text.links.iter().map(|link| {
        let label = |node: usize| text.nodes[node].label.clone();
        format!("{} {} {}", label(link.from), link.kind.name(), label(link.to))
    });
    let mut results: Vec<_> = lines.filter(|line| line.contains(" result ")).collect();
    results.sort();
    let expected = ["LAST.md result result", "SUB.md result LAST.md", "WORK.md result worker ends"];
    assert_eq!(results, expected);
}

#[test]
fn subtask_that_never_returns_keeps_the_line_to_the_return_state() {
    let text = diagram([
        ("START.md", "<call return=\"LAST\">SUB</call>"),
        ("SUB.md", "<goto>SUB</goto>"),
        ("LAST.md", "<result>r</result>"),
    ])
    .mermaid();
    assert!(text.contains("n1 -.->|return| n0"), "{text}");
}

/// A run that went from START to B twice, where it failed.
fn failed_run() -> Diagram {
    let mut sim = Sim::new([
        ("START.sh", "echo '<goto>B</goto> <result>x</result>'"),
        ("B.md", "<goto>START</goto>"),
        ("C.sh", "echo '<result>x</result>'"),
    ]);
    sim.prints("main", "<goto>B</goto>");
    sim.reply_costing("main", "<goto>START</goto>", 0.12);
    sim.prints("main", "<goto>B</goto>");
    sim.reply("main", "nothing");
    let graph = Graph::of(&sim.world, None).unwrap();
    let trace = sim.view().trace;
    Diagram::of("flow", &graph, Some(&trace))
}

#[test]
fn diagram_of_a_run_has_counts_cost_and_followed_transitions() {
    let diagram = failed_run();
    let taken: Vec<_> = diagram.taken.as_ref().unwrap().iter().collect();
    let links: Vec<_> =
        taken.iter().map(|(link, count)| (diagram.links[**link], **count)).collect();
    let label = |node: usize| diagram.nodes[node].label.as_str();
    let ways: Vec<_> =
        links.iter().map(|(link, count)| (label(link.from), label(link.to), *count)).collect();
    assert_eq!(ways, [("B.md", "START.sh", 1), ("START.sh", "B.md", 2)]);

    let text = diagram.mermaid();
    assert!(text.contains("B.md<br/>2×, 0 ms, $0.12, failed\"]:::prompt"), "{text}");
    assert!(text.contains("START.sh<br/>2×, 0 ms\"]]:::script"), "fills stay: {text}");
    assert!(text.contains("  class n0 failed\n  class n2 visited\n"), "{text}");
    assert!(text.contains("-->|2×| n0"), "{text}");
    let text = diagram.dot();
    assert!(text.contains("color=\"#dc2626\""), "red is for the failure: {text}");
    assert_eq!(text.matches("#dc2626").count(), 1, "{text}");
    let page = diagram.html();
    assert!(page.contains("class=\"node prompt visited failed\""), "{page}");
    assert!(page.contains("class=\"node script unvisited\""), "{page}");
    assert!(page.contains("class=\"link goto taken\""), "{page}");
    assert!(page.contains("class=\"link result untaken\""), "{page}");
}

#[test]
fn undeclared_transition_is_shown_if_a_run_followed_it() {
    let mut sim = Sim::new([("START.sh", "print_tag"), ("B.sh", "echo '<result>x</result>'")]);
    sim.prints("main", "<goto>B</goto>");
    let graph = Graph::of(&sim.world, None).unwrap();
    let trace = sim.view().trace;
    let text = Diagram::of("flow", &graph, Some(&trace)).mermaid();
    assert!(text.contains("n1 --> n0"), "{text}");
}

#[test]
fn line_past_a_box_to_one_below_it_is_no_loop() {
    let page = diagram([
        ("START.sh", "<fork next=\"START\">WORK</fork> <function return=\"LAST\">CHECK</function>"),
        ("WORK.sh", "<goto>CHECK</goto>"),
        ("CHECK.sh", "<result>x</result>"),
        ("LAST.sh", "<result>x</result> <reset>OTHER</reset>"),
        ("OTHER.sh", "<result>x</result>"),
    ])
    .html();
    let (_, line) = page.split_once("<title>START.sh function CHECK.sh</title><path d=\"").unwrap();
    // A line is one curve from layer to layer, and this one crosses a layer.
    let (line, _) = line.split_once('"').unwrap();
    assert_eq!(line.matches('C').count(), 2, "{line}");
}

#[test]
fn page_holds_the_text_of_a_state_but_never_as_markup() {
    let text = "</script><script>alert(1)</script> <result>x</result>";
    let page = diagram([("START.md", text), ("A&B<i>.md", text)]).html();
    assert!(!page.contains("alert(1)</script>"), "{page}");
    assert!(page.contains(r"\u003c/script>\u003cscript>alert(1)"), "{page}");
    assert!(page.contains("A&amp;B&lt;i&gt;.md"), "{page}");
    assert!(!page.contains("<i>"), "{page}");
    assert!(!page.contains("://") || page.matches("://").count() == 1, "only the name of SVG");
}

/// The boxes of a page: left, top, width.
fn boxes(page: &str) -> Vec<(f64, f64, f64)> {
    let number = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse::<f64>().unwrap()
    };
    let rects = page.split("<rect").skip(1);
    rects.map(|rect| (number(rect, "x"), number(rect, "y"), number(rect, "width"))).collect()
}

#[test]
fn layout_keeps_boxes_apart_and_inside_the_picture() {
    let names: Vec<String> = (0..40).map(|n| format!("STATE_{n}.md")).collect();
    // Each state leads to three others, some of them back.
    let texts: Vec<String> = (0..40)
        .map(|n| {
            [n * 7 + 1, n * 3 + 2, n + 1]
                .map(|to| format!("<goto>STATE_{}</goto>", to % 40))
                .concat()
        })
        .collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("START.md", "<goto>STATE_0</goto>"));
    let boxes = boxes(&diagram(files).html());
    assert_eq!(boxes.len(), 41);
    for (at, (left, top, width)) in boxes.iter().enumerate() {
        assert!(*left >= 0.0 && *top >= 0.0, "box {at} is outside");
        for (other_left, other_top, other_width) in boxes.iter().skip(at + 1) {
            let same_row = (top - other_top).abs() < 1.0;
            let apart = left + width < *other_left || other_left + other_width < *left;
            assert!(!same_row || apart, "box {at} lies on another");
        }
    }
}

#[test]
fn layout_puts_a_chain_into_one_column_from_the_top_down() {
    let page = diagram([
        ("START.md", "<goto>B</goto>"),
        ("B.md", "<goto>C</goto>"),
        ("C.md", "<goto>START</goto> or <goto>C</goto>"),
    ]);
    let mut boxes = boxes(&page.html());
    boxes.sort_by(|one, other| one.1.total_cmp(&other.1));
    let tops: Vec<f64> = boxes.iter().map(|(_, top, _)| *top).collect();
    assert!(tops.windows(2).all(|pair| pair[0] < pair[1]), "{tops:?}");
}

#[test]
fn answers_of_a_person_are_labelled_edges_with_a_look_of_their_own() {
    let gate = "---\nallowed_transitions:\n  - { tag: ask, question: Go?, choices: approve=SHIP|re|\"x\"=START, next: START }\n---\n";
    let files = [("START.md", gate), ("SHIP.md", "<result>x</result>")];
    let world = MemoryWorld::new(files);
    let diagram = Diagram::of("ask", &Graph::of(&world, None).unwrap(), None);
    let mermaid = diagram.mermaid();
    assert!(mermaid.contains("--o|ask#58; approve|"), "{mermaid}");
    assert!(mermaid.contains("--o|ask#58; #34;x#34;#44; re|"), "{mermaid}");
    let dot = diagram.dot();
    assert!(dot.contains("label=\"ask: approve\", style=dotted, arrowhead=dot"), "{dot}");
    let html = diagram.html();
    assert!(
        html.contains("class=\"link ask\"") && html.contains("ask: &quot;x&quot;, re"),
        "{html}"
    );
}
