//! The options that are settings, made from the table of settings.

use clap::{
    Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches,
    builder::PossibleValuesParser,
};
use raymond_engine::run::door::LimitChange;

use crate::config::{Given, Overrides, SETTINGS, Scope, Setting};

impl Args for Overrides {
    fn augment_args(command: Command) -> Command {
        command.args(of(&[Scope::Run, Scope::Limit]).map(|setting| option(setting, true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Overrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(given(matches, &[Scope::Run, Scope::Limit]))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The limits to change: at least one.
#[derive(Clone, Debug)]
pub(crate) struct LimitOptions(pub(crate) LimitChange);

impl Args for LimitOptions {
    fn augment_args(command: Command) -> Command {
        let names = of(&[Scope::Limit]).map(|setting| setting.name);
        let group = ArgGroup::new("limits").args(names).required(true).multiple(true);
        command.args(of(&[Scope::Limit]).map(|setting| option(setting, false))).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, &[Scope::Limit]).limits))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The settings of these scopes.
fn of(scopes: &[Scope]) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| scopes.contains(&setting.scope))
}

fn option(setting: &'static Setting, has_default: bool) -> Arg {
    let arg = Arg::new(setting.name).long(setting.name.replace('_', "-"));
    let Setting { help, default, value, .. } = setting;
    if value.is_empty() {
        return arg.help(*help).action(ArgAction::SetTrue);
    }
    let default = if has_default && !default.is_empty() {
        format!(" [default: {default}]")
    } else {
        String::new()
    };
    let arg = arg.help(format!("{help}{default}")).value_name(*value).allow_negative_numbers(true);
    if value.contains('|') {
        let values = PossibleValuesParser::new(value.split('|'));
        return arg.value_name("WHAT").value_parser(values);
    }
    arg.value_parser(move |text: &str| {
        let given = Given::One(text.to_owned());
        (setting.set)(&mut Overrides::default(), &given).map(|()| text.to_owned())
    })
}

/// What was typed. Every value was checked when it was parsed.
fn given(matches: &ArgMatches, scopes: &[Scope]) -> Overrides {
    let mut overrides = Overrides::default();
    for setting in of(scopes) {
        let text = if setting.value.is_empty() {
            matches.get_flag(setting.name).then(|| true.to_string())
        } else {
            matches.get_one::<String>(setting.name).cloned()
        };
        if let Some(text) = text {
            let _ = (setting.set)(&mut overrides, &Given::One(text));
        }
    }
    overrides
}
