//! The same workflows locally and on three workers: the same result, exit code and run.

use std::{fs, os::unix::process::ExitStatusExt as _};

use serde_json::{Value, json};

use crate::env::{Cluster, text};

/// A coding agent that says what the first line of its prompt tells it to say, `say: …`, at a cent for each turn. A
/// prompt `once: A / B` is answered by A at first and by B when the agent has been there.
const AGENT: &str = r#"
prompt=$(cat)
line=$(printf '%s\n' "$prompt" | head -n 1)
mark=".once-$RAYMOND_STATE"
case $line in
  say:*) text=${line#say: } ;;
  once:*) text=${line#once: }; if [ -e "$mark" ]; then text=${text#* / }; else text=${text%% / *}; touch "$mark"; fi ;;
  *) if [ -e "$mark" ]; then text=$(cat "$mark"); else text="<result>reminded</result>"; fi ;;
esac
case $text in
  fail:*) printf '{"error": "no luck", "class": "%s", "cost_usd": 0.01}\n' "${text#fail:}"; exit ;;
esac
text=$(printf '%s' "$text" | sed 's/\\/\\\\/g; s/"/\\"/g')
printf '{"result": "%s", "cost_usd": 0.01}\n' "$text"
"#;

struct Case {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
}

const fn case(name: &'static str, files: &'static [(&'static str, &'static str)]) -> Case {
    Case { name, files, options: &[] }
}

