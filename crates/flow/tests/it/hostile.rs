//! Lint and diagrams take whatever files hold: they are shown before anybody has checked them.

use proptest::prelude::*;
use raymond_flow::{
    diagram::Diagram,
    graph::Graph,
    lint::{Known, lint},
    source::Platform,
    world::MemoryWorld,
};

/// Pieces that meet in state files, and some that should not.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("---\n".to_owned()),
        Just("allowed_transitions:\n".to_owned()),
        "  - \\{ tag: (goto|reset|call|function|fork|result), target: [A-C], return: [A-C] \\}\n",
        "  - \\{ tag: (goto|fork), target: [A-D](/x)?, next: [A-C], [a-z-]{1,4}: é \\}\n",
        "evaluators:\n  - (prompt: [A-C]|\\{ match: '[a(]', then: \\{ tag: result \\} \\})\n",
        "<(goto|reset|result)>[A-C]?</(goto|reset|result)>",
        "<(call|fork) (return|next)=(\"|'|\\\\\")[A-C$]{1,2}(\"|'|\\\\\") ?[a-z]?>[A-C]</(call|fork)>",
        "\\{\\{ ?[a-z_]{0,5} ?\\}\\}",
        "[\\^\\\\#'\"<>é€\u{feff}\u{1b}\r\n\t ]{0,4}",
        "\\PC{0,8}",
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(piece(), 0..14), prop::option::of(any::<u8>())).prop_map(
        |(pieces, last)| {
            let mut bytes = pieces.concat().into_bytes();
            bytes.extend(last);
            bytes
        },
    )
}

proptest! {
    #[test]
    fn lint_and_diagrams_take_any_files(
        texts in prop::collection::vec(text(), 4),
        is_windows in any::<bool>(),
    ) {
        let names = ["START.md", "A.md", "B.sh", "C.bat"];
        let mut world = MemoryWorld::new([]);
        world.platform = if is_windows { Platform::Windows } else { Platform::Unix };
        world.files = names.iter().map(|name| (*name).to_owned()).zip(texts).collect();
        let graph = Graph::of(&world, None).unwrap();
        for finding in lint(&graph, &Known::default()) {
            if let Some(state) = graph.states.values().find(|s| finding.file.as_deref() == Some(s.name.as_str())) {
                prop_assert!(finding.span.end <= state.text.len() as u64, "{finding:?}");
                prop_assert!(finding.span.slice(&state.text).is_some(), "{finding:?}");
            }
        }
        let diagram = Diagram::of("any", &graph, None);
        for link in &diagram.links {
            prop_assert!(link.from < diagram.nodes.len() && link.to < diagram.nodes.len());
        }
        let page = diagram.html();
        prop_assert_eq!(page.matches("</script>").count(), 2);
        prop_assert!(!page.contains("=\"NaN") && !page.contains("=\"inf"));
        diagram.mermaid();
        diagram.dot();
    }
}
