//! Places boxes and lines: a layered drawing from top to bottom.
//!
//! ```text
//! 1. reverse the lines that close a cycle                  depth-first search
//! 2. put every box below all boxes that lead to it         longest path
//! 3. give a line across several layers a bend in each
//! 4. sort the boxes of a layer by their neighbours         barycenter, down and up in turn
//! 5. move boxes towards their neighbours as far as there is room
//! ```

use super::{Diagram, Link, Node, labels};

/// The distance from one layer to the next.
const LAYER_HEIGHT: f64 = 104.0;
/// The gap between two boxes of a layer.
const GAP: f64 = 36.0;
/// The margin around the drawing.
const MARGIN: f64 = 40.0;
/// The number of sweeps over all layers. More sweeps hardly ever change the result.
const SWEEPS: usize = 12;
/// The width of a bend: room for its line and a label beside it.
const BEND_WIDTH: f64 = 28.0;

/// How far a line from a box to itself stands out.
const LOOP_WIDTH: f64 = 34.0;

/// The height of a box.
pub(super) const BOX_HEIGHT: f64 = 44.0;

/// A point of the drawing.
pub(super) type Point = (f64, f64);

/// The positions of all boxes and lines.
#[derive(Debug)]
pub(super) struct Layout {
    /// The center of each box.
    pub(super) centers: Vec<Point>,
    /// The width of each box.
    pub(super) widths: Vec<f64>,
    /// The points of each line, in its own direction.
    pub(super) paths: Vec<Vec<Point>>,
    /// The size of the drawing.
    pub(super) size: (f64, f64),
}

/// The items that have a position in a layer: boxes first, then bends.
struct Layering<'d> {
    links: &'d [Link],
    /// Per item, the width that it needs. A box with a line to itself needs more than its own width.
    widths: Vec<f64>,
    /// Per box, its own width.
    boxes: Vec<f64>,
    /// Per item, its layer.
    layers: Vec<usize>,
    /// Per layer, its items from left to right.
    rows: Vec<Vec<usize>>,
    /// Per item, its neighbours in the layer above and in the one below.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// Per line, the items that it passes, from top to bottom.
    chains: Vec<Vec<usize>>,
    /// Per line, whether it points upwards.
    is_turned: Vec<bool>,
    x: Vec<f64>,
}

impl Layout {
    /// Computes the layout of `diagram`.
    pub(super) fn of(diagram: &Diagram) -> Self {
        let mut work = Layering::new(diagram);
        work.sort_rows();
        work.spread();
        work.finish()
    }
}

/// The width that each box needs, including a line to itself with its label on the right. The same
/// space is left free on the left, so that the box stays centered.
fn rooms(diagram: &Diagram, boxes: &[f64]) -> Vec<f64> {
    let mut rooms = boxes.to_vec();
    for (index, link) in diagram.links.iter().enumerate().filter(|(_, link)| link.from == link.to) {
        let word = labels::width(&diagram.link_label(index)) + labels::BESIDE_LOOP;
        rooms[link.from] = rooms[link.from].max(boxes[link.from] + 2.0 * (LOOP_WIDTH + word));
    }
    rooms
}

/// Whether these are the points of a line from a box to itself.
pub(super) fn is_loop(path: &[Point]) -> bool {
    path.len() == 3 && (path[0].1 - path[2].1).abs() < BOX_HEIGHT
}

/// The width of a box for its texts.
fn width(node: &Node) -> f64 {
    const CHARACTER: f64 = 8.0;
    const SMALL_CHARACTER: f64 = 6.8;
    let label = columns(&node.label) * CHARACTER;
    let visit = node.visit.map_or(0.0, |visit| columns(&visit.label()) * SMALL_CHARACTER);
    (label.max(visit) + 36.0).max(72.0)
}

/// The number of terminal columns of a text: East Asian characters and emoji take two.
#[expect(clippy::cast_precision_loss, reason = "names have at most 255 characters")]
fn columns(text: &str) -> f64 {
    let columns = |c: char| if c < '\u{1100}' { 1 } else { 2 };
    text.chars().map(columns).sum::<usize>() as f64
}

impl<'d> Layering<'d> {
    fn new(diagram: &'d Diagram) -> Self {
        let count = diagram.nodes.len();
        let links = diagram.links.as_slice();
        let is_turned = turned(diagram);
        let layers = layers(count, links, &is_turned);
        let boxes: Vec<f64> = diagram.nodes.iter().map(width).collect();
        let depth = layers.iter().max().map_or(0, |deepest| deepest + 1);
        let mut work = Layering {
            links,
            widths: rooms(diagram, &boxes),
            boxes,
            rows: vec![Vec::new(); depth],
            above: vec![Vec::new(); count],
            below: vec![Vec::new(); count],
            chains: Vec::new(),
            is_turned,
            x: Vec::new(),
            layers,
        };
        for item in 0..count {
            work.rows[work.layers[item]].push(item);
        }
        for (link, is_turned) in links.iter().zip(work.is_turned.clone()) {
            let (upper, lower) =
                if is_turned { (link.to, link.from) } else { (link.from, link.to) };
            let chain = if upper == lower { vec![upper] } else { work.chain(upper, lower) };
            work.chains.push(chain);
        }
        work
    }

