//! The same workflows locally and on three workers: the same result, exit code and run.

use std::{fs, os::unix::process::ExitStatusExt as _};

use serde_json::Value;

use crate::{
    env::{Cluster, text},
    mirror::kinds,
};

/// A coding agent that says what the first line of its prompt tells it to say, `say: …`, at a cent for each turn. A
/// prompt `once: A / B` is answered by A at first and by B when the agent has been there.
pub(crate) const AGENT: &str = r#"
prompt=$(cat)
line=$(printf '%s\n' "$prompt" | head -n 1)
mark=".once-$RAYMOND_STATE"
case $line in
  say:*) text=${line#say: } ;;
  once:*) text=${line#once: }; if [ -e "$mark" ]; then text=${text#* / }; else printf '%s' "${text#* / }" >"$mark"; text=${text%% / *}; fi ;;
  *) if [ -e "$mark" ]; then text=$(cat "$mark"); else text="<result>reminded</result>"; fi ;;
esac
case $text in
  fail:*) printf '{"error": "no luck", "class": "%s", "cost_usd": 0.01}\n' "${text#fail:}"; exit ;;
esac
text=$(printf '%s' "$text" | sed 's/\\/\\\\/g; s/"/\\"/g')
printf '{"result": "%s", "cost_usd": 0.01}\n' "$text"
"#;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) options: &'static [&'static str],
    /// The exit code and the result, so that a case that is wrong on both sides is noticed.
    end: (i32, &'static str),
}

