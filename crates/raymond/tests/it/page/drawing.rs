//! Zoom and pan of graph and timeline, and what moves.

use serde_json::json;

use super::env::{Desk, gated};
use crate::env::Project;

/// A run of three steps, the last two of which wait.
fn project() -> Project {
    Project::new([
        ("START.sh", "echo '<goto>TWO</goto>'"),
        ("TWO.sh", &gated("gate", "<goto>THREE</goto>")),
        ("THREE.sh", &gated("gate3", "<result>three</result>")),
    ])
}

/// What the graph shows: x, y, width and height.
fn view(desk: &mut Desk) -> [f64; 4] {
    let view = desk.value(
        "document.querySelector('.graph > svg').getAttribute('viewBox').split(' ').map(Number)",
    );
    [0, 1, 2, 3].map(|index| view[index].as_f64().unwrap())
}

/// The view in whole units.
fn rounded(view: [f64; 4]) -> [String; 4] {
    view.map(|number| format!("{number:.0}"))
}

#[test]
fn graph_is_zoomed_and_moved_and_remembers_that() {
    let project = project();
    project.write("gate", "");
    project.write("gate3", "");
    project.raymond(&["flow", "--id", "r"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until("document.querySelectorAll('.node.script').length === 3");
    let whole = view(&mut desk);
    let changed = |from: [f64; 4]| {
        format!(
            "document.querySelector('.graph > svg').getAttribute('viewBox') !== '{} {} {} {}'",
            from[0], from[1], from[2], from[3]
        )
    };
    desk.click(".zoom button", "+");
    desk.until(&changed(whole));
    let nearer = view(&mut desk);
    assert!(nearer[2] < whole[2], "{nearer:?}");

    // The wheel alone scrolls the page; with Ctrl it zooms, and the point under the mouse stays.
    let corner = desk.middle(".node.script");
    let under = format!(
        "{{ const at = new DOMPoint({}, {}).matrixTransform(document.querySelector('.graph > svg').getScreenCTM().inverse()); [Math.round(at.x), Math.round(at.y)] }}",
        corner[0], corner[1]
    );
    let before = desk.value(&under);
    desk.wheel(corner, [0.0, -60.0], 2);
    desk.until(&changed(nearer));
    let nearest = view(&mut desk);
    assert!(nearest[2] < nearer[2], "{nearest:?}");
    assert_eq!(desk.value(&under), before);

    let middle = desk.middle(".graph > svg");
    desk.drag(middle, [80.0, 40.0]);
    desk.until(&changed(nearest));
    let moved = view(&mut desk);
    assert!(moved[0] < nearest[0] && moved[1] < nearest[1], "{moved:?}");
    // A drag is no click: no state was chosen.
    assert_eq!(desk.count(".tabs .filter"), 0);

    desk.go("#/");
    desk.go_to_run("r");
    desk.until("document.querySelectorAll('.node.script').length === 3");
    assert_eq!(rounded(view(&mut desk)), rounded(moved));
    desk.click(".zoom button", "fit");
    desk.until("!document.querySelector('.graph').innerText.includes('fit')");
    assert_eq!(rounded(view(&mut desk)), rounded(whole));
    // A click is one: the steps of that state only.
    let node = desk.middle(".node.script");
    desk.drag(node, [0.0, 0.0]);
    desk.until("document.querySelector('.tabs .filter') && document.querySelectorAll('.steps .step').length === 1");
    desk.is_sound();
}

#[test]
fn timeline_is_zoomed_and_moved_and_a_bar_opens_its_step() {
    let project = project();
    project.write("gate", "");
    project.write("gate3", "");
    project.raymond(&["flow", "--id", "r"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until("document.querySelectorAll('.timeline .bar').length === 3");
    let first = "Number(document.querySelector('.timeline .bar rect').getAttribute('width'))";
    let whole = desk.value(first).as_f64().unwrap();
    let bar = desk.middle(".timeline .bar rect");
    desk.wheel(bar, [0.0, -100.0], 2);
    desk.until(&format!("{first} > {whole} * 1.2"));
    desk.until(
        "[...document.querySelectorAll('.axis button')].some((one) => one.innerText === 'all')",
    );
    let second = "[...document.querySelectorAll('.timeline .bar')].find((bar) => bar.textContent.includes('main.2'))";
    let left = format!("Number({second}?.querySelector('rect').getAttribute('x') ?? -99)");
    let at = desk.value(&left).as_f64().unwrap();
    desk.wheel(bar, [40.0, 0.0], 0);
    desk.until(&format!("{left} < {at}"));
    let zoomed = desk.value(first).as_f64().unwrap();
    desk.click(".axis button", "all");
    desk.until(
        "![...document.querySelectorAll('.axis button')].some((one) => one.innerText === 'all')",
    );
    desk.until(&format!("{first} < {zoomed}"));
    desk.value("document.querySelectorAll('.timeline .bar')[1].dispatchEvent(new MouseEvent('click', { bubbles: true })); 0");
    desk.until_says(".step-page .head", "TWO.sh");
    desk.is_sound();
}

#[test]
fn dot_travels_along_its_edge_unless_the_reader_wants_no_motion() {
    for (preference, is_moving) in [("no-preference", true), ("reduce", false)] {
        let project = project();
        project.raymond(&["flow", "--id", "r", "--detach"]);
        let Some(mut desk) = Desk::or_skip(project) else { return };
        desk.prefer("prefers-reduced-motion", preference);
        desk.go_to_run("r");
        desk.until_says(".agent .state", "TWO.sh");
        desk.until("document.querySelector('.graph .dot.running')");
        desk.value(
            "window.paths = []; new MutationObserver((changes) => { \
             for (const change of changes) for (const dot of change.addedNodes) paths.push(dot.style.offsetPath); \
             }).observe(document.querySelector('.graph .travellers'), { childList: true }); 0",
        );
        desk.project.write("gate", "");
        desk.until_says(".agent .state", "THREE.sh");
        desk.project.write("gate3", "");
        desk.until_says(".run .status", "completed");
        desk.until("document.querySelectorAll('.steps .step').length === 3");
        let travelled =
            desk.value("window.paths.filter((path) => path.startsWith('path(')).length > 0");
        assert_eq!(travelled, json!(is_moving), "{preference}");
        desk.until("!document.querySelector('.dot')");
        desk.is_sound();
    }
}

#[test]
fn states_of_a_subworkflow_are_drawn_in_a_box_with_its_name() {
    let project = Project::new([
        ("START.sh", "echo '<function return=\"LAST\">review/</function>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ]);
    std::fs::create_dir(project.file("flow/review")).unwrap();
    project.write("flow/review/START.sh", "echo '<goto>JUDGE</goto>'");
    project.write("flow/review/JUDGE.sh", &gated("gate", "<result>fine</result>"));
    project.raymond(&["flow", "--id", "r", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until("document.querySelectorAll('.graph .node.script').length === 4");
    let folders =
        "[...document.querySelectorAll('.graph .folder text')].map((name) => name.textContent)";
    assert_eq!(desk.value(folders), json!(["review/"]));
    let names = "[...document.querySelectorAll('.graph .node.script .name')].map((name) => name.textContent).sort()";
    assert_eq!(desk.value(names), json!(["JUDGE.sh", "LAST.sh", "START.sh", "START.sh"]));
    // Both states are in the box, the others are not.
    let inside = "{ const box = document.querySelector('.folder rect').getBoundingClientRect(); \
        [...document.querySelectorAll('.graph .node.script')].filter((node) => { const at = node.getBoundingClientRect(); \
        return at.left >= box.left && at.right <= box.right && at.top >= box.top && at.bottom <= box.bottom; }) \
        .map((node) => node.getAttribute('aria-label')).sort() }";
    assert_eq!(desk.value(inside), json!(["review/JUDGE.sh", "review/START.sh"]));
    desk.until("document.querySelector('.graph .dot.running')");
    desk.project.write("gate", "");
    desk.until_says(".run .status", "completed");
    desk.is_sound();
}

#[test]
fn box_of_a_folder_encloses_the_boxes_of_the_folders_in_it() {
    let project = Project::new([
        ("START.sh", "echo '<function return=\"LAST\">review/</function>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ]);
    std::fs::create_dir_all(project.file("flow/review/security")).unwrap();
    project.write("flow/review/START.sh", "echo '<function return=\"END\">security/</function>'");
    project.write("flow/review/END.sh", "echo '<result>fine</result>'");
    project.write("flow/review/security/START.sh", "echo '<goto>LOOK_FOR_SECRETS</goto>'");
    project.write("flow/review/security/LOOK_FOR_SECRETS.sh", "echo '<result>none</result>'");
    project.raymond(&["flow", "--id", "r"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until("document.querySelectorAll('.graph .folder').length === 2");
    // How far the inner box is from each side of the outer one, in its own units.
    let room = "{ const boxes = [...document.querySelectorAll('.graph .folder')]; \
        const side = (label) => { const rect = boxes.find((box) => box.querySelector('text').textContent === label).querySelector('rect'); \
        const number = (name) => Number(rect.getAttribute(name)); \
        return [number('x'), number('y'), number('x') + number('width'), number('y') + number('height')]; }; \
        const [outer, inner] = [side('review/'), side('review/security/')]; \
        [inner[0] - outer[0], inner[1] - outer[1], outer[2] - inner[2], outer[3] - inner[3]] }";
    let room = desk.value(room);
    let room: Vec<f64> =
        room.as_array().unwrap().iter().filter_map(serde_json::Value::as_f64).collect();
    assert!(room.len() == 4 && room.iter().all(|room| *room >= 10.0), "{room:?}");
    desk.is_sound();
}

#[test]
fn worker_with_a_worktree_links_to_what_it_has_changed() {
    let project = crate::worktrees::repository([
        ("START.sh", "echo '<fork next=\"WAIT\" worktree=\"true\">WORK</fork>'"),
        (
            "WORK.sh",
            &*format!(
                "echo two > a.txt; cd ../../../..; {}",
                gated("gate", "<result>done</result>")
            ),
        ),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo '<result>joined</result>'"),
    ]);
    project.raymond(&["flow", "--id", "r", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until_says(".agents", "raymond/r/main_work1");
    desk.click(".returns a", "raymond/r/main_work1");
    desk.until_says(".patch .line.added", "+two");
    desk.until_says(".patch .line.removed", "-one");
    desk.project.write("gate", "");
    desk.wait_for_end("r");
    // The same after the end, when it is committed.
    desk.click(".tab button", "read again");
    desk.until_says(".patch .line.added", "+two");
    desk.is_sound();
}
