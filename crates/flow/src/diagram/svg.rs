//! The drawing as SVG.

use std::fmt::Write as _;

use super::{
    Diagram, Link, Node, NodeKind,
    frames::Frame,
    labels,
    layout::{BOX_HEIGHT, Layout, Point, is_loop},
};

impl Diagram {
    /// The diagram as one `<svg>` element. The page provides its styles.
    pub(super) fn svg(&self) -> String {
        let layout = Layout::of(self);
        let (width, height) = layout.size;
        let mut svg = format!(
            "<svg id=\"picture\" xmlns=\"http://www.w3.org/2000/svg\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"group\" aria-label=\"{}\">\n",
            escaped(&self.title)
        );
        svg.push_str(MARKER);
        svg.push_str("<g id=\"view\">\n");
        for frame in self.frames(&layout) {
            draw_frame(&mut svg, &frame);
        }
        let labels = labels::places(self, &layout);
        for (index, (path, label)) in layout.paths.iter().zip(labels).enumerate() {
            self.draw_link(&mut svg, index, path, label);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let is_unvisited = self.taken.is_some() && node.visit.is_none() && node.is_file();
            let mut classes = format!("node {}", node.kind.name());
            for (is_so, class) in [
                (node.is_entry, " entry"),
                (node.visit.is_some(), " visited"),
                (node.visit.is_some_and(|visit| visit.failures > 0), " failed"),
                (is_unvisited, " unvisited"),
            ] {
                classes.push_str(if is_so { class } else { "" });
            }
            let place = (layout.centers[index], layout.widths[index]);
            draw_node(&mut svg, (index, &classes), node, place);
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }

    // Writing to a String cannot fail, here and below.
    fn draw_link(&self, svg: &mut String, index: usize, path: &[Point], label: Option<Point>) {
        let Link { from, to, kind } = self.links[index];
        let kind = kind.name();
        let (from, to) = (escaped(&self.nodes[from].label), escaped(&self.nodes[to].label));
        let state = match self.is_taken(index) {
            Some(true) => " taken",
            Some(false) => " untaken",
            None => "",
        };
        let _ = writeln!(
            svg,
            "<g class=\"link {kind}{state}\"><title>{from} {kind} {to}</title>\
             <path d=\"{}\" marker-end=\"url(#arrow)\"/>",
            curve(path)
        );
        if let Some((x, y)) = label {
            // The y of a text is its baseline.
            let (word, y) = (escaped(&self.link_label(index)), y + 4.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{word}</text>");
        }
        svg.push_str("</g>\n");
    }
}

const MARKER: &str = "<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" \
    refX=\"9\" refY=\"5\" \
    markerWidth=\"10\" markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\">\
    <path d=\"M0 0L10 5L0 10z\" fill=\"context-stroke\"/></marker></defs>\n";

fn draw_frame(svg: &mut String, frame: &Frame<'_>) {
    let Frame { folder, left, top, right, bottom } = frame;
    let (width, height) = (right - left, bottom - top);
    let (x, y) = (left + 8.0, top + 11.0);
    let _ = writeln!(
        svg,
        "<g class=\"folder\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         rx=\"9\"/><text x=\"{x:.1}\" y=\"{y:.1}\">{}</text></g>",
        escaped(folder)
    );
}

fn draw_node(
    svg: &mut String,
    (index, classes): (usize, &str),
    node: &Node,
    ((x, y), width): (Point, f64),
) {
    let (left, top) = (x - width / 2.0, y - BOX_HEIGHT / 2.0);
    // Only a box with a text can be selected.
    let choice = if node.is_file() { " tabindex=\"0\" role=\"button\"" } else { "" };
    let label = escaped(&node.label);
    let radius = match node.kind {
        NodeKind::End | NodeKind::Open => BOX_HEIGHT / 2.0,
        NodeKind::Script => 2.0,
        NodeKind::Prompt | NodeKind::Evaluator | NodeKind::Missing => 9.0,
    };
    let _ = writeln!(
        svg,
        "<g class=\"{classes}\" data-node=\"{index}\"{choice} aria-label=\"{label}\">\
         <rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BOX_HEIGHT}\" \
         rx=\"{radius}\"/>"
    );
    if node.kind == NodeKind::Script {
        // Two bars, as flow charts draw a procedure: not everyone can see the difference in colour.
        for bar in [left + 7.0, left + width - 7.0] {
            let bottom = top + BOX_HEIGHT;
            let _ = writeln!(
                svg,
                "<line x1=\"{bar:.1}\" y1=\"{top:.1}\" x2=\"{bar:.1}\" y2=\"{bottom:.1}\"/>"
            );
        }
    }
    let line = if node.visit.is_some() { y - 3.0 } else { y + 4.5 };
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{line:.1}\">{label}</text>");
    if let Some(visit) = &node.visit {
        let line = y + 14.0;
        let said = escaped(&visit.label());
        let _ = writeln!(svg, "<text class=\"visit\" x=\"{x:.1}\" y=\"{line:.1}\">{said}</text>");
    }
    svg.push_str("</g>\n");
}

/// A smooth line through the points, vertical at each of them.
pub(super) fn curve(path: &[Point]) -> String {
    let Some(((x, y), rest)) = path.split_first() else {
        return String::new();
    };
    let mut text = format!("M{x:.1} {y:.1}");
    if is_loop(path) {
        let ((bend, _), (end_x, end_y)) = (path[1], path[2]);
        let _ = write!(text, "C{bend:.1} {y:.1} {bend:.1} {end_y:.1} {end_x:.1} {end_y:.1}");
        return text;
    }
    let (mut from_x, mut from_y) = (*x, *y);
    for (to_x, to_y) in rest {
        let half = f64::midpoint(from_y, *to_y);
        let _ = write!(text, "C{from_x:.1} {half:.1} {to_x:.1} {half:.1} {to_x:.1} {to_y:.1}");
        (from_x, from_y) = (*to_x, *to_y);
    }
    text
}

/// Escapes text for markup.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control characters are not allowed in a page, not even escaped.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
