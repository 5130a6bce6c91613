//! What agents and scripts print stays text: no element, script or request appears that is not ours.

use std::fs;

use serde_json::{Value, json};

use super::env::Desk;
use crate::env::{Project, agent_table};

/// Markup in every form, escape sequences of terminals, and characters that turn the direction of a text.
const HOSTILE: &str = "<script>window.taken = 1</script><img src=x onerror='window.taken = 2'>\
    <svg onload='window.taken = 3'></svg><iframe src='http://127.0.0.1:1/'></iframe>\
    [click](javascript:window.taken=4) ![pixel](http://127.0.0.1:1/pixel.png) \
    <style>body { display: none }</style><base href='http://127.0.0.1:1/'>\u{1b}[2J\u{1b}]0;title\u{7} \u{202e}desrever \
    ${window.taken = 5} {{constructor}} <!--?lit$--> <form action=/api><input name=x></form>";

/// Elements that only markup from outside could have made.
const FOREIGN: &str = "[...document.querySelectorAll('#app script, #app iframe, #app style, #app base, #app object, #app embed, \
    #app [onerror], #app [onload], #app form[action], #app a[href^=\"javascript\" i], #app img')] \
    .filter((one) => one.getAttribute('src') !== '/icon.svg').map((one) => one.outerHTML)";

#[test]
fn hostile_text_stays_text_on_every_page() {
    let project = Project::new([
        ("START.md", "Begin: {{input}}"),
        ("SHOW.sh", "cat hostile; cat hostile >&2; exit 1"),
    ]);
    project.write("hostile", HOSTILE);
    let reply = json!({ "result": format!("{HOSTILE}\n\n<goto>SHOW</goto>"), "cost_usd": 0.01 });
    project.write("reply.json", &format!("{reply}\n"));
    project.write("agent.sh", "cat > /dev/null; cat reply.json");
    let agent = format!("bash {}", project.file("agent.sh").display());
    project.write(".raymond/config.toml", &format!("agent = \"program\"\n{}", agent_table(&agent)));
    project.write("hostile.md", HOSTILE);
    fs::create_dir(project.file("ask")).unwrap();
    project.write(
        "ask/START.sh",
        "printf '<ask next=\"NEXT\" choices=\"<b>taken</b>|no\" attach=\"hostile.md\">%s</ask>' \"$(cat hostile)\"",
    );
    project.write("ask/NEXT.sh", "echo '<result>x</result>'");
    project.raymond(&["ask", "--id", "asks", "--detach"]);
    let ran = project.raymond(&["flow", "--no-lint", "--id", "evil", "--input", HOSTILE]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("evil");
    let run = desk.value("location.hash").as_str().unwrap().to_owned();
    let step = run.replace("#/run/", "#/step/");
    let pages = [
        ("#/".to_owned(), "[data-run=evil]", ""),
        (run.clone(), ".node.failed", ""),
        (format!("{run}?tab=settings"), ".settings", "<script>window.taken = 1</script>"),
        (format!("{run}?tab=log"), ".log", "SHOW"),
        (format!("{step}/main.1"), ".transcript", "<img src=x onerror='window.taken = 2'>"),
        (format!("{step}/main.1?tab=raw"), ".raw pre", "iframe"),
        (format!("{step}/main.2"), ".transcript", "<script>window.taken = 1</script>"),
        (
            format!("{step}/main.2?tab=raw&file=stderr"),
            ".raw pre",
            "<script>window.taken = 1</script>",
        ),
    ];
    desk.go(&run.replace("evil", "asks"));
    desk.until_says(".asks", "<script>window.taken = 1</script>");
    assert_eq!(desk.value(FOREIGN), json!([]));
    desk.go(&format!("{}/main.1", run.replace("#/run/", "#/ask/").replace("evil", "asks")));
    desk.until_says(".question", "<script>window.taken = 1</script>");
    desk.until_says(".choices button", "<b>taken</b>");
    desk.click(".file", "hostile.md");
    desk.until_says(".attachments .block", "<script>window.taken = 1</script>");
    assert_eq!(desk.value(FOREIGN), json!([]));
    assert_eq!(desk.value("window.taken"), Value::Null);
    for (address, there, said) in &pages {
        desk.go(address);
        desk.until_says(there, said);
        assert_eq!(desk.value(FOREIGN), json!([]), "{address}");
        assert_eq!(desk.value("window.taken"), Value::Null, "{address}");
    }
    assert_ne!(desk.value("document.title"), json!("title"));
    let asked = desk.browser.events("Network.requestWillBeSent");
    let asked: Vec<_> =
        asked.iter().map(|event| event["request"]["url"].as_str().unwrap()).collect();
    let origin = desk.value("location.origin").as_str().unwrap().to_owned();
    let foreign: Vec<_> =
        asked.iter().filter(|url| !url.starts_with(&format!("{origin}/"))).collect();
    assert!(asked.len() > 10 && foreign.is_empty(), "{foreign:?}");
    desk.is_sound();
}

#[test]
fn huge_output_leaves_the_page_usable() {
    let project = Project::new([(
        "START.sh",
        "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo it ends >&2; exit 1",
    )]);
    project.raymond(&["flow", "--id", "huge"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("huge");
    let step = desk.value("location.hash").as_str().unwrap().replace("#/run/", "#/step/");
    desk.go(&format!("{step}/main.1"));
    desk.until("document.querySelector('.entry.failure')");
    desk.go(&format!("{step}/main.1?tab=raw&file=stdout"));
    desk.until("document.querySelector('.raw pre')?.textContent.startsWith('xxx')");
    let length = desk.value("document.body.textContent.length").as_u64().unwrap();
    assert!(length < 2_000_000, "{length} characters are on the page");
    desk.click(".raw button", "last");
    desk.until_says(".raw", "of 50,000,001");
    desk.go(&format!("{step}/main.1?tab=raw&file=stderr"));
    desk.until_says(".raw pre", "it ends");
    desk.is_sound();
}
