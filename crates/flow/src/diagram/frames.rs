//! The frames around the states of subworkflows.

use std::collections::BTreeSet;

use super::{
    Diagram,
    layout::{BOX_HEIGHT, Layout},
};

/// The room around the boxes in a frame, for each frame that lies in it and for itself.
const ROOM: f64 = 9.0;
/// The room for its name, above the boxes.
const NAME: f64 = 14.0;

/// The frame of a subworkflow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame<'d> {
    /// The folder, with its slash.
    pub(super) folder: &'d str,
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Diagram {
    /// The frames, each after the one that it lies in. Boxes are placed without regard to folders, so a frame that would also
    /// enclose a part of another box is left out: the labels of its boxes say their folder, too.
    pub(super) fn frames(&self, layout: &Layout) -> Vec<Frame<'_>> {
        let folders = self.folders();
        folders.iter().copied().filter_map(|folder| self.frame(folder, &folders, layout)).collect()
    }

    fn frame<'d>(
        &'d self,
        folder: &'d str,
        folders: &BTreeSet<&str>,
        layout: &Layout,
    ) -> Option<Frame<'d>> {
        let depth = |folder: &str| folder.matches('/').count();
        let inner = folders.iter().filter(|inner| inner.starts_with(folder)).map(|it| depth(it));
        let levels = inner.max().unwrap_or_default() + 1 - depth(folder);
        let levels = u32::try_from(levels).map_or(1.0, f64::from);
        let side = ROOM * levels;
        let mut frame = Frame {
            folder,
            left: f64::INFINITY,
            top: f64::INFINITY,
            right: f64::NEG_INFINITY,
            bottom: f64::NEG_INFINITY,
        };
        let places = || layout.centers.iter().zip(&layout.widths).zip(&self.nodes);
        let is_inside = |folder_of: &str| folder_of.starts_with(folder);
        for (((x, y), width), node) in places() {
            if is_inside(node.folder()) {
                frame.left = frame.left.min(x - width / 2.0 - side);
                frame.right = frame.right.max(x + width / 2.0 + side);
                frame.top = frame.top.min(y - BOX_HEIGHT / 2.0 - NAME * levels);
                frame.bottom = frame.bottom.max(y + BOX_HEIGHT / 2.0 + side);
            }
        }
        let is_hit = places().any(|(((x, y), width), node)| {
            !is_inside(node.folder())
                && x + width / 2.0 > frame.left
                && x - width / 2.0 < frame.right
                && y + BOX_HEIGHT / 2.0 > frame.top
                && y - BOX_HEIGHT / 2.0 < frame.bottom
        });
        (!is_hit).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::Graph, world::MemoryWorld};

    fn diagram(files: &[(&str, &str)]) -> Diagram {
        let graph = Graph::of(&MemoryWorld::new(files.iter().copied()), None).unwrap();
        Diagram::of("title", &graph, None)
    }

    const CALL: &str = "<call return=\"END\">in/</call>";

    #[test]
    fn frames_enclose_the_boxes_of_their_folder_and_the_frames_in_it() {
        let diagram = diagram(&[
            ("START.md", CALL),
            ("END.md", "<result/>"),
            ("in/START.md", CALL),
            ("in/END.md", "<result/>"),
            ("in/in/START.md", "<result/>"),
        ]);
        let layout = Layout::of(&diagram);
        let frames = diagram.frames(&layout);
        let [outer, inner] = frames.as_slice() else { panic!("{frames:?}") };
        assert_eq!((outer.folder, inner.folder), ("in/", "in/in/"));
        assert!(outer.left < inner.left && inner.right < outer.right, "{frames:?}");
        assert!(outer.top < inner.top && inner.bottom < outer.bottom, "{frames:?}");
        assert!(outer.left > 0.0 && outer.right < layout.size.0, "{frames:?}");
        let drawn = diagram.html();
        assert!(drawn.contains(">in/in/</text>"), "{drawn}");
    }

    #[test]
    fn frame_that_would_enclose_a_box_of_another_folder_is_not_drawn() {
        // MIDDLE lies between the two states of the folder.
        let diagram = diagram(&[
            ("START.md", "<call return=\"MIDDLE\">in/</call>"),
            ("MIDDLE.md", "<call return=\"END\">in/LAST</call>"),
            ("END.md", "<result/>"),
            ("in/START.md", "<result/>"),
            ("in/LAST.md", "<result/>"),
        ]);
        assert!(diagram.frames(&Layout::of(&diagram)).is_empty());
    }
}
