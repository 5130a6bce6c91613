//! Places the labels of lines: on their line, and if possible not on a box or another label.

use super::{
    Diagram,
    layout::{BOX_HEIGHT, Layout, Point, is_loop},
};

/// The size of one character of a label.
pub(super) const CHARACTER: (f64, f64) = (6.8, 13.0);
/// The gap between a line from a box to itself and its label.
pub(super) const BESIDE_LOOP: f64 = 6.0;
/// The positions along a line that are tried, from best to worst.
const PLACES: [f64; 5] = [0.5, 0.35, 0.65, 0.2, 0.8];

/// A rectangle: its center, and half of its size.
type Area = (Point, Point);

/// The center of each line's label; `None` if the line has no label.
pub(super) fn places(diagram: &Diagram, layout: &Layout) -> Vec<Option<Point>> {
    let boxes = layout.centers.iter().zip(&layout.widths);
    let mut used: Vec<Area> =
        boxes.map(|(center, width)| (*center, (width / 2.0, BOX_HEIGHT / 2.0))).collect();
    let place = |(index, path): (usize, &Vec<Point>)| {
        let label = diagram.link_label(index);
        if label.is_empty() {
            return None;
        }
        let half = (width(&label) / 2.0, CHARACTER.1 / 2.0);
        let candidates: Vec<Point> = if is_loop(path) {
            path.get(1).map(|(x, y)| (x + BESIDE_LOOP + half.0, *y)).into_iter().collect()
        } else {
            let parts = path.windows(2).map(|ends| (ends[0], ends[1]));
            parts.flat_map(|ends| PLACES.map(|at| point(ends, at))).collect()
        };
        let is_free = |middle: &&Point| !used.iter().any(|area| overlap(*area, (**middle, half)));
        let chosen = candidates.iter().find(is_free).or(candidates.first()).copied()?;
        used.push((chosen, half));
        Some(chosen)
    };
    layout.paths.iter().enumerate().map(place).collect()
}

/// The size of a label.
pub(super) fn width(label: &str) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a word and a number")]
    let characters = label.chars().count() as f64;
    characters * CHARACTER.0 + 4.0
}

/// The point at this fraction of a curve between two points.
fn point(((from_x, from_y), (to_x, to_y)): (Point, Point), at: f64) -> Point {
    let (back, half) = (1.0 - at, f64::midpoint(from_y, to_y));
    let [start, middle, end] = [back.powi(3), 3.0 * at * back, at.powi(3)];
    let x = (start + middle * back) * from_x + (end + middle * at) * to_x;
    (x, start * from_y + middle * half + end * to_y)
}

fn overlap((one, one_half): Area, (other, other_half): Area) -> bool {
    (one.0 - other.0).abs() < one_half.0 + other_half.0
        && (one.1 - other.1).abs() < one_half.1 + other_half.1
}
