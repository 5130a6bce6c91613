//! `raymond help` and `raymond man`: the documents of the repository, compiled into the program.

use std::{fmt::Write as _, fs, io, path::Path, process::ExitCode};

use clap::CommandFactory as _;

use crate::{
    cli::{args::Arguments, mistyped},
    config,
    failure::Failure,
    out,
};

/// A document that the program contains.
struct Topic {
    name: &'static str,
    /// Its one-line description.
    about: &'static str,
    text: &'static str,
}

macro_rules! topic {
    ($name:literal, $about:literal) => {
        Topic {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../../../docs/", $name, ".md")),
        }
    };
}

static TOPICS: [Topic; 7] = [
    topic!("agents", "coding agents: Claude Code, Codex and others"),
    topic!("api", "the HTTP interface of raymond serve"),
    topic!("authoring", "how to write workflows and their tests"),
    topic!("events", "the events of --json"),
    topic!("journal", "the files of a run, for other programs"),
    topic!("operations", "commands, settings, Claude Code, exit codes, files, recovery, security"),
    topic!("protocol", "the workflow language; the authority"),
];

/// `raymond help [TOPIC]`
pub(in crate::cli) fn help(words: &[String]) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    let Some((first, rest)) = words.split_first() else {
        out::text(&command.render_long_help().to_string())?;
        out::text(&topics())?;
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == first && rest.is_empty()) {
        out::text(topic.text)?;
        return Ok(ExitCode::SUCCESS);
    }
    command.build();
    let shown = |command: &&clap::Command| !command.is_hide_set();
    if let Some(found) = command.find_subcommand(first).filter(shown)
        && rest.is_empty()
    {
        out::text(&found.clone().render_long_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let commands = command.get_subcommands().filter(shown);
    let commands = commands.map(|command| command.get_name().to_owned());
    let names = commands.chain(TOPICS.iter().map(|topic| topic.name.to_owned()));
    let hint = mistyped::nearest(first, names).map_or_else(
        || "list commands and topics: raymond help".to_owned(),
        |name| format!("did you mean `raymond help {name}`?"),
    );
    let word = words.join(" ");
    Err(Failure::usage(format!("there is no help about `{word}`")).with_hint(hint))
}

fn topics() -> String {
    let mut text = String::from("\nTopics, shown by `raymond help TOPIC`:\n");
    for Topic { name, about, .. } in &TOPICS {
        let _ = writeln!(text, "  {name:<12} {about}");
    }
    text
}

/// `raymond man [DIR]`
pub(in crate::cli) fn man(folder: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    let Some(folder) = folder else {
        out::data(&page(&command)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    command.build();
    let write = |path: &Path, text: String| -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(path, text)
    };
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in [&command].into_iter().chain(commands) {
        // Subcommands have their full names, as in `git-commit(1)`.
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        let text = page(command)?;
        write(&path, text)
            .map_err(|error| Failure::io(&format!("write {}", path.display()), &error))?;
        out::path(&path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The manual page of a command, with the sections that all pages have.
fn page(command: &clap::Command) -> Result<String, Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
    rendered.map_err(|error| Failure::io("print", &error))?;
    let mut text = String::from_utf8_lossy(&page).into_owned();
    let operations = TOPICS.iter().find(|topic| topic.name == "operations").map(|topic| topic.text);
    let operations = operations.unwrap_or_default();
    section(&mut text, "EXIT STATUS", rows(operations, "Exit codes"));
    section(&mut text, "FILES", rows(operations, "Files"));
    section(&mut text, "ENVIRONMENT", config::variables());
    text.push_str(".SH \"SEE ALSO\"\n");
    let see: Vec<_> = TOPICS.iter().map(|topic| format!("raymond help {}", topic.name)).collect();
    let _ = writeln!(text, "{}", roff(&see.join(", ")));
    Ok(text)
}

/// The rows of the first table below a heading: first and second column.
fn rows(document: &str, heading: &str) -> Vec<(String, String)> {
    let below = document.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_default();
    let below = below.split("\n## ").next().unwrap_or_default();
    let table = below.lines().skip_while(|line| !line.starts_with('|'));
    let table = table.take_while(|line| line.starts_with('|'));
    // Skip the head of the table and the line below it.
    table
        .skip(2)
        .filter_map(|line| {
            let (first, second) = line.trim_matches('|').split_once('|')?;
            Some((first.trim().to_owned(), second.trim().to_owned()))
        })
        .collect()
}

fn section(page: &mut String, title: &str, rows: impl IntoIterator<Item = (String, String)>) {
    let _ = writeln!(page, ".SH \"{title}\"");
    for (name, meaning) in rows {
        let _ = writeln!(page, ".TP\n\\fB{}\\fR\n{}", roff(&name), roff(&meaning));
    }
}

/// Markdown as roff: code is plain text, and no line is taken for a request.
fn roff(text: &str) -> String {
    let text = text.replace('`', "").replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_exit_codes_files_and_variables_of_the_documents() {
        let page = page(&Arguments::command()).unwrap();
        for part in [
            ".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ncompleted",
            "\n\\fB130\\fR\ninterrupted",
            ".SH \"FILES\"\n.TP\n\\fBworkflows/ID.journal\\fR\n",
            "\n\\fBRAYMOND_BUDGET\\fR\n",
            ".SH \"SEE ALSO\"\nraymond help agents, raymond help api, raymond help authoring",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }

    #[test]
    fn no_text_of_a_document_becomes_a_roff_request() {
        assert_eq!(roff(".raymond \\n `a-b`"), "\\&.raymond \\en a\\-b");
    }
}
