//! Test results as `JUnit` XML, which CI servers read.

use std::fmt::Write as _;

/// The results as `JUnit` XML: the name of each case, its duration, and its differences.
pub(crate) fn junit(suite: &str, results: &[(String, f64, Vec<String>)]) -> String {
    let failures = results.iter().filter(|(_, _, differences)| !differences.is_empty()).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (suite, count) = (escape(suite), results.len());
    let _ = writeln!(xml, "<testsuite name=\"{suite}\" tests=\"{count}\" failures=\"{failures}\">");
    for (name, seconds, differences) in results {
        let name = escape(name);
        let _ =
            write!(xml, "  <testcase classname=\"{suite}\" name=\"{name}\" time=\"{seconds:.3}\"");
        if differences.is_empty() {
            xml.push_str("/>\n");
        } else {
            let text = escape(&differences.join("\n"));
            let _ = writeln!(xml, ">\n    <failure>{text}</failure>\n  </testcase>");
        }
    }
    xml.push_str("</testsuite>\n");
    xml
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            // XML cannot contain these.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_escaped_and_counted() {
        let results = [
            ("a".to_owned(), 0.5, Vec::new()),
            ("b & c".to_owned(), 1.0, vec!["expected <goto>".to_owned()]),
        ];
        let xml = junit("flow", &results);
        assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
        assert!(
            xml.contains("name=\"b &amp; c\"") && xml.contains("expected &lt;goto&gt;"),
            "{xml}"
        );
    }
}
