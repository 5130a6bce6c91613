//! Light and dark, contrast, narrow windows, many agents.

use std::{fs, time::Duration};

use serde_json::json;

use super::env::{Desk, gated};
use crate::env::{Project, agent_table};

/// How many agents a large run has here.
const MANY: usize = 1_600;

/// The texts on the page whose contrast to what is behind them is below 4.5 to 1, those of drawings included. Colours are
/// read through a canvas, which knows every notation; what is half transparent is mixed with what is behind it.
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
    // A text of a drawing stands on the box of its group, or on the ground of the drawing.
    const ground = (at) => {
        const box = at.tagName === 'g' && at.querySelector(':scope > rect');
        return rgba(box ? getComputedStyle(box).fill : getComputedStyle(at).backgroundColor);
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = ground(at);
            if (colour[3] === 255) return colour;
        }
        return rgba('white');
    };
    const opacity = (element) => {
        let all = 1;
        for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
        return all;
    };
    const faint = [];
    window.looked = { texts: 0, drawn: 0 };
    const walker = document.createTreeWalker(document.getElementById('app'), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('option, title, :disabled')) continue;
        const isDrawn = Boolean(element.closest('svg'));
        window.looked[isDrawn ? 'drawn' : 'texts'] += 1;
        const style = getComputedStyle(element);
        const back = behind(element);
        const own = rgba(isDrawn ? style.fill : style.color);
        const share = (own[3] / 255) * opacity(element);
        const seen = own.map((part, index) => part * share + back[index] * (1 - share));
        const [one, other] = [light(seen), light(back)];
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
    // One that asks, with transitions that were not taken yet.
    fs::create_dir(project.file("ask")).unwrap();
    let long = "+".repeat(200);
    project.write("plan.diff", &format!("@@ -1,2 +1,2 @@\n same\n-old\n+{long}\n"));
    project.write(
        "ask/START.sh",
        "echo '<ask choices=\"ship=SHIP|hold=HOLD\" attach=\"plan.diff\" timeout=\"2h\" default=\"hold\">Ship `it`?</ask>'",
    );
    for state in ["SHIP", "HOLD"] {
        project.write(&format!("ask/{state}.sh"), "echo '<result>x</result>'");
    }
    project.raymond(&["ask", "--id", "asks", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("broken");
    let run = desk.value("location.hash").as_str().unwrap().to_owned();
    let step = run.replace("#/run/", "#/step/");
    let asks = run.replace("broken", "asks");
    let pages = [
        ("#/".to_owned(), ".asking[data-run=asks]"),
        (run.clone(), ".node.failed"),
        (asks.clone(), ".link.untaken text"),
        (format!("{}/main.1", asks.replace("#/run/", "#/ask/")), ".choices"),
        (format!("{run}?tab=cost"), ".costs, .tab .empty"),
        (format!("{run}?tab=log"), ".event"),
        (format!("{run}?tab=settings"), ".settings"),
        (format!("{step}/main.2"), ".entry.failure"),
        (format!("{step}/main.2?tab=raw"), ".raw"),
        ("#/workflows".to_owned(), ".row.flow"),
        ("#/nonsense".to_owned(), ".empty"),
    ];
    let mut grounds = Vec::new();
    let mut drawn = 0;
    for scheme in ["light", "dark"] {
        desk.prefer("prefers-color-scheme", scheme);
        for width in [1280, 400] {
            desk.size(width, 800);
            for (address, there) in &pages {
                desk.go(address);
                desk.until(&format!("document.querySelector({})", json!(there)));
                desk.value("document.querySelector('.file:not(.set)')?.click()");
                desk.until("!document.querySelector('.file') || document.querySelector('.patch')");
                assert_eq!(desk.value(FAINT), json!([]), "{address} {scheme} {width}");
                drawn += desk.value("window.looked.drawn").as_u64().unwrap();
                let over = "Math.max(0, document.documentElement.scrollWidth - innerWidth)";
                assert_eq!(desk.value(over), json!(0), "{address} {scheme} {width}");
            }
        }
        grounds.push(desk.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
    assert!(drawn > 20, "texts of graphs and timelines were looked at: {drawn}");
    // The switch wins over the system.
    desk.click(".top button", "");
    desk.until("document.documentElement.dataset.theme === 'light'");
    assert_eq!(desk.value("getComputedStyle(document.body).backgroundColor"), grounds[0]);
    desk.is_sound();
}

#[test]
fn run_with_many_agents_draws_only_those_in_sight() {
    // Many steps, too, but not one for each worker: that would take minutes on a busy machine.
    let fork = format!(
        "n=$(cat n 2>/dev/null || echo 0); echo $((n + 8)) > n; \
         if [ \"$n\" -lt {MANY} ]; then yes '<fork next=\"START\">WORK</fork>' | head -n 8; \
         else echo '<goto>WAIT</goto>'; fi"
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
        &format!("agent = \"program\"\nmax_parallel = 1\n{}", agent_table(&agent)),
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
    desk.project.raymond(&["cancel", "large", "--yes"]);
}
