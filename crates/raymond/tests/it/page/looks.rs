//! Light and dark, contrast, narrow windows, many agents.

use std::time::Duration;

use serde_json::json;

use super::env::{Desk, gated};
use crate::env::Project;

/// How many agents a large run has here.
const MANY: usize = 1_600;

/// The texts on the page whose contrast to what is behind them is below 4.5 to 1. Colours are read through a canvas,
/// which knows every notation.
const FAINT: &str = r"(() => {
    const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgba = (colour) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b].map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = rgba(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return rgba('white');
    };
    const faint = [];
    const walker = document.createTreeWalker(document.getElementById('app'), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('svg, option, :disabled')) continue;
        const [one, other] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
    }
    return faint;
})()";

#[test]
fn every_page_is_readable_in_light_and_dark_and_fits_a_narrow_window() {
    let project = Project::new([
        ("START.sh", "echo '<goto>BROKEN</goto>'"),
        ("BROKEN.sh", "echo some output; echo and an error >&2; exit 3"),
    ]);
    project.raymond(&["flow", "--id", "broken"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("broken");
    let run = desk.value("location.hash").as_str().unwrap().to_owned();
    let step = run.replace("#/run/", "#/step/");
    let pages = [
        ("#/".to_owned(), "[data-run=broken]"),
        (run.clone(), ".node.failed"),
        (format!("{run}?tab=cost"), ".costs, .tab .empty"),
        (format!("{run}?tab=log"), ".event"),
        (format!("{run}?tab=settings"), ".settings"),
        (format!("{step}/main.2"), ".entry.failure"),
        (format!("{step}/main.2?tab=raw"), ".raw"),
        ("#/workflows".to_owned(), ".row.flow"),
        ("#/nonsense".to_owned(), ".empty"),
    ];
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        desk.scheme(scheme);
        for width in [1280, 400] {
            desk.size(width, 800);
            for (address, there) in &pages {
                desk.go(address);
                desk.until(&format!("document.querySelector({})", json!(there)));
                assert_eq!(desk.value(FAINT), json!([]), "{address} {scheme} {width}");
                let over = "Math.max(0, document.documentElement.scrollWidth - innerWidth)";
                assert_eq!(desk.value(over), json!(0), "{address} {scheme} {width}");
            }
        }
        grounds.push(desk.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
    // The switch wins over the system.
    desk.click(".top button", "");
    desk.until("document.documentElement.dataset.theme === 'light'");
    assert_eq!(desk.value("getComputedStyle(document.body).backgroundColor"), grounds[0]);
    desk.is_sound();
}

#[test]
fn run_with_many_agents_draws_only_those_in_sight() {
    let fork = format!(
        "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; \
         [ \"$n\" -lt {MANY} ] && echo '<fork next=\"START\">WORK</fork>' || echo '<goto>WAIT</goto>'"
    );
    let project = Project::new([
        ("START.sh", fork.as_str()),
        ("WAIT.sh", &gated("gate", "<result>done</result>")),
        ("WORK.md", "Wait. <result>x</result>"),
    ]);
    // One worker at a time is asked, and it waits: all others are queued.
    project.write("agent.sh", &gated("gate", "{\"result\": \"<result>x</result>\"}"));
    let agent = format!("bash {}", project.file("agent.sh").display());
    project.write(
        ".raymond/config.toml",
        &format!("agent = \"program\"\nagent_program = \"{agent}\"\nmax_parallel = 1\n"),
    );
    project.raymond(&["flow", "--id", "large", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("large");
    let everyone = "document.querySelector('.agents h2')?.textContent.includes('1,601 agents')";
    desk.until_within(Duration::from_mins(3), everyone);
    desk.until("document.querySelector('.many text')?.textContent === '1600'");
    let rows = desk.count(".agent");
    assert!((10..150).contains(&rows), "{rows} agents are drawn");
    assert!(desk.count(".lane") < 150);
    assert!(desk.count(".steps .step") < 150);
    // The last one is drawn when the reader is there.
    desk.value("{ const list = document.querySelector('.agents .scroll'); list.scrollTop = list.scrollHeight }");
    desk.until_says(".agents .scroll", "main_work1600");
    assert!(desk.count(".agent") < 150);
    desk.is_sound();
    desk.project.raymond(&["cancel", "large"]);
}
