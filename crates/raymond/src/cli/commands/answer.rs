//! Commands about questions to people: listing and answering them.

use std::{
    collections::BTreeSet,
    env,
    io::{self, Read as _},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use raymond_engine::{
    asks::{self, AnswerError, PublishedQuestion, Reply, TEXT_BYTES_MAX},
    load,
    store::layout::StateDir,
};
use raymond_flow::{
    id::{AskId, RunId},
    machine::Run,
};
use serde_json::{Value, json};

use super::{ask, background, place::state_dir, runs, trust};
use crate::{
    cli::args::{AnswerArgs, Asks, Place},
    failure::{Failure, FailureKind},
    line::Line,
    out, quote,
    report::{Lines, Next, advice, question_json, question_lines, words::Level},
};

/// How often new questions are looked for.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// `raymond asks`
pub(in crate::cli) fn asks(arguments: &Asks) -> Result<ExitCode, Failure> {
    let Asks { id, json, follow, place } = arguments;
    let state_dir = state_dir(place)?;
    let id = id.as_deref().map(|id| runs::by_id(&state_dir, id, place)).transpose()?;
    let mut told = BTreeSet::new();
    loop {
        let mut open = open(&state_dir, id.as_ref())?;
        open.retain(|(run, question)| told.insert((run.clone(), question.id.clone())));
        let is_read = match (json, follow) {
            (true, true) => open.iter().try_for_each(|(run, question)| {
                let value = question_json(run, question, &runs::next(run, place));
                told_to(out::data(&format!("{}\n", out::escaped(&value.to_string()))))
            }),
            (true, false) => {
                let all = open
                    .iter()
                    .map(|(run, question)| question_json(run, question, &runs::next(run, place)));
                let all = Value::Array(all.collect());
                told_to(out::data(&format!("{}\n", out::escaped(&format!("{all:#}")))))
            }
            (false, _) => told_to(out::lines(&page(&open, place))),
        };
        match is_read {
            Err(Told::Failed(failure)) => return Err(failure),
            Err(Told::ToNobody) => return Ok(ExitCode::SUCCESS),
            Ok(()) if *follow => thread::sleep(FOLLOW_INTERVAL),
            Ok(()) => break,
        }
    }
    if told.is_empty() && !json {
        out::note("No question is open.");
        trust::note_foreign(&state_dir, place)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why nothing more is told.
enum Told {
    Failed(Failure),
    ToNobody,
}

fn told_to(printed: Result<out::OutputState, Failure>) -> Result<(), Told> {
    match printed {
        Ok(out::OutputState::Open) => Ok(()),
        Ok(out::OutputState::Closed) => Err(Told::ToNobody),
        Err(failure) => Err(Told::Failed(failure)),
    }
}

/// The questions that are open, of one run or of all.
fn open(
    state_dir: &StateDir,
    id: Option<&RunId>,
) -> Result<Vec<(RunId, PublishedQuestion)>, Failure> {
    let ids = match id {
        Some(id) => vec![id.clone()],
        None => runs::ids(state_dir)?,
    };
    let mut open = Vec::new();
    for id in ids {
        let questions = asks::open_questions(state_dir, &id);
        let questions = questions.map_err(|error| Failure::io("read the questions", &error))?;
        open.extend(questions.into_iter().map(|mut question| {
            asks::check_attachments(state_dir, &id, &mut question);
            (id.clone(), question)
        }));
    }
    open.sort_by_key(|(_, question)| question.asked_at_ms);
    Ok(open)
}

fn page(open: &[(RunId, PublishedQuestion)], place: &Place) -> Vec<Line> {
    let mut lines = Vec::new();
    for (run, question) in open {
        lines.push(Line::of("run ").add(crate::line::Style::Bold, run.as_str()));
        lines.extend(question_lines(question, &runs::next(run, place)));
        lines.push(Line::new());
    }
    lines
}

/// `raymond answer RUN [ASK] [LABEL]`
pub(in crate::cli) fn answer(arguments: &AnswerArgs) -> Result<ExitCode, Failure> {
    let place = &arguments.place;
    let state_dir = state_dir(place)?;
    let run = runs::by_id(&state_dir, &arguments.run, place)?;
    let next = runs::next(&run, place);
    // Before anything is written: a run whose journal is damaged could not follow the answer.
    let loaded = load(&state_dir, &run)?;
    loaded.refuse_copy(&state_dir, &run)?;
    let recorded: Vec<_> = loaded.run.questions().map(|(id, ..)| id).collect();
    asks::wait_for_files(&state_dir, &run, &recorded);
    let (id, label) = which(&state_dir, (&run, &loaded.run), arguments, &next)?;
    let question = asks::question(&state_dir, &run, &id);
    let question = question.map_err(|error| Failure::io("read the question", &error))?;
    let (question, _) = question.ok_or_else(|| no_such(&run, &id, place))?;
    let reply = reply(&question, label, arguments, &next)?;
    let given = asks::answer(&state_dir, &run, &id, &reply)
        .map_err(|error| refused(&error, &question, &next))?;
    out::note(&format!("Question {id} is answered: {}", given.result));
    let is_resumed = deliver(&state_dir, &run, &id, place, &next)?;
    if arguments.json {
        let choice = question.choices.iter().find(|choice| choice.label == given.result);
        let to = choice.map(|choice| &choice.to).or(question.next.as_ref());
        out::event(&json!({
            "run": run, "ask": id.to_string(), "at": given.at_ms, "to": to, "resumed": is_resumed,
        }));
    }
    Ok(ExitCode::SUCCESS)
}

/// The question that is meant, and the label or text that was typed.
fn which(
    state_dir: &StateDir,
    (run, loaded): (&RunId, &Run),
    arguments: &AnswerArgs,
    next: &Next,
) -> Result<(AskId, Option<String>), Failure> {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    let is_there =
        |id: &AskId| asks::question(state_dir, run, id).is_ok_and(|found| found.is_some());
    let named = words.first().and_then(|word| AskId::parse(word)).filter(is_there);
    let label = |words: &[&str]| words.first().map(|word| (*word).to_owned());
    match (named, &words[..]) {
        (Some(id), [_, rest @ ..]) => return Ok((id, label(rest))),
        (None, [first, _]) => {
            let message = format!("run {run} has asked no question `{first}`");
            let hint = format!("list its questions: raymond asks {run}{}", next.place);
            return Err(Failure::not_found(message).with_hint(hint));
        }
        _ => {}
    }
    let open = asks::open_questions(state_dir, run);
    let open = open.map_err(|error| Failure::io("read the questions", &error))?;
    match &open[..] {
        [only] => {
            let id = only.ask_id().ok_or_else(|| Failure::usage("no such question".to_owned()))?;
            Ok((id, label(&words)))
        }
        [] => {
            let last = asks::last_answer(state_dir, run);
            let last = last.map_err(|error| Failure::io("read the answers", &error))?;
            // Those of a rewound run are asked again when it is resumed.
            let mut asked = loaded.questions().map(|(id, ..)| id);
            let asks = loaded.status.can_resume() && asked.any(|id| !is_there(&id));
            if let Some((id, first)) = last.filter(|_| !asks) {
                let error = AnswerError::Answered { id, first: Box::new(first) };
                return Err(late(&error, next));
            }
            if asks {
                let failure =
                    Failure::refused(format!("run {run} has not asked its questions yet"));
                let hint = format!("resume it, which asks them: {}", next.command("resume"));
                return Err(failure.with_hint(hint));
            }
            let failure = Failure::refused(format!("run {run} asks nothing"));
            Err(failure.with_hint(format!("show its status: {}", next.command("status"))))
        }
        several => {
            let ids: Vec<_> = several.iter().map(|question| question.id.as_str()).collect();
            let message = format!("run {run} asks {} questions", several.len());
            let hint = format!("say which: {}", ids.join(", "));
            Err(Failure::usage(message).with_hint(hint))
        }
    }
}

fn no_such(run: &RunId, id: &AskId, place: &Place) -> Failure {
    let hint = format!("list its questions: raymond asks {run}{}", super::place::typed(place));
    Failure::not_found(format!("run {run} has asked no question {id}")).with_hint(hint)
}

/// What was typed, as an answer to this question. With choices, a text is a comment.
fn reply(
    question: &PublishedQuestion,
    label: Option<String>,
    arguments: &AnswerArgs,
    next: &Next,
) -> Result<Reply, Failure> {
    let text = match arguments.text.as_deref() {
        Some("-") => Some(read_text()?),
        text => text.map(str::to_owned),
    };
    let labels = || question.choices.iter().map(|choice| choice.label.as_str());
    let hint = || format!("answer it: {}", next.answers(&question.id, labels()).join("\n"));
    let (result, comment) = match (label, text, question.choices.is_empty()) {
        (Some(label), text, false) => (label, text.unwrap_or_default()),
        (Some(text), None, true) | (None, Some(text), true) => (text, String::new()),
        (Some(_), Some(_), true) => {
            let message = "the answer was given twice: as a word and with --text".to_owned();
            return Err(Failure::usage(message).with_hint(hint()));
        }
        (None, _, false) => {
            let message = format!("question {} has choices: name one of them", question.id);
            return Err(Failure::usage(message).with_hint(hint()));
        }
        (None, None, true) => {
            let message = format!("there is no answer to question {}", question.id);
            return Err(Failure::usage(message).with_hint(hint()));
        }
    };
    let (files, by) = (arguments.files.clone(), user());
    Ok(Reply { result, comment, files, by, how: arguments.how.clone() })
}

/// What is given on standard input, without the line end.
pub(super) fn read_text() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let most = TEXT_BYTES_MAX as u64 + 1;
    let read = io::stdin().take(most).read_to_end(&mut bytes);
    read.map_err(|error| Failure::io("read standard input", &error))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage("standard input is not valid UTF-8".to_owned()))?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// Who answers, as others will read it.
pub(crate) fn user() -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(|name| env::var(name).ok());
    let mut names = names.filter(|name| !name.trim().is_empty());
    names.next().unwrap_or_else(|| "somebody".to_owned())
}

fn refused(error: &AnswerError, question: &PublishedQuestion, next: &Next) -> Failure {
    let labels = question.choices.iter().map(|choice| choice.label.as_str());
    let commands = next.answers(&question.id, labels).join("\n");
    let failure = Failure::of_error(error);
    match error {
        AnswerError::Answered { .. } => late(error, next),
        AnswerError::NotAChoice { .. } | AnswerError::Empty | AnswerError::NoComment => {
            let failure = failure.with_kind(FailureKind::Usage);
            failure.with_hint(format!("answer it: {commands}"))
        }
        AnswerError::File { .. } | AnswerError::TooLong { .. } => failure
            .with_kind(FailureKind::Usage)
            .with_hint("nothing was answered; fix it and run the same command again"),
        AnswerError::NoSuchQuestion { .. } => failure.with_kind(FailureKind::NotFound),
        AnswerError::Attachment { path, .. } => {
            let copy = question.attachments.iter().find(|file| file.path == *path);
            let copy = copy.map_or_else(String::new, |file| quote::path(Path::new(&file.copy)));
            let again = next.command("fork-run");
            failure.with_kind(FailureKind::Refused).with_hint(format!(
                "restore {copy}\nor have it asked again in a new run, with its files as they are now: {again}"
            ))
        }
        AnswerError::Trust(_) => failure.with_kind(FailureKind::Refused),
        AnswerError::Io { .. } => failure,
    }
}

/// Somebody else was first.
fn late(error: &AnswerError, next: &Next) -> Failure {
    let hint = format!("show what followed: {}", next.command("status"));
    Failure::of_error(error).with_kind(FailureKind::Refused).with_hint(hint)
}

/// Lets the run continue: its orchestrator takes the answer, or one is started in the background. Returns whether one was.
fn deliver(
    state_dir: &StateDir,
    run: &RunId,
    id: &AskId,
    place: &Place,
    next: &Next,
) -> Result<bool, Failure> {
    let project = ask::project(place)?;
    let mut observer = Lines::new(out::people(), Level::Trouble, None);
    let mut is_taken = || -> Result<bool, Failure> {
        if project.engine(None)?.tell_answered(run, id, &mut observer)? {
            return Ok(true);
        }
        let run = load(state_dir, run)?.run;
        Ok(!run.status.can_resume() || run.question(id).is_none())
    };
    if is_taken()? {
        return Ok(false);
    }
    match background::resume(state_dir, run) {
        Ok(()) => {
            let line = advice("It continues in the background:", &next.command("attach"));
            out::people().line(&line);
            Ok(true)
        }
        // Who answered another question of the run at the same time was first to resume it.
        Err(_) if is_taken()? => Ok(false),
        Err(why) => {
            let text = format!("the run could not be continued in the background: {why}");
            out::people().line(&crate::report::warning(&text));
            out::people().line(&advice("Resume it:", &next.command("resume")));
            Ok(false)
        }
    }
}
