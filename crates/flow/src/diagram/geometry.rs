//! The drawing as numbers, for a page that draws it itself and moves agents along its lines.

use super::{Diagram, labels, layout::BOX_HEIGHT, layout::Layout, svg::curve};

/// Where everything of a diagram is.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Width and height of the drawing.
    pub size: (f64, f64),
    /// The boxes, in the order of the diagram's nodes.
    pub boxes: Vec<BoxPlace>,
    /// The lines, in the order of the diagram's links.
    pub lines: Vec<LinePlace>,
}

/// Where a box is.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxPlace {
    /// Its middle.
    pub center: (f64, f64),
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

/// Where a line is.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePlace {
    /// The `d` of an SVG path, in the direction of the line.
    pub path: String,
    /// What is written beside it; empty if nothing is.
    pub label: String,
    /// The middle of that.
    pub label_at: Option<(f64, f64)>,
}

impl Diagram {
    /// Places everything. The same diagram always gives the same numbers.
    pub fn geometry(&self) -> Geometry {
        let layout = Layout::of(self);
        let labels = labels::places(self, &layout);
        let boxes = layout.centers.iter().zip(&layout.widths);
        let boxes = boxes.map(|(center, width)| BoxPlace {
            center: *center,
            width: *width,
            height: BOX_HEIGHT,
        });
        let lines = layout.paths.iter().zip(labels).enumerate();
        let lines = lines.map(|(index, (path, label_at))| LinePlace {
            path: curve(path),
            label: self.link_label(index),
            label_at,
        });
        Geometry { size: layout.size, boxes: boxes.collect(), lines: lines.collect() }
    }
}
