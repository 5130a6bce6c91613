//! What every coding agent must do in a run, on its real program; only the model is fake.
//!
//! | file | what it owns |
//! |---|---|
//! | `backend` | how each coding agent is set up, and what it calls things |
//! | `desk` | the project, the model and the coding agent of one test |
//! | `cases` | the cases: one function each, the same for all |
//! | `acp` | what only concerns coding agents that speak ACP |
//! | `projects` | what a project brings along |
//!
//! All of them are skipped, with a reason, where the coding agent is not installed.

mod acp;
mod backend;
mod cases;
mod desk;
mod projects;

/// Runs every case with each of these coding agents.
macro_rules! conforms {
    ($($backend:ident),*; $cases:tt) => { $( conforms!(@ $backend $cases); )* };
    (@ $backend:ident [$($case:ident),* $(,)?]) => {
        mod $backend {
            $(
                #[test]
                fn $case() {
                    if let Some(backend) = super::backend::$backend() {
                        super::cases::$case(backend);
                    }
                }
            )*
        }
    };
}

conforms!(claude, codex, pi, goose, claude_acp, opencode, codex_acp; [
    result_of_a_fresh_session,
    version_is_recorded,
    session_is_resumed,
    branch_is_isolated,
    function_is_fresh,
    cost_is_that_of_each_turn,
    forked_run_costs_its_own_turns,
    budget_stops_the_run,
    usage_limit_pauses_the_run,
    transient_failure_is_overcome,
    answer_that_is_cut_off_is_asked_for_again,
    answer_that_is_too_long_is_not_asked_for_again,
    wrong_key_fails_with_advice,
    killed_turn_is_continued,
    activity_names_the_tool,
    transcript_has_prompt_tool_and_answer,
    interrupt_stops_the_turn,
    doctor_knows_it,
]);
