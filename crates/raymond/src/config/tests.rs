//! Tests of the settings.

use std::fs;

use raymond_engine::run::door::LimitChange;
use raymond_flow::{
    machine::{Limits, OnAsk, OnUsageLimit, Settings},
    money::Usd,
    source::Timeout,
};

use super::*;

fn of(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    let added = config.add_file(Path::new("c.toml"), text);
    added.map(|()| config).map_err(|failure| failure.to_string())
}

#[test]
fn values_of_all_types_are_read() {
    let text = "budget = 2.5\nwarm = 0\nno_wait = true\ntimeout = '5m'\nusage_max = '7'\nmodel = ''\n\
                [failover]\norder = ['a', 'b']\n";
    let said = of(text).unwrap().said;
    assert_eq!(said.limits.budget_usd, Usd::from_dollars(2.5));
    assert_eq!((said.warm, said.no_wait, said.usage_max), (Some(0), Some(true), Some(7)));
    assert_eq!(said.timeout, Some(Timeout::from_seconds(300)));
    assert_eq!((said.model, said.failover_order.unwrap()), (None, vec!["a".into(), "b".into()]));
}

#[test]
fn defaults_of_the_table_are_those_of_a_run() {
    let (mut settings, mut limits) = (Settings::default(), Limits::default());
    let all = Config::default().all;
    all.apply(&mut settings, &mut limits);
    assert_eq!(limits, Limits::default());
    let agent = Some("claude".to_owned());
    let timeout = Some(Timeout::from_seconds(600));
    assert_eq!(settings, Settings { agent, timeout, ..Settings::default() });
    assert_eq!((all.warm, all.keep_script_steps), (Some(4), Some(500)));
}

#[test]
fn what_is_given_later_changes_only_itself() {
    let (mut settings, mut limits) = (Settings::default(), Limits::default());
    let file =
        of("ask = 'fail'\nno_wait = true\nbudget = 0\nretries = 0\nusage_max = 80\n").unwrap();
    file.said.apply(&mut settings, &mut limits);
    assert_eq!((settings.on_ask, settings.usage_max), (OnAsk::Fail, Some(80)));
    assert_eq!(settings.on_usage_limit, OnUsageLimit::Pause);
    assert_eq!((limits.budget_usd, limits.max_retries, limits.retry_for_ms), (None, 0, 0));
    let options = Overrides {
        ask: Some(OnAsk::Wait),
        no_wait: Some(true),
        usage_max: Some(0),
        limits: LimitChange { retry_for_ms: Some(90_000), ..LimitChange::default() },
        ..Overrides::default()
    };
    options.apply(&mut settings, &mut limits);
    assert_eq!((settings.on_ask, settings.usage_max), (OnAsk::Pause, None));
    assert_eq!((limits.max_retries, limits.retry_for_ms), (0, 90_000));
}

#[test]
fn tables_that_are_not_set_are_described_with_their_defaults() {
    let described = |text: &str| {
        let text = of(text).unwrap().describe();
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>()
    };
    let unset = [
        "agents.NAME - see: raymond help agents",
        "agents.claude.program claude default",
        "failover.order [] default",
        "notify.command [] default",
        "notify.on [\"ask\"] default",
    ];
    let nothing = described("");
    assert_eq!(nothing.len(), SETTINGS.len() + 1);
    assert!(unset.iter().all(|line| nothing.contains(&(*line).to_owned())), "{nothing:?}");
    let set = described("[notify]\ncommand = ['tell']\n[agents.pi]\nmodel = 'x'\n");
    assert!(set.contains(&"notify.command [\"tell\"] c.toml line 2".to_owned()), "{set:?}");
    assert!(set.contains(&"agents.pi.model x c.toml line 4".to_owned()), "{set:?}");
    assert!(set.contains(&unset[4].to_owned()) && !set.contains(&unset[3].to_owned()));
    assert!(!set.contains(&unset[0].to_owned()), "{set:?}");
}

#[test]
fn wrong_values_name_file_and_line() {
    let cases = [
        (
            "warm = 1\nbudget = 'x'",
            "c.toml line 2: `budget`: `x` is not an amount of dollars; expected for instance 5 or 0.50",
        ),
        ("\n\nbugdet = 1", "c.toml line 3: unknown setting `bugdet` (did you mean `budget`?)"),
        ("max_parallel = 0", "c.toml line 1: `max_parallel`: `0` is not a number from 1 up"),
        ("model = ['a']", "c.toml line 1: `model` takes one value"),
        (
            "[notify]
command = [1]",
            "c.toml line 2: `notify.command` must be a list of strings",
        ),
        (
            "[failover]
order = 'x'",
            "c.toml line 2: `failover.order` must be a list of strings",
        ),
        (
            "[claude]
program = 'x'",
            "c.toml line 2: unknown setting `claude.program`",
        ),
        ("model = '-x'", "c.toml line 1: `model`: `-x` begins with a dash, as an option does"),
        ("warm = 0x10", "c.toml line 1: `warm`: `0x10` is not a whole number"),
    ];
    for (text, expected) in cases {
        assert_eq!(of(text).unwrap_err(), expected);
    }
    assert!(of("a = = 1").unwrap_err().starts_with("c.toml line 1: "));
}

