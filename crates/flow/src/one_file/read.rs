//! From the YAML to the files.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    lint::Finding,
    source::{
        Diagnostic, did_you_mean,
        yaml::{YamlNode, YamlValue, read_nested},
    },
    text::{Position, Span, excerpt},
};

use super::{DEPTH_MAX, FILES, PROMPT, STATES, file_keys};

/// The files of a one-file workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneFile {
    /// Contents by name. The name of a file in a folder begins with its path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// By file, where each of its lines stands in the YAML.
    places: BTreeMap<String, Vec<Place>>,
}

/// Why a text is not a workflow.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{position}: {message}")]
pub struct OneFileError {
    /// The line and column.
    pub position: Position,
    /// What is wrong there.
    pub message: String,
}

/// Where a line of a file stands in the YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Character by character from this byte on.
    Line(u64),
    /// Somewhere after this byte, in another notation.
    Near(u64),
}

type Pair = (YamlNode, YamlNode);

impl OneFile {
    /// Reads the workflow in `text`.
    pub fn read(text: &str) -> Result<Self, OneFileError> {
        let mut reader = Reader { text, lines: line_starts(text), read: Self::default() };
        let root = read_nested(text, DEPTH_MAX)
            .map_err(|error| reader.error(error.span, error.message))
            .map_err(|error| reader.explained(error))?;
        let Some(root) = root else {
            return Err(reader.error(Span::new(0, 0), format!("`{STATES}` is missing")));
        };
        let mut has_states = false;
        for (key, value) in reader.mapping(&root, "the document")? {
            match reader.key(key)? {
                STATES => {
                    has_states = true;
                    reader.states("", value)?;
                }
                FILES => reader.files(value)?,
                other => {
                    let meant = meant(other, [STATES, FILES]);
                    let message = format!("unknown key `{}`{meant}", excerpt(other));
                    return Err(reader.error(key.span, message));
                }
            }
        }
        if !has_states {
            return Err(reader.error(root.span, format!("`{STATES}` is missing")));
        }
        Ok(reader.read)
    }

    /// Moves a finding about one of the files to its place in `text`, the YAML called `name`.
    pub fn place(&self, finding: &mut Finding, name: &str, text: &str) {
        if let Some(file) = &mut finding.file {
            (finding.span, finding.position) = self.locate(file, finding.span, text);
            name.clone_into(file);
        }
    }

    /// The same for what is wrong with a state that a run enters.
    pub fn place_diagnostic(&self, found: &mut Diagnostic, name: &str, text: &str) {
        (found.span, found.position) = self.locate(&found.file, found.span, text);
        name.clone_into(&mut found.file);
    }

    /// Where a part of one of the files stands in `text`.
    fn locate(&self, file: &str, span: Span, text: &str) -> (Span, Position) {
        let bytes = self.files.get(file).map(Vec::as_slice).unwrap_or_default();
        let before = usize::try_from(span.start).unwrap_or(usize::MAX).min(bytes.len());
        let line = memchr::memchr_iter(b'\n', &bytes[..before]).count();
        let column = bytes[..before].iter().rev().take_while(|byte| **byte != b'\n').count();
        let rest = bytes[before..].iter().take_while(|byte| **byte != b'\n').count();
        let places = self.places.get(file).map(Vec::as_slice).unwrap_or_default();
        let (start, length) = match places.get(line).or(places.last()) {
            Some(Place::Line(start)) => (start + column as u64, span.len().min(rest as u64)),
            Some(Place::Near(start)) => (*start, 0),
            None => (0, 0),
        };
        let start = start.min(text.len() as u64);
        (Span::new(start, (start + length).min(text.len() as u64)), Position::of(text, start))
    }
}

fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(name, known).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

struct Reader<'t> {
    text: &'t str,
    lines: Vec<usize>,
    read: OneFile,
}

impl<'t> Reader<'t> {
    fn error(&self, span: Span, message: String) -> OneFileError {
        OneFileError { position: Position::of(self.text, span.start), message }
    }

    /// An error of YAML itself. What it says about a tab is seldom that it is one.
    fn explained(&self, mut error: OneFileError) -> OneFileError {
        let at = usize::try_from(error.position.line).unwrap_or_default().saturating_sub(1);
        let (_, line) = self.line(at);
        let indent = line.len() - line.trim_start().len();
        if line.get(..indent).is_some_and(|indent| indent.contains('\t')) {
            error.message.push_str(" (the line is indented with a tab: use spaces)");
        }
        error
    }