    /// Adds a bend in each layer that a line crosses, and returns the items that the line passes.
    fn chain(&mut self, upper: usize, lower: usize) -> Vec<usize> {
        let mut chain = vec![upper];
        for layer in self.layers[upper] + 1..self.layers[lower] {
            let bend = self.layers.len();
            self.layers.push(layer);
            self.widths.push(BEND_WIDTH);
            self.above.push(Vec::new());
            self.below.push(Vec::new());
            self.rows[layer].push(bend);
            chain.push(bend);
        }
        chain.push(lower);
        for pair in chain.windows(2) {
            self.below[pair[0]].push(pair[1]);
            self.above[pair[1]].push(pair[0]);
        }
        chain
    }

    /// Sorts each row by the mean position of the neighbours in the previous row.
    fn sort_rows(&mut self) {
        let mut place = vec![0.0; self.layers.len()];
        for row in &self.rows {
            number(row, &mut place);
        }
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            let depth = self.rows.len();
            for step in 1..depth {
                let layer = if down { step } else { depth - 1 - step };
                let neighbours = if down { &self.above } else { &self.below };
                let row = &mut self.rows[layer];
                let key = |item: &usize| mean(&neighbours[*item], &place).unwrap_or(place[*item]);
                row.sort_by(|one, other| key(one).total_cmp(&key(other)));
                number(row, &mut place);
            }
        }
    }

    /// Computes the x of every item: side by side first, then moved towards its neighbours.
    fn spread(&mut self) {
        self.x = vec![0.0; self.layers.len()];
        for row in &self.rows {
            let total: f64 = row.iter().map(|item| self.widths[*item] + GAP).sum();
            let mut left = -total / 2.0;
            for item in row {
                let room = self.widths[*item] + GAP;
                self.x[*item] = left + room / 2.0;
                left += room;
            }
        }
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            for step in 0..self.rows.len() {
                let layer = if down { step } else { self.rows.len() - 1 - step };
                self.settle_row(layer, down);
            }
        }
    }

    /// Moves the items of one row to their wanted positions, without overlap.
    fn settle_row(&mut self, layer: usize, down: bool) {
        let row = &self.rows[layer];
        let neighbours = if down { &self.above } else { &self.below };
        let wanted: Vec<f64> = row
            .iter()
            .map(|item| mean(&neighbours[*item], &self.x).unwrap_or(self.x[*item]))
            .collect();
        let apart = |one: usize, other: usize| {
            f64::midpoint(self.widths[row[one]], self.widths[row[other]]) + GAP
        };
        // Push apart once from the left and once from the right. The mean is unbiased and keeps the order.
        let mut from_left = wanted.clone();
        for at in 1..row.len() {
            from_left[at] = from_left[at].max(from_left[at - 1] + apart(at - 1, at));
        }
        let mut from_right = wanted;
        for at in (1..row.len()).rev() {
            from_right[at - 1] = from_right[at - 1].min(from_right[at] - apart(at - 1, at));
        }
        for (at, item) in row.iter().enumerate() {
            self.x[*item] = f64::midpoint(from_left[at], from_right[at]);
        }
    }

    /// Shifts everything into the drawing and computes the lines.
    fn finish(mut self) -> Layout {
        let left = self.edge(|x, half| x - half, f64::min);
        for x in &mut self.x {
            *x += MARGIN - left;
        }
        let right = self.edge(|x, half| x + half, f64::max);
        let centers = (0..self.layers.len()).map(|item| self.center(item)).collect::<Vec<_>>();
        let paths = (0..self.links.len()).map(|link| self.path(link, &centers)).collect();
        let size = (right + MARGIN, layer_y(self.rows.len()) - LAYER_HEIGHT / 2.0 + MARGIN);
        let count = self.boxes.len();
        Layout {
            centers: centers.into_iter().take(count).collect(),
            widths: self.boxes,
            paths,
            size,
        }
    }

    fn edge(&self, side: fn(f64, f64) -> f64, pick: fn(f64, f64) -> f64) -> f64 {
        let sides = self.x.iter().zip(&self.widths).map(|(x, width)| side(*x, width / 2.0));
        sides.reduce(pick).unwrap_or(0.0)
    }

    fn center(&self, item: usize) -> Point {
        (self.x[item], layer_y(self.layers[item]))
    }

    /// The points of a line: from the edge of one box, through its bends, to the edge of another.
    fn path(&self, link: usize, centers: &[Point]) -> Vec<Point> {
        let chain = &self.chains[link];
        let (Some(&upper), Some(&lower)) = (chain.first(), chain.last()) else {
            return Vec::new();
        };
        if upper == lower {
            return self.own_loop(upper, centers);
        }
        let mut points: Vec<Point> = chain.iter().map(|item| centers[*item]).collect();
        let last = points.len() - 1;
        points[0] = self.port(upper, link, true, centers);
        points[last] = self.port(lower, link, false, centers);
        if self.is_turned[link] {
            points.reverse();
        }
        points
    }

    fn own_loop(&self, item: usize, centers: &[Point]) -> Vec<Point> {
        let (x, y) = centers[item];
        let side = x + self.boxes[item] / 2.0;
        vec![(side, y - 10.0), (side + LOOP_WIDTH, y), (side, y + 10.0)]
    }

    /// Where a line meets a box. All lines on a side share its width, in the order of their other ends, so
    /// that they do not cross near the box and two lines between the same boxes stay apart.
    fn port(&self, item: usize, link: usize, is_below: bool, centers: &[Point]) -> Point {
        let mut lines: Vec<(f64, usize)> = Vec::new();
        for (other, chain) in self.chains.iter().enumerate() {
            let (near, next) = if is_below {
                (chain.first(), chain.get(1))
            } else {
                (chain.last(), chain.len().checked_sub(2).and_then(|at| chain.get(at)))
            };
            if let (true, Some(next)) = (near == Some(&item), next) {
                lines.push((centers[*next].0, other));
            }
        }
        lines.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let at = lines.iter().position(|(_, other)| *other == link).unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "there are few lines at a box")]
        let share = (at as f64 + 1.0) / (lines.len() as f64 + 1.0) - 0.5;
        let (x, y) = centers[item];
        let half = if is_below { BOX_HEIGHT / 2.0 } else { -BOX_HEIGHT / 2.0 };
        (x + share * self.boxes[item] * 0.8, y + half)
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are at most as many layers as files")]
fn layer_y(layer: usize) -> f64 {
    MARGIN + BOX_HEIGHT / 2.0 + layer as f64 * LAYER_HEIGHT
}