#[test]
fn options_of_claude_are_read_and_the_values_of_servers_are_not_shown() {
    let text = "[agents.claude]\nfallback_model = 'haiku'\nmax_turns = 9\nsystem = 'Be kind.'\nadd_dirs = ['/data']\n\
                [agents.claude.mcp.one]\ncommand = 'serve'\nargs = ['a', 1]\nenv = { KEY = 'hidden' }\n";
    let config = of(text).unwrap();
    let servers = config.agents["claude"].servers();
    assert!(
        servers.contains(r#"{"args":["a",1],"command":"serve","env":{"KEY":"hidden"}}"#),
        "{servers}"
    );
    assert!(!config.describe().contains("hidden"), "{}", config.describe());
    for (key, why) in [
        ("fallback_model = '-x'", "must be the name of a model, or a list of names"),
        (
            "max_turns = 0",
            "`agents.claude.max_turns`: invalid value: integer `0`, expected a nonzero u32",
        ),
        ("system = ' '", "`agents.claude.system`: must not be empty"),
        ("add_dirs = ['data']", "must be a list of absolute directories"),
        ("mcp = ['one']", "`agents.claude.mcp`: invalid type: sequence, expected a map"),
    ] {
        let error = of(&format!("[agents.claude]\n{key}")).unwrap_err();
        assert!(error.contains(why) && error.starts_with("c.toml line 2"), "{error}");
    }
}

#[test]
fn environment_overrides_the_file_and_names_its_variable() {
    let mut config = of("budget = 1\nmodel = 'a'").unwrap();
    let get = |name: &str| (name == "RAYMOND_BUDGET").then(|| "7".to_owned());
    config.add_environment(get).unwrap();
    assert_eq!(config.said.limits.budget_usd, Usd::from_dollars(7.0));
    let text = config.describe();
    assert!(text.contains("RAYMOND_BUDGET") && text.contains("c.toml line 2"), "{text}");
    let wrong = |name: &str| (name == "RAYMOND_WARM").then(|| "many".to_owned());
    let error = config.add_environment(wrong).unwrap_err().to_string();
    assert_eq!(error, "RAYMOND_WARM: `warm`: `many` is not a whole number");
}

#[cfg(unix)]
#[test]
fn user_settings_are_in_the_system_directory_and_never_at_a_relative_path() {
    let at = |variables: &[(&str, &str)]| {
        let get = |name: &str| {
            variables.iter().find(|(own, _)| *own == name).map(|(_, value)| value.into())
        };
        user_folder(get).map(|path| path.to_string_lossy().into_owned())
    };
    assert_eq!(at(&[("HOME", "/h")]).as_deref(), Some("/h/.config/raymond"));
    let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
    assert_eq!(at(&both).as_deref(), Some("/x/raymond"));
    let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "x")];
    assert_eq!(at(&relative).as_deref(), Some("/h/.config/raymond"));
    assert_eq!(at(&[]), None);
}

#[test]
fn later_file_overrides_an_earlier_one() {
    let mut config = of("budget = 1\nmodel = 'a'").unwrap();
    config.add_file(Path::new("project.toml"), "budget = 2").unwrap();
    assert_eq!(config.said.limits.budget_usd, Usd::from_dollars(2.0));
    assert_eq!(config.said.model.as_deref(), Some("a"));
    let text = config.describe();
    assert!(text.contains("c.toml line 2") && text.contains("project.toml line 1"), "{text}");
}

#[test]
fn template_has_every_setting_and_is_valid_when_nothing_is_a_comment() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_template(folder.path()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let uncommented: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|l| l.contains(" = "))
        .collect();
    assert_eq!(uncommented.len(), SETTINGS.len());
    of(&text).unwrap();
    // Without the marks of comments it says the same.
    let whole = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if setting.contains(" = ") => format!("{setting}\n"),
        _ => format!("{line}\n"),
    });
    let config = of(&whole.collect::<String>()).unwrap();
    for setting in SETTINGS.iter().filter(|setting| !setting.default.is_empty()) {
        let shown = &config.shown[setting.name].0;
        assert_eq!(shown, setting.default, "{}", setting.name);
    }
    assert!(write_template(folder.path()).unwrap_err().to_string().contains("already exists"));
}

#[test]
fn model_of_a_project_leaves_the_rest_of_the_table_of_the_user() {
    let mut config = of("[agents.codex]\nprogram = '/my/codex'\nmodel = 'a'\n").unwrap();
    config.withholds = true;
    config
        .add_file(Path::new("project.toml"), "[agents.codex]\nmodel = 'b'\n[agents.pi]\n")
        .unwrap();
    let text = config.describe();
    assert!(text.contains("/my/codex") && text.contains("project.toml line 2"), "{text}");
    assert!(config.withheld.is_empty() && !text.contains("c.toml line 3"), "{text}");
    let agents = agents(&config);
    let codex = agents.iter().find(|agent| agent.name() == "codex").unwrap();
    assert_eq!(codex.program(), ["/my/codex"]);
    let wrong = of("[agents.codex]\nmodel = '-x'").unwrap_err();
    assert_eq!(wrong, "c.toml line 2: `agents.codex.model`: must not begin with a dash");
}

#[test]
fn table_of_the_manual_has_every_setting() {
    let line = |setting: &Setting| {
        let Setting { name, default, help, .. } = setting;
        let variable =
            if setting.is_list() { String::new() } else { format!("`{}`", setting.variable()) };
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        format!("| `{name}` | {default} | {variable} | {help} |\n")
    };
    let table: String = SETTINGS.iter().map(line).collect();
    let manual = include_str!("../../../../docs/operations.md");
    assert!(manual.contains(&table), "docs/operations.md should have this table:\n{table}");
}