const fn case(
    name: &'static str,
    end: (i32, &'static str),
    files: &'static [(&'static str, &'static str)],
) -> Case {
    Case { name, files, options: &[], end }
}

pub(crate) const CASES: &[Case] = &[
    case("result", (0, "done"), &[("START.sh", "echo '<result>done</result>'")]),
    case(
        "goto",
        (0, "main"),
        &[
            ("START.sh", "echo '<goto>B</goto>'"),
            ("B.md", "say: <goto>C</goto>"),
            ("C.sh", "echo \"<result>$RAYMOND_AGENT_ID</result>\""),
        ],
    ),
    case(
        "reset",
        (0, "fresh"),
        &[("START.md", "say: <reset>B</reset>"), ("B.md", "say: <result>fresh</result>")],
    ),
    case(
        "call",
        (0, "got x back"),
        &[
            ("START.md", "say: <call return=\"BACK\" what=\"x\">SUB</call>"),
            ("SUB.sh", "echo \"<result>got $what</result>\""),
            ("BACK.md", "say: <result>{{result}} back</result>"),
        ],
    ),
    case(
        "function",
        (0, "inner"),
        &[
            ("START.md", "say: <function return=\"BACK\">SUB</function>"),
            ("SUB.md", "say: <result>inner</result>"),
            ("BACK.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
        ],
    ),
    case(
        "fork-join",
        (0, "2"),
        &[
            ("START.sh", "echo '<fork next=\"MORE\" item=\"a\">WORK</fork>'"),
            ("MORE.sh", "echo '<fork next=\"WAIT\" item=\"b\">WORK</fork>'"),
            ("WORK.sh", "echo \"<result>worker $item</result>\""),
            ("WAIT.sh", "echo '<join>ALL</join>'"),
            (
                "ALL.sh",
                "echo \"<result>$(grep -o 'worker [ab]' <<<\"$RAYMOND_RESULT\" | wc -l)</result>\"",
            ),
        ],
    ),
    case(
        "directory",
        (0, "sub"),
        &[
            ("START.sh", "mkdir -p sub; echo '<reset cd=\"sub\">THERE</reset>'"),
            ("THERE.sh", "echo \"<result>${PWD##*/}</result>\""),
        ],
    ),
    case(
        "missing-directory",
        (1, ""),
        &[("START.sh", "echo '<reset cd=\"nowhere\">START</reset>'")],
    ),
    // Turns that go on with a session, before and after a function with another one.
    case(
        "homes",
        (0, "end"),
        &[
            ("START.md", "say: <goto>A</goto>"),
            ("A.md", "say: <goto>B</goto>"),
            ("B.md", "say: <goto>SCRIPT</goto>"),
            ("SCRIPT.sh", "echo '<goto>C</goto>'"),
            ("C.md", "say: <function return=\"D\">F</function>"),
            ("F.md", "say: <result>f</result>"),
            ("D.md", "say: <goto>END</goto>"),
            ("END.md", "say: <result>end</result>"),
        ],
    ),
    case("failing-script", (1, ""), &[("START.sh", "exit 3")]),
    case("script-without-tag", (1, ""), &[("START.sh", "echo nothing")]),
    case("missing-target", (1, ""), &[("START.sh", "echo '<goto>NOWHERE</goto>'")]),
    case(
        "reminder",
        (0, "reminded"),
        &[(
            "START.md",
            "---\nallowed_transitions: [{ tag: result }, { tag: goto, target: START.md }]\n---\nsay: no tag",
        )],
    ),
    case("no-reminder", (1, ""), &[("START.md", "say: no tag")]),
    case(
        "implicit",
        (0, "implied"),
        &[
            ("START.md", "---\nallowed_transitions: [{ tag: goto, target: B.sh }]\n---\nsay: well"),
            ("B.sh", "echo '<result>implied</result>'"),
        ],
    ),
    case(
        "evaluator-match",
        (0, "replaced"),
        &[
            (
                "START.md",
                "---\nallowed_transitions: [{ tag: goto, target: B.sh }, { tag: goto, target: C.sh }]\n\
                 evaluators: [{ match: 'draft', then: { tag: goto, target: C.sh } }]\n---\nsay: a draft <goto>B</goto>",
            ),
            ("B.sh", "echo '<result>b</result>'"),
            ("C.sh", "echo '<result>replaced</result>'"),
        ],
    ),
    case(
        "evaluator-prompt",
        (0, "judged"),
        &[
            (
                "START.md",
                "---\nallowed_transitions: [{ tag: goto, target: B.sh }, { tag: result }]\n\
                 evaluators: [{ prompt: JUDGE.md }]\n---\nsay: <goto>B</goto>",
            ),
            ("JUDGE.md", "say: <result>accept</result>"),
            ("B.sh", "echo '<result>judged</result>'"),
        ],
    ),
    case(
        "visits",
        (0, "enough"),
        &[
            (
                "START.md",
                "---\nmax_visits: 2\nthen: { tag: goto, target: END.sh }\n---\nsay: <goto>START</goto>",
            ),
            ("END.sh", "echo '<result>enough</result>'"),
        ],
    ),
    case(
        "retry",
        (0, "second time"),
        &[("START.md", "once: fail:unknown / <result>second time</result>")],
    ),
    case("persistent-failure", (1, ""), &[("START.md", "say: fail:authentication")]),
    case(
        "default-answer",
        (0, "yes"),
        &[
            ("START.sh", "echo '<ask next=\"A\" timeout=\"1h\" default=\"yes\">Shall I?</ask>'"),
            ("A.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
        ],
    ),
    case(
        "large",
        (0, "200000"),
        &[
            ("START.sh", "echo '<call return=\"BACK\">SUB</call>'"),
            ("SUB.sh", "echo \"<result>$(head -c 200000 /dev/zero | tr '\\0' x)</result>\""),
            ("BACK.sh", "echo \"<result>$(wc -c <\"$RAYMOND_RESULT_FILE\")</result>\""),
        ],
    ),
    Case {
        name: "input",
        files: &[("START.md", "say: <result>{{input}} {{who}}</result>")],
        options: &["--input", "hello", "--var", "who=you"],
        end: (0, "hello you"),
    },
    Case {
        name: "iterations",
        files: &[("START.sh", "echo '<goto>START</goto>'")],
        options: &["--max-iterations", "5"],
        end: (3, ""),
    },
    Case {
        name: "budget",
        files: &[("START.md", "say: <goto>START</goto>")],
        options: &["--budget", "0.05"],
        end: (3, ""),
    },
    // The last: the local program tells its other runs of the limit, which then wait.
    Case {
        name: "usage-limit",
        files: &[("START.md", "say: fail:usage_limit")],
        options: &["--no-wait"],
        end: (4, ""),
    },
];

/// The run without what differs between two runs of the same.
pub(crate) fn essence(mut run: Value) -> String {
    let random = ["workflow_id", "scope_dir", "identity", "started_at_ms"];
    // Of the state file, not of the run.
    let of_the_file = ["version", "journal_offset", "checksum"];
    for key in random.into_iter().chain(of_the_file) {
        run.as_object_mut().unwrap().remove(key);
    }
    for agent in run["agents"].as_array_mut().unwrap() {
        agent["cwd"] = Value::Null;
    }
    let text = run.to_string();
    let is_session = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let words = text.split('"').map(|word| if is_session(word) { "SESSION" } else { word });
    words.collect::<Vec<_>>().join("\"")
}

fn code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
}

#[test]
fn workflows_give_the_same_result_locally_and_on_three_workers() {
    let Some(cluster) = Cluster::start() else { return };
    fs::write(cluster.file("agent.sh"), AGENT).unwrap();
    let _workers = ["one", "two", "three"].map(|name| cluster.worker(name));
    let mut differences = Vec::new();
    for Case { name, files, options, end } in CASES {
        let (here, there) = (format!("here-{name}"), format!("there-{name}"));
        for flow in [&here, &there] {
            cluster.flow(flow, files);
        }
        let common = [&["--ask", "default"], *options].concat();
        // Marks of the agent and of scripts are in the working directory.
        let run = |flow: &str| {
            let place = cluster.project(&format!("at-{flow}"));
            fs::create_dir_all(&place).unwrap();
            place
        };
        let mut local =
            cluster.local(&["start", &format!("../{here}"), "--no-lint", "--id", &here]);
        let local = local.args(&common).current_dir(run(&here)).arg("-q").output().unwrap();
        let mut far = cluster.cluster(&["start", &format!("../{there}"), "--id", &there]);
        let far = far.args(&common).current_dir(run(&there)).output().unwrap();
        let state = cluster.project(&format!("at-{here}/.raymond/workflows/{here}.json"));
        let state: Value = serde_json::from_str(&fs::read_to_string(state).unwrap()).unwrap();
        let [near_run, far_run] = [state, cluster.show(&there)].map(essence);
        // Of workers, one may end before the other.
        let [near_journal, far_journal] = [&here, &there].map(|id| {
            let path = cluster.project(&format!("at-{id}/.raymond/workflows/{id}.journal"));
            let journal = fs::read_to_string(path).unwrap();
            let lines = journal.lines().map(|line| serde_json::from_str(line).unwrap());
            let mut kinds = kinds(&lines.collect::<Vec<_>>());
            kinds.sort();
            kinds
        });
        let strip = |out: &[u8]| String::from_utf8_lossy(out).trim().to_owned();
        let near = (
            code(local.status),
            strip(&local.stdout),
            near_run.replace(&here, "FLOW"),
            near_journal,
        );
        let other =
            (code(far.status), strip(&far.stdout), far_run.replace(&there, "FLOW"), far_journal);
        let is_as_meant = (near.0, &*near.1) == *end;
        if near != other || !is_as_meant {
            differences.push(format!(
                "{name}:\n  {near:?}\n  {other:?}\n  {}\n  {}",
                text(&local),
                text(&far)
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
