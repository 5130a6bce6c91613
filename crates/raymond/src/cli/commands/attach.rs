//! `raymond attach`: the live view of a run of another process.

use std::process::ExitCode;

use raymond_engine::{
    EngineError,
    agent::Agents,
    load,
    observe::{
        follower::{Follower, INTERVAL},
        overview::Overview,
        watch::Watch,
    },
    run::{
        events::{Event, Observer},
        interrupts::Interrupts,
    },
};

use super::{
    inspect::turns,
    place::state_dir,
    prepare::LoadedProject,
    run::{exit_code, tell_end},
    runs,
};
use crate::{
    cli::args::{Place, WhichRun},
    failure::Failure,
    line::{Line, Style},
    out,
    report::{Lines, Live, Next, advice, words::Level},
};

/// `raymond attach [ID]`
pub(in crate::cli) fn attach(
    run: &WhichRun,
    verbose: bool,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = runs::find(&state_dir, run, place)?;
    // A mistake in the settings must not prevent the user from watching a run.
    let project = LoadedProject::of(place).or_else(|_| LoadedProject::without_settings(place))?;
    let interrupts = Interrupts::install();
    let level = if verbose { Level::Detail } else { Level::News };
    let files = state_dir.run(&id);
    let next = runs::next(&id, place);
    let mut overview = Overview::new(id.clone(), files.clone());
    let mut is_over = !overview.is_alive();
    overview.follow(|_| {})?;
    let (view, follower) = overview.split();
    let watch = Watch::new(files.clone());
    let mut watcher = Watcher { follower, watch, agents: &project.agents };
    if is_over {
        tell_end(&load(&state_dir, &id)?, &next, level, true);
        return Ok(ExitCode::from(exit_code(watcher.follower.run()?)));
    }
    let mut observer: Box<dyn Observer> = if out::can_redraw() {
        let mut live = Live::new(level, Some(files));
        live.catch_up(watcher.follower.run()?, view);
        Box::new(live)
    } else {
        let mut lines = Lines::new(out::people(), level, Some(files));
        lines.catch_up(watcher.follower.run()?);
        Box::new(lines)
    };
    while !is_over {
        if interrupts.is_pressed() {
            drop(observer);
            detached(&next);
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(INTERVAL);
        is_over = !watcher.follower.is_alive();
        watcher.look(observer.as_mut())?;
    }
    drop(observer);
    let loaded = load(&state_dir, &id)?;
    tell_end(&loaded, &next, level, true);
    Ok(ExitCode::from(exit_code(&loaded.run)))
}

struct Watcher<'a> {
    follower: Follower,
    watch: Watch,
    agents: &'a Agents,
}

impl Watcher<'_> {
    /// Shows `observer` the events since the last call.
    fn look(&mut self, observer: &mut dyn Observer) -> Result<(), EngineError> {
        self.follower.read(|read| observer.see(read.seen))?;
        let turns = turns(self.follower.run()?);
        self.watch.retain(|id| turns.iter().any(|(running, _)| running == id));
        for (id, turn) in turns {
            for activity in self.watch.activities(&id, turn, self.agents) {
                observer.see(&Event::Activity { id: id.clone(), activity }.now());
            }
        }
        Ok(())
    }
}

fn detached(next: &Next) {
    let mut people = out::people();
    let line = Line::of("Detached: run ").add(Style::Bold, next.id.as_str());
    people.line(&line.plain(" keeps running."));
    people.line(&advice("Watch it again:", &next.command("attach")));
    people.line(&advice("Stop it, to be resumed later:", &next.command("stop")));
}