const CASES: &[Case] = &[
    case("result", &[("START.sh", "echo '<result>done</result>'")]),
    case(
        "goto",
        &[
            ("START.sh", "echo '<goto>B</goto>'"),
            ("B.md", "say: <goto>C</goto>"),
            ("C.sh", "echo \"<result>$RAYMOND_AGENT_ID</result>\""),
        ],
    ),
    case(
        "reset",
        &[("START.md", "say: <reset>B</reset>"), ("B.md", "say: <result>fresh</result>")],
    ),
    case(
        "call",
        &[
            ("START.md", "say: <call return=\"BACK\" what=\"x\">SUB</call>"),
            ("SUB.sh", "echo \"<result>got $what</result>\""),
            ("BACK.md", "say: <result>{{result}} back</result>"),
        ],
    ),
    case(
        "function",
        &[
            ("START.md", "say: <function return=\"BACK\">SUB</function>"),
            ("SUB.md", "say: <result>inner</result>"),
            ("BACK.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
        ],
    ),
    case(
        "fork-join",
        &[
            ("START.sh", "echo '<fork next=\"MORE\" item=\"a\">WORK</fork>'"),
            ("MORE.sh", "echo '<fork next=\"WAIT\" item=\"b\">WORK</fork>'"),
            ("WORK.sh", "echo \"<result>$item</result>\""),
            ("WAIT.sh", "echo '<join>ALL</join>'"),
            (
                "ALL.sh",
                "echo \"<result>$(printf %s \"$RAYMOND_RESULT\" | tr -d '\\n ' | head -c 200)</result>\"",
            ),
        ],
    ),
    case(
        "directory",
        &[
            ("START.sh", "mkdir -p sub; echo '<reset cd=\"sub\">THERE</reset>'"),
            ("THERE.sh", "echo \"<result>${PWD##*/}</result>\""),
        ],
    ),
    case("missing-directory", &[("START.sh", "echo '<reset cd=\"nowhere\">START</reset>'")]),
    case("failing-script", &[("START.sh", "exit 3")]),
    case("script-without-tag", &[("START.sh", "echo nothing")]),
    case("missing-target", &[("START.sh", "echo '<goto>NOWHERE</goto>'")]),
    case(
        "reminder",
        &[(
            "START.md",
            "---\nallowed_transitions: [{ tag: result }, { tag: goto, target: START.md }]\n---\nsay: no tag",
        )],
    ),
    case("no-reminder", &[("START.md", "say: no tag")]),
    case(
        "implicit",
        &[
            ("START.md", "---\nallowed_transitions: [{ tag: goto, target: B.sh }]\n---\nsay: well"),
            ("B.sh", "echo '<result>implied</result>'"),
        ],
    ),
    case(
        "evaluator-match",
        &[
            (
                "START.md",
                "---\nallowed_transitions: [{ tag: goto, target: B.sh }, { tag: goto, target: C.sh }]\nevaluators: [{ match: 'draft', then: { tag: goto, target: C.sh } }]\n---\nsay: a draft <goto>B</goto>",
            ),
            ("B.sh", "echo '<result>b</result>'"),
            ("C.sh", "echo '<result>replaced</result>'"),
        ],
    ),
    case(
        "evaluator-prompt",
        &[
            (
                "START.md",
                "---\nallowed_transitions: [{ tag: goto, target: B.sh }, { tag: result }]\nevaluators: [{ prompt: JUDGE.md }]\n---\nsay: <goto>B</goto>",
            ),
            ("JUDGE.md", "say: <result>accept</result>"),
            ("B.sh", "echo '<result>judged</result>'"),
        ],
    ),
    case(
        "visits",
        &[
            (
                "START.md",
                "---\nmax_visits: { max: 2, then: { tag: goto, target: END.sh } }\n---\nsay: <goto>START</goto>",
            ),
            ("END.sh", "echo '<result>enough</result>'"),
        ],
    ),
    case("retry", &[("START.md", "once: fail:unknown / <result>second time</result>")]),
    case("persistent-failure", &[("START.md", "say: fail:authentication")]),
    case(
        "default-answer",
        &[
            ("START.sh", "echo '<ask next=\"A\" default=\"yes\">Shall I?</ask>'"),
            ("A.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
        ],
    ),
    Case {
        name: "input",
        files: &[("START.md", "say: <result>{{input}} {{who}}</result>")],
        options: &["--input", "hello", "--var", "who=you"],
    },
    Case {
        name: "iterations",
        files: &[("START.sh", "echo '<goto>START</goto>'")],
        options: &["--max-iterations", "5"],
    },
    Case {
        name: "budget",
        files: &[("START.md", "say: <goto>START</goto>")],
        options: &["--budget", "0.05"],
    },
    Case {
        name: "large",
        files: &[
            (
                "START.sh",
                "echo \"<goto input=\\\"$(head -c 200000 /dev/zero | tr '\\0' x)\\\">B</goto>\"",
            ),
            ("B.sh", "echo \"<result>$(cat \"$RAYMOND_INPUT_FILE\" | wc -c)</result>\""),
        ],
        options: &[],
    },
];

/// The run without what differs between two runs of the same.
fn essence(mut run: Value) -> Value {
    for key in ["workflow_id", "scope_dir", "identity", "started_at_ms", "journal_offset"] {
        run.as_object_mut().unwrap().remove(key);
    }
    for agent in run["agents"].as_array_mut().unwrap() {
        for key in ["session_id", "cwd"] {
            agent[key] = json!(agent[key].is_null());
        }
    }
    run
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
    for Case { name, files, options } in CASES {
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
        let mut local = cluster.local(&["start", &format!("../{here}"), "--id", &here]);
        let local = local.args(&common).current_dir(run(&here)).arg("-q").output().unwrap();
        let mut far = cluster.cluster(&["start", &format!("../{there}"), "--id", &there]);
        let far = far.args(&common).current_dir(run(&there)).output().unwrap();
        let state = cluster.project(&format!("at-{here}/.raymond/workflows/{here}.json"));
        let state: Value = serde_json::from_str(&fs::read_to_string(state).unwrap()).unwrap();
        let [near_run, far_run] = [state, cluster.show(&there)].map(essence);
        let strip = |out: &[u8]| String::from_utf8_lossy(out).trim().to_owned();
        let near =
            (code(local.status), strip(&local.stdout), near_run.to_string().replace(&here, "FLOW"));
        let other =
            (code(far.status), strip(&far.stdout), far_run.to_string().replace(&there, "FLOW"));
        if near != other {
            differences.push(format!(
                "{name}:\n  {near:?}\n  {other:?}\n  {}\n  {}",
                text(&local),
                text(&far)
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
