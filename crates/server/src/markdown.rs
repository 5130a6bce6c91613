//! Markdown as a tree of texts and tags that a page can show without ever parsing markup: what a model writes stays
//! text, whatever it looks like.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

/// The deepest tree. Deeper nesting is flattened, because a browser draws the tree with recursion.
const DEPTH_MAX: usize = 32;
/// The most nodes of a tree; the rest of the text becomes one node.
const NODES_MAX: usize = 20_000;
/// The only links that a click may follow.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// The tree of `text`.
pub(crate) fn tree(text: &str) -> Value {
    let mut builder = Builder { stack: vec![Element::new("")], skipped: 0, nodes: 0 };
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        if builder.nodes >= NODES_MAX {
            let rest = text.get(range.start..).unwrap_or_default();
            return builder.finish(Some(rest));
        }
        builder.take(event);
    }
    builder.finish(None)
}

/// An element whose children are still being added.
struct Element {
    tag: &'static str,
    attributes: Vec<(&'static str, Value)>,
    children: Vec<Value>,
}

impl Element {
    fn new(tag: &'static str) -> Self {
        Self { tag, attributes: Vec::new(), children: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: Value) -> Self {
        self.attributes.push((name, value));
        self
    }

    fn value(self) -> Value {
        let mut value = json!({ "tag": self.tag, "children": self.children });
        for (name, of) in self.attributes {
            value[name] = of;
        }
        value
    }
}

struct Builder {
    stack: Vec<Element>,
    /// How many open tags were flattened.
    skipped: usize,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(&tag),
            Event::End(end) => self.close(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let mut node = Element::new("code");
                node.children.push(json!(&*text));
                self.add(node.value());
            }
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => self.add(Element::new("br").value()),
            Event::Rule => self.add(Element::new("hr").value()),
            Event::TaskListMarker(is_done) => {
                if let Some(node) = self.stack.last_mut() {
                    node.attributes.push(("checked", json!(is_done)));
                }
            }
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        if self.stack.len() > DEPTH_MAX {
            self.skipped += 1;
            return;
        }
        let node = match tag {
            Tag::Heading { level, .. } => Element::new(match level {
                HeadingLevel::H1 => "h1",
                HeadingLevel::H2 => "h2",
                HeadingLevel::H3 => "h3",
                HeadingLevel::H4 => "h4",
                HeadingLevel::H5 => "h5",
                HeadingLevel::H6 => "h6",
            }),
            Tag::BlockQuote(_) => Element::new("blockquote"),
            Tag::CodeBlock(CodeBlockKind::Fenced(language)) => {
                Element::new("pre").with("lang", json!(&**language))
            }
            Tag::CodeBlock(CodeBlockKind::Indented) => Element::new("pre"),
            Tag::List(Some(start)) => Element::new("ol").with("start", json!(start)),
            Tag::List(None) => Element::new("ul"),
            Tag::Item => Element::new("li"),
            Tag::Table(_) => Element::new("table"),
            Tag::TableHead => Element::new("thead"),
            Tag::TableRow => Element::new("tr"),
            Tag::TableCell => Element::new("td"),
            Tag::Emphasis => Element::new("em"),
            Tag::Strong => Element::new("strong"),
            Tag::Strikethrough => Element::new("del"),
            // An image would be fetched from wherever a model says.
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => link(dest_url),
            _ => Element::new("p"),
        };
        self.stack.push(node);
    }

    fn close(&mut self, _end: TagEnd) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if self.stack.len() > 1
            && let Some(node) = self.stack.pop()
        {
            self.add(node.value());
        }
    }

    fn text(&mut self, text: &str) {
        // Pieces of one text come one by one.
        if let Some(node) = self.stack.last_mut()
            && let Some(Value::String(last)) = node.children.last_mut()
        {
            last.push_str(text);
            return;
        }
        self.add(json!(text));
    }

    fn add(&mut self, value: Value) {
        self.nodes += 1;
        if let Some(node) = self.stack.last_mut() {
            node.children.push(value);
        }
    }

    fn finish(mut self, rest: Option<&str>) -> Value {
        while self.stack.len() > 1 {
            let node = self.stack.pop().map(Element::value);
            self.stack
                .last_mut()
                .into_iter()
                .for_each(|parent| parent.children.extend(node.clone()));
        }
        let mut children = self.stack.pop().map(|node| node.children).unwrap_or_default();
        if let Some(rest) = rest {
            let mut node = Element::new("pre");
            node.children.push(json!(rest));
            children.push(node.value());
        }
        Value::from(children)
    }
}

/// A link, or plain text if a click on it could do anything but open a page.
fn link(to: &str) -> Element {
    let lower = to.trim().to_ascii_lowercase();
    if SCHEMES.iter().any(|scheme| lower.starts_with(scheme)) && !to.contains(char::is_control) {
        Element::new("a").with("href", json!(to.trim()))
    } else {
        Element::new("span")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(all) => all.iter().map(depth).max().unwrap_or(0),
            Value::Object(_) => 1 + depth(&value["children"]),
            _ => 0,
        }
    }

    #[test]
    fn text_becomes_a_tree() {
        let tree = tree("I look at **it**.\n\n1. a\n2. [x] b\n\n```rust\nfn a() {}\n```\n");
        assert_eq!(
            tree,
            json!([
                { "tag": "p", "children": ["I look at ", { "tag": "strong", "children": ["it"] }, "."] },
                { "tag": "ol", "start": 1, "children": [
                    { "tag": "li", "children": ["a"] },
                    { "tag": "li", "checked": true, "children": ["b"] },
                ] },
                { "tag": "pre", "lang": "rust", "children": ["fn a() {}\n"] },
            ])
        );
    }

    #[test]
    fn markup_stays_text_and_only_harmless_links_are_links() {
        let text = tree("<script>alert(1)</script>\n\n<b onclick=x>b</b> [a](javascript:alert(1)) ![p](http://x/y.png) [m](MAILTO:a@b)").to_string();
        assert!(text.contains("<script>alert(1)</script>"), "{text}");
        assert!(text.contains("<b onclick=x>"), "{text}");
        assert!(!text.contains("javascript:"), "{text}");
        assert!(text.contains(r#""href":"http://x/y.png""#) && !text.contains("img"), "{text}");
        assert!(text.contains(r#""href":"MAILTO:a@b""#), "{text}");
    }

    #[test]
    fn depth_and_size_are_bounded_and_no_text_is_lost() {
        let deep = format!("{}end", "> ".repeat(5_000));
        let tree_of_deep = tree(&deep);
        assert!(depth(&tree_of_deep) <= DEPTH_MAX + 1, "{}", depth(&tree_of_deep));
        assert!(tree_of_deep.to_string().contains("end"));
        let long = format!("{}the end", "*a* b\n\n".repeat(NODES_MAX));
        let tree_of_long = tree(&long).to_string();
        assert!(tree_of_long.contains("the end"));
    }
}