#[expect(clippy::cast_precision_loss, reason = "there are at most as many places as lines")]
fn number(row: &[usize], place: &mut [f64]) {
    for (at, item) in row.iter().enumerate() {
        place[*item] = at as f64;
    }
}

fn mean(items: &[usize], place: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "there are few lines at a box")]
    let count = items.len() as f64;
    (!items.is_empty()).then(|| items.iter().map(|item| place[*item]).sum::<f64>() / count)
}

/// The lines to reverse so that no cycle is left: those that lead back to a box on the current path
/// of a depth-first search.
fn turned(diagram: &Diagram) -> Vec<bool> {
    let count = diagram.nodes.len();
    let mut is_turned = vec![false; diagram.links.len()];
    let (mut is_seen, mut is_on_way) = (vec![false; count], vec![false; count]);
    let mut roots: Vec<usize> = (0..count).collect();
    roots.sort_by_key(|node| !diagram.nodes[*node].is_entry);
    for root in roots {
        // An explicit stack: a chain of states may be too long for recursion.
        let mut stack = vec![(root, 0)];
        while let Some((node, from_link)) = stack.pop() {
            if from_link == 0 {
                if is_seen[node] {
                    continue;
                }
                is_seen[node] = true;
                is_on_way[node] = true;
            }
            let next = (from_link..diagram.links.len()).find(|at| {
                let link = diagram.links[*at];
                link.from == node && (is_on_way[link.to] || !is_seen[link.to])
            });
            let Some(at) = next else {
                is_on_way[node] = false;
                continue;
            };
            stack.push((node, at + 1));
            let to = diagram.links[at].to;
            if is_on_way[to] {
                is_turned[at] = to != node;
            } else {
                stack.push((to, 0));
            }
        }
    }
    is_turned
}

/// The layer of each box: one below the lowest box that leads to it.
fn layers(count: usize, links: &[Link], is_turned: &[bool]) -> Vec<usize> {
    let mut layers = vec![0; count];
    // Without cycles no path is longer than the number of boxes, so this ends.
    for _ in 0..count {
        let mut is_settled = true;
        for (link, is_turned) in links.iter().zip(is_turned) {
            let (upper, lower) =
                if *is_turned { (link.to, link.from) } else { (link.from, link.to) };
            if upper != lower && layers[lower] <= layers[upper] {
                layers[lower] = layers[upper] + 1;
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    layers
}
