//! The page of `raymond serve`: the real server, real runs and a real browser.
//!
//! | file | what it proves |
//! |---|---|
//! | `env` | nothing: the project, the server and the browser of one test |
//! | `demo` | `raymond demo --web`: agents walk through the graph |
//! | `asks` | questions: answered by click and key, in several tabs, too late and without a server |
//! | `drawing` | zoom and pan of graph and timeline, reduced motion |
//! | `runs` | what Home and Run show, live, and what can be done there |
//! | `connection` | a server that dies, a tab that is hidden: nothing is missed, nothing is shown twice |
//! | `looks` | light and dark, contrast, narrow windows, many agents |
//! | `hostile` | what agents and scripts print stays text |
//!
//! All of them are skipped, with a reason, where no browser is installed.

mod asks;
mod connection;
mod demo;
mod drawing;
mod env;
mod hostile;
mod looks;
mod runs;