    fn mapping<'n>(&self, node: &'n YamlNode, what: &str) -> Result<&'n [Pair], OneFileError> {
        let pairs: &[Pair] = match &node.value {
            YamlValue::Mapping(pairs) => pairs,
            YamlValue::Null => &[],
            YamlValue::Scalar(_) | YamlValue::Sequence(_) => {
                return Err(self.error(node.span, format!("{what} should be `key: value` lines")));
            }
        };
        let mut seen = std::collections::BTreeSet::new();
        for (key, _) in pairs {
            let name = self.key(key)?;
            if !seen.insert(name) {
                return Err(self.error(key.span, format!("`{}` is given twice", excerpt(name))));
            }
        }
        Ok(pairs)
    }

    fn key<'n>(&self, node: &'n YamlNode) -> Result<&'n str, OneFileError> {
        match &node.value {
            YamlValue::Scalar(text) => Ok(text),
            YamlValue::Null => {
                let message = "an empty key, or `null`, is not a name: put it in quotes";
                Err(self.error(node.span, message.to_owned()))
            }
            YamlValue::Sequence(_) | YamlValue::Mapping(_) => {
                Err(self.error(node.span, "a key should be a name".to_owned()))
            }
        }
    }

    fn scalar<'n>(&self, key: &str, node: &'n YamlNode) -> Result<&'n str, OneFileError> {
        match &node.value {
            YamlValue::Scalar(text) => Ok(text),
            YamlValue::Null => Ok(""),
            YamlValue::Sequence(_) | YamlValue::Mapping(_) => {
                Err(self.error(node.span, format!("`{}` should be a text", excerpt(key))))
            }
        }
    }

    /// The states of `folder`, which is empty or ends with a slash.
    fn states(&mut self, folder: &str, node: &YamlNode) -> Result<(), OneFileError> {
        let what = if folder.is_empty() { STATES } else { folder };
        for (key, value) in self.mapping(node, &format!("`{what}`"))? {
            let name = self.key(key)?;
            let own = name.strip_suffix('/').unwrap_or(name);
            let is_name = |own: &str| {
                !own.is_empty()
                    && !own.contains(['/', '\\', ':'])
                    && !own.starts_with('.')
                    && !own.chars().any(char::is_control)
            };
            if !is_name(own) {
                let folder = own.split_once('/').filter(|(folder, _)| is_name(folder));
                let hint = folder.map(|(folder, rest)| {
                    format!(": write the folder as a key `{folder}/`, and `{rest}` below it")
                });
                let hint = hint.unwrap_or_default();
                let message = format!("`{}` is not the name of a state{hint}", excerpt(name));
                return Err(self.error(key.span, message));
            }
            if name.ends_with('/') {
                self.states(&format!("{folder}{name}"), value)?;
            } else {
                self.state(&format!("{folder}{name}"), key, value)?;
            }
        }
        Ok(())
    }

    fn state(&mut self, path: &str, key: &YamlNode, node: &YamlNode) -> Result<(), OneFileError> {
        let keys = file_keys();
        if let Some((_, extension)) = keys.iter().find(|(_, end)| path.ends_with(end)) {
            let message = format!("`{path}` is named without its extension `{extension}`");
            return Err(self.error(key.span, message));
        }
        let pairs = self.mapping(node, &format!("`{path}`"))?;
        let is_file = |name: &str| keys.iter().any(|(known, _)| *known == name);
        let mut own = Vec::new();
        for (key, value) in pairs {
            own.push((self.key(key)?, key, value));
        }
        if !own.iter().any(|(name, ..)| is_file(name)) {
            let known = || keys.iter().map(|(name, _)| *name);
            let close = own.iter().find_map(|(name, ..)| did_you_mean(name, known()));
            let close = close.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
            let message = format!("`{path}` has neither `prompt` nor `sh` nor `bat`{close}");
            return Err(self.error(key.span, message));
        }
        let has_prompt = own.iter().any(|(name, ..)| *name == PROMPT);
        if let Some((name, key, _)) = own.iter().find(|(name, ..)| !has_prompt && !is_file(name)) {
            let message =
                format!("`{}` needs `prompt`: a script has no frontmatter", excerpt(name));
            return Err(self.error(key.span, message));
        }
        for (name, extension) in keys {
            let Some((_, at, value)) = own.iter().find(|(own, ..)| *own == name) else { continue };
            let (mut text, mut places) = (String::new(), Vec::new());
            if name == PROMPT && own.iter().any(|(name, ..)| !is_file(name)) {
                let fence = Place::Near(key.span.start);
                places.push(fence);
                let inner = self.frontmatter(key, pairs, |name| is_file(name), &mut places);
                places.push(fence);
                text = format!("---\n{inner}---\n");
            }
            text.push_str(self.scalar(name, value)?);
            places.extend(self.scalar_places(at, value));
            self.add(format!("{path}{extension}"), at, text, places)?;
        }
        Ok(())
    }

    /// The lines of the keys that are not files, as frontmatter. Comments stay with the key below them.
    fn frontmatter(
        &self,
        state: &YamlNode,
        pairs: &[Pair],
        is_file: impl Fn(&str) -> bool,
        places: &mut Vec<Place>,
    ) -> String {
        let mut inner = String::new();
        let mut push = |start: usize, line: &str| {
            inner.push_str(line);
            inner.push('\n');
            places.push(Place::Line(start as u64));
        };
        let first = pairs.first().map_or(0, |(key, _)| self.line_of(key.span.start));
        let state_line = self.line_of(state.span.start);
        let is_block = first > state_line && !self.is_flow(pairs);
        let column = pairs.first().map_or(0, |(key, _)| self.column_of(key.span.start));
        let mut from = state_line + 1;
        for (key, value) in pairs {
            let is_other = matches!(&key.value, YamlValue::Scalar(name) if !is_file(name));
            let last = self.last_line(key, value);
            if is_block {
                for line in (from..=last).filter(|_| is_other) {
                    let (start, text) = self.line(line);
                    let spaces = text.len() - text.trim_start_matches(' ').len();
                    let cut = spaces.min(column);
                    push(start + cut, text.get(cut..).unwrap_or_default());
                }
                from = last + 1;
            } else if is_other {
                let end = value.span.end.max(key.span.end);
                let span = Span::new(key.span.start, end);
                let mut start = usize::try_from(key.span.start).unwrap_or_default();
                for line in span.slice(self.text).unwrap_or_default().split('\n') {
                    push(start, line);
                    start += line.len() + 1;
                }
            }
        }
        inner
    }

    /// Whether the pairs stand between braces: the first is then preceded by one, or by a comma's white space.
    fn is_flow(&self, pairs: &[Pair]) -> bool {
        let Some((key, _)) = pairs.first() else { return false };
        let before = Span::new(0, key.span.start).slice(self.text).unwrap_or_default();
        before.trim_end().ends_with('{')
    }

    /// Where the lines of a text stand: line by line below a `|`, else somewhere after its beginning.
    fn scalar_places(&self, key: &YamlNode, value: &YamlNode) -> Vec<Place> {
        let YamlValue::Scalar(text) = &value.value else {
            return vec![Place::Near(key.span.start)];
        };
        let near = Place::Near(value.span.start.max(key.span.start));
        let first = self.line_of(key.span.end) + 1;
        let mut places = Vec::new();
        for (at, line) in text.split('\n').enumerate() {
            let (start, written) = self.line(first + at);
            let is_last = line.is_empty() && at > 0;
            if self.is_literal(key) && (written.ends_with(line) || is_last) {
                let indent = written.len().saturating_sub(line.len());
                places.push(Place::Line((start + indent) as u64));
            } else {
                places.push(near);
            }
        }
        places
    }

    /// Whether the value of `key` is a block that is taken line by line.
    fn is_literal(&self, key: &YamlNode) -> bool {
        let (start, line) = self.line(self.line_of(key.span.end));
        let at = usize::try_from(key.span.end).unwrap_or_default().saturating_sub(start);
        let rest = line.get(at..).unwrap_or_default().trim_start();
        rest.strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with('|'))
    }

    /// The last line of a pair.
    fn last_line(&self, key: &YamlNode, value: &YamlNode) -> usize {
        match &value.value {
            YamlValue::Scalar(text) if self.is_literal(key) => {
                self.line_of(key.span.end) + text.lines().count()
            }
            YamlValue::Scalar(_)
            | YamlValue::Null
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => {
                let end = value.span.end.max(key.span.end);
                let line = self.line_of(end);
                // A block ends where the next token begins, which is on a later line.
                let (_, text) = self.line(line);
                let before = text.get(..self.column_of(end)).unwrap_or_default();
                let is_before = before.trim_start().is_empty() && end > key.span.end;
                if is_before { line.saturating_sub(1) } else { line }
            }
        }
    }

    fn line_of(&self, offset: u64) -> usize {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    fn column_of(&self, offset: u64) -> usize {
        let start = self.lines.get(self.line_of(offset)).copied().unwrap_or_default();
        usize::try_from(offset).unwrap_or_default().saturating_sub(start)
    }

    /// The line with this number from 0, without its end, and where it begins.
    fn line(&self, number: usize) -> (usize, &'t str) {
        let start = self.lines.get(number).copied().unwrap_or(self.text.len());
        let rest = self.text.get(start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        (start, line.strip_suffix('\r').unwrap_or(line))
    }

    fn files(&mut self, node: &YamlNode) -> Result<(), OneFileError> {
        for (key, value) in self.mapping(node, "`files`")? {
            let name = self.key(key)?;
            let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
            let is_safe = !name.contains(['\\', ':']) && !name.chars().any(char::is_control);
            if !is_safe || !name.split('/').all(is_part) {
                let message = format!("`{}` is not a safe file name", excerpt(name));
                return Err(self.error(key.span, message));
            }
            let text = self.scalar(name, value)?.to_owned();
            let places = self.scalar_places(key, value);
            self.add(name.to_owned(), key, text, places)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: String,
        key: &YamlNode,
        text: String,
        places: Vec<Place>,
    ) -> Result<(), OneFileError> {
        if self.read.files.contains_key(&name) {
            return Err(self.error(key.span, format!("there are two files `{}`", excerpt(&name))));
        }
        self.read.places.insert(name.clone(), places);
        self.read.files.insert(name, text.into_bytes());
        Ok(())
    }
}
