//! The page of a diagram in a real browser, without a screen.

use std::{fs, path::Path, process::Command};

use crate::{chromium::program as browser, env::Project};

/// Opens a page with these options and returns the browser's output.
fn open(browser: &Path, project: &Project, options: &[&str], address: &str) -> String {
    let profile = project.file("profile");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg("--no-first-run")
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(options)
        .arg(address)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("Uncaught"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn page(project: &Project) -> String {
    let page = project.raymond(&["diagram", "flow", "--html"]);
    assert_eq!(page.code, 0, "{page:?}");
    project.write("page.html", &page.stdout);
    format!("file://{}", project.file("page.html").display())
}

#[test]
fn page_opens_with_the_text_of_the_state_that_its_address_names() {
    let Some(browser) = browser() else { return };
    let start =
        "Say <b>it</b> & </script><script>document.title = 'broken'</script>\n<goto>RUN</goto>";
    let project = Project::new([("START.md", start), ("RUN.sh", "echo '<result>x</result>'")]);
    let address = page(&project);
    let closed = open(&browser, &project, &["--dump-dom"], &address);
    assert!(closed.contains("data-ready=\"true\""), "the script ran to its end: {closed}");
    assert!(closed.contains("id=\"panel\" hidden"), "{closed}");
    let opened = open(&browser, &project, &["--dump-dom"], &format!("{address}#START.md"));
    assert!(opened.contains("<h2 id=\"name\">START.md</h2>"), "{opened}");
    // The browser writes text back escaped: what was markup in the file is text on the page.
    assert!(opened.contains("Say &lt;b&gt;it&lt;/b&gt; &amp; &lt;/script&gt;"), "{opened}");
    assert!(opened.contains("<title>flow</title>"), "{opened}");
    assert!(opened.contains("class=\"node prompt entry chosen\""), "{opened}");
}

#[test]
fn page_can_be_clicked_dragged_and_zoomed() {
    let Some(browser) = browser() else { return };
    let project = Project::new([("START.md", "<goto>RUN</goto>"), ("RUN.sh", "echo hello")]);
    let address = page(&project);
    // Act like a user, after the page's own code. The results are put into the title.
    let hand = "<script>{
        const svg = document.getElementById('picture');
        const at = () => svg.getAttribute('viewBox');
        const event = (kind, x, y, more) => new MouseEvent(kind, { bubbles: true, clientX: x, clientY: y, ...more });
        const said = [];
        const before = at();
        svg.dispatchEvent(new WheelEvent('wheel', { deltaY: -1, clientX: 50, clientY: 50, cancelable: true }));
        said.push(at() !== before ? 'zoomed' : 'still');
        const zoomed = at();
        svg.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true, clientX: 50, clientY: 50 }));
        dispatchEvent(new PointerEvent('pointermove', { clientX: 90, clientY: 70 }));
        dispatchEvent(new PointerEvent('pointerup', {}));
        said.push(at() !== zoomed ? 'dragged' : 'still');
        svg.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true }));
        dispatchEvent(new PointerEvent('pointerup', {}));
        document.querySelector('.node.script').dispatchEvent(event('click', 0, 0));
        said.push(document.getElementById('text').textContent);
        document.title = said.join(' ');
        }</script></body>";
    let text = project.read("page.html").replace("</body>", hand);
    project.write("page.html", &text);
    let after = open(&browser, &project, &["--dump-dom"], &address);
    assert!(after.contains("<title>zoomed dragged echo hello</title>"), "{after}");
}

#[test]
fn page_is_drawn() {
    let Some(browser) = browser() else { return };
    let project = Project::new([("START.md", "<goto>RUN</goto>"), ("RUN.sh", "echo hello")]);
    let address = page(&project);
    let picture = project.file("page.png");
    let options =
        [format!("--screenshot={}", picture.display()), "--window-size=900,700".to_owned()];
    let options = options.iter().map(String::as_str).collect::<Vec<_>>();
    open(&browser, &project, &options, &address);
    let bytes = fs::read(&picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"), "a picture");
    // A page without anything on it takes fewer bytes than this.
    assert!(bytes.len() > 8_000, "{} bytes", bytes.len());
}
