//! Live progress on a terminal: a row per agent, a total below, news scrolling above.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use raymond_engine::{
    run::events::{Event, Observer, Seen},
    store::layout::RunFiles,
    sys::clock,
};
use raymond_flow::{id::AgentId, machine::Run, view::RunView};

use super::{board::Board, lines, narrator::Narrator, watched::Watched, words::Level};
use crate::{
    line::Line,
    out::{self, Screen},
};

/// How often the rows are redrawn.
const FRAME: Duration = Duration::from_millis(100);

/// Draws the live view.
pub(crate) struct Live {
    view: Arc<Mutex<LiveView>>,
    narrator: Narrator,
    level: Level,
    stop: mpsc::Sender<()>,
    painter: Option<JoinHandle<()>>,
}

/// What is drawn, both by the painter thread with its next frame and at the end.
struct LiveView {
    screen: Screen,
    board: Board,
    /// News that no frame has shown yet.
    news: Vec<Line>,
    frame: usize,
    /// Whether nothing happens until a person answers.
    is_idle: bool,
}

impl Live {
    pub(crate) fn new(level: Level, files: Option<RunFiles>) -> Self {
        let (screen, board) = (Screen::new(), Board::default());
        let view = Arc::new(Mutex::new(LiveView {
            screen,
            board,
            news: Vec::new(),
            frame: 0,
            is_idle: false,
        }));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&view);
        // Without a thread no rows are drawn; news is still printed.
        let painter = std::thread::Builder::new().spawn(move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(FRAME) {
                lock(&shared).paint();
            }
        });
        let narrator = Narrator::new(level, files);
        Self { view, narrator, level, stop, painter: painter.ok() }
    }

    /// Adds what happened before this process joined, without printing it.
    pub(crate) fn catch_up(&mut self, run: &Run, known: RunView) {
        let mut view = lock(&self.view);
        view.board.watched = Some(Watched { run: run.clone(), view: known });
        self.narrator.open(run);
        view.news.push(lines::watched(run));
    }
}

fn lock(view: &Mutex<LiveView>) -> MutexGuard<'_, LiveView> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Live {
    fn see(&mut self, seen: &Seen) {
        let lines = lines::of_event(&seen.event, &mut self.narrator, self.level);
        let mut view = lock(&self.view);
        view.news.extend(lines);
        view.board.see(seen);
        match &seen.event {
            Event::Recorded { record, .. } => {
                view.is_idle = false;
                if let Some((agent, step)) = record.intent() {
                    view.board.begin(agent, self.narrator.rounds(agent));
                    if *agent == AgentId::main() {
                        out::title(&format!("raymond: {}", step.state.stem()));
                    }
                }
            }
            Event::Activity { id, activity } => view.board.activity(&id.agent, activity),
            // A person may be asked below: the rows are removed, and drawn again afterwards.
            Event::WaitsForPeople => view.clear(),
            _ => {}
        }
        if self.painter.is_none() {
            view.print_news(&[]);
        }
    }

    fn wants_activity(&self) -> bool {
        true
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
        lock(&self.view).print_news(&[]);
        out::title("");
    }
}

impl LiveView {
    fn paint(&mut self) {
        // News wait while a person is asked.
        if self.is_idle || out::is_prompting() {
            return;
        }
        self.frame += 1;
        let rows = self.board.paint(Screen::size(), clock::now_ms(), self.frame);
        self.print_news(&rows);
    }

    /// Removes the rows until something happens.
    fn clear(&mut self) {
        self.print_news(&[]);
        self.is_idle = true;
    }

    fn print_news(&mut self, rows: &[Line]) {
        self.screen.draw(&std::mem::take(&mut self.news), rows);
    }
}
