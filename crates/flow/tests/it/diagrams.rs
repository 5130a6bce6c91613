//! Workflows as pictures.

use std::collections::BTreeMap;

use raymond_flow::{
    diagram::{Diagram, Visit},
    graph::Graph,
    id::StateName,
    money::Usd,
    world::MemoryWorld,
};

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
fn mermaid_tells_scripts_from_prompts_and_names_every_kind_of_way() {
    let text = small().mermaid();
    let picture = text.split("  classDef").next().unwrap();
    assert_eq!(
        picture,
        r#"flowchart TD
  n0["LAST.md"]:::prompt
  n1[["▶ START.sh"]]:::script
  n2["SUB.md"]:::prompt
  n3["GONE"]:::missing
  n4(["result"]):::finish
  n0 --> n1
  n0 --> n3
  n1 -.->|return| n0
  n1 -->|call| n2
  n2 --> n4
"#
    );
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
fn dot_has_a_box_for_each_state_and_a_line_for_each_way() {
    let text = small().dot();
    assert!(text.starts_with("digraph \"flow\" {"), "{text}");
    assert!(text.contains("n1 [label=\"START.sh\""), "{text}");
    assert!(text.contains("n1 -> n0 [label=\"return\", style=dashed];"), "{text}");
}

#[test]
fn run_is_shown_by_counts_and_cost() {
    let world = MemoryWorld::new([("START.md", "<goto>B</goto>"), ("B.md", "<result>x</result>")]);
    let graph = Graph::of(&world, None).unwrap();
    let visit = Visit { steps: 3, cost_usd: Usd::from_dollars(0.12).unwrap() };
    let visits = BTreeMap::from([(StateName::new("START.md"), visit)]);
    let diagram = Diagram::of("flow", &graph, Some(&visits));
    assert!(diagram.mermaid().contains("START.md<br/>3×, $0.12\"]:::visited"));
    assert!(diagram.dot().contains("START.md\\n3×, $0.12\", fillcolor=\"#fde68a\""));
    let page = diagram.html();
    assert!(page.contains("class=\"node prompt entry visited\""), "{page}");
    assert!(page.contains("3×, $0.12"), "{page}");
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
