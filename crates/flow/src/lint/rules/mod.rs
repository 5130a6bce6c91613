//! The rules, one file each. To add one, add a file and two lines here.

mod ambiguous_entry;
mod ambiguous_target;
mod bad_frontmatter;
mod dead_end;
mod endless_loop;
mod evaluator_not_a_prompt;
mod forbidden_tag;
mod foreign_session;
mod implicit_transition;
mod join_without_fork;
mod missing_attribute;
mod missing_target;
mod misspelled_tag;
mod never_returns;
mod no_entry;
mod no_policy;
mod path_in_target;
mod reset_in_call;
mod script_without_tag;
mod slash_prompt;
mod unable_agent;
mod unanswerable_ask;
mod unjoined_fork;
mod unknown_attribute;
mod unknown_effort;
mod unknown_key;
mod unknown_model;
mod unknown_variable;
mod unmentioned_transition;
mod unreachable_state;
mod unread_attribute;
mod unsafe_attribute;
mod value_in_file;
mod wrong_platform;

use super::Rule;

/// All rules, by name.
pub const RULES: &[&Rule] = &[
    &ambiguous_entry::RULE,
    &ambiguous_target::RULE,
    &bad_frontmatter::RULE,
    &dead_end::RULE,
    &endless_loop::RULE,
    &evaluator_not_a_prompt::RULE,
    &forbidden_tag::RULE,
    &foreign_session::RULE,
    &implicit_transition::RULE,
    &join_without_fork::RULE,
    &missing_attribute::RULE,
    &missing_target::RULE,
    &misspelled_tag::RULE,
    &never_returns::RULE,
    &no_entry::RULE,
    &no_policy::RULE,
    &path_in_target::RULE,
    &reset_in_call::RULE,
    &script_without_tag::RULE,
    &slash_prompt::RULE,
    &unable_agent::RULE,
    &unanswerable_ask::RULE,
    &unjoined_fork::RULE,
    &unknown_attribute::RULE,
    &unknown_effort::RULE,
    &unknown_key::RULE,
    &unknown_model::RULE,
    &unknown_variable::RULE,
    &unmentioned_transition::RULE,
    &unreachable_state::RULE,
    &unread_attribute::RULE,
    &unsafe_attribute::RULE,
    &value_in_file::RULE,
    &wrong_platform::RULE,
];
