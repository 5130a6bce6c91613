//! Random faults from a seed, one after another, while runs go on: workers killed, replaced, frozen or without network,
//! machines that are gone, servers killed. `scripts/storm` runs the long version.

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    env::{Cluster, Running, processes, text, wait_until},
    faults::signal,
    network::Network,
};

const AGENTS: usize = 6;
const ROUNDS: usize = 8;
/// The heartbeat timeout of the runs in seconds: about half of the freezes and cuts are longer.
const HEARTBEAT: &str = "6";
const PAUSE_MAX_MS: u64 = 12_000;

/// Takes the lock of its agent for as long as it lives, so that two children of one agent are noticed, then works a
/// while. The lock ends with the shell, not with the programs that it has started.
const WORK: &str = r#"
exec 9>"lock-$item"
flock -n 9 || echo "$item $at" >>overlaps
echo "$item $at" >>log
sleep "0.$((RANDOM % 7 + 2))" 9>&-
"#;

/// A state of an agent, whose input counts up through states and turns.
const ROUND: &str = r#"
at=$RAYMOND_INPUT
WORK
if [ "$at" -lt LAST ]; then echo "<goto input=\"$((at + 1))\">TURN</goto>"; else echo "<result>$item is at $at</result>"; fi
"#;

/// A turn: a coding agent that goes on where its prompt says, at a cent. It remembers nothing: a prompt that asks it to
/// continue a lost turn finds no session, and the whole prompt comes again.
const TURN: &str = r#"
read -r item at < <(sed -n 's/^turn //p')
if [ -z "$at" ]; then echo '{"error": "unknown session", "class": "session_missing"}'; exit; fi
WORK
printf '{"result": "<goto input=\\"%s\\">ROUND</goto>", "cost_usd": 0.01}\n' "$((at + 1))"
"#;

/// Pseudorandom numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.below(most_ms)));
    }
}

/// A worker and its network.
struct Member {
    name: String,
    network: Network,
    worker: Running,
}

struct Storm {
    cluster: Cluster,
    chance: Chance,
    members: Vec<Member>,
    /// How many workers there have been.
    joined: u32,
}

impl Storm {
    fn new(seed: u64) -> Option<Self> {
        let cluster = Cluster::with_server(false)?;
        let round = ROUND.replace("WORK", WORK).replace("LAST", &(2 * ROUNDS).to_string());
        let fork = r#"<fork next=\"WAIT\" input=\"0\" item=\"i$item\">ROUND</fork>"#;
        let forks = format!("for item in $(seq {AGENTS}); do echo \"{fork}\"; done");
        let all = "echo \"<result>$(grep -o 'i[0-9]* is at [0-9]*' <<<\"$RAYMOND_RESULT\" | sort | tr '\\n' ';')</result>\"";
        cluster.flow(
            "flow",
            &[
                ("START.sh", &forks),
                ("ROUND.sh", &round),
                ("TURN.md", "turn {{item}} {{input}}"),
                ("WAIT.sh", "echo '<join>ALL</join>'"),
                ("ALL.sh", all),
            ],
        );
        fs::write(cluster.file("agent.sh"), TURN.replace("WORK", WORK)).unwrap();
        // The generator must not begin with zero.
        let mut own = Self { cluster, chance: Chance(seed | 1), members: Vec::new(), joined: 0 };
        for _ in 0..3 {
            let member = own.join();
            own.members.push(member);
        }
        Some(own)
    }

    /// A new worker on a new machine.
    fn join(&mut self) -> Member {
        self.joined += 1;
        let (name, network) = (format!("w{}", self.joined), Network::to(self.cluster.port));
        let worker = self.cluster.worker_with(network.port, &name, &[]);
        Member { name, network, worker }
    }

    /// A fault, and its end. Returns what it was.
    fn fault(&mut self) -> String {
        let index = usize::try_from(self.chance.below(3)).unwrap();
        let kind = self.chance.below(6);
        let member = &mut self.members[index];
        let name = member.name.clone();
        match kind {
            0 => {
                member.worker.kill();
                self.chance.pause(3000);
                let member = &mut self.members[index];
                member.worker = self.cluster.worker_with(member.network.port, &member.name, &[]);
                format!("{name} killed and started again")
            }
            1 => {
                member.worker.kill();
                self.members[index] = self.join();
                format!("{name} replaced")
            }
            2 => {
                member.worker.kill();
                for pid in processes(&format!("{}/", self.cluster.file(&name).display())) {
                    let _ = Command::new("kill").arg("-9").arg(pid.to_string()).output();
                }
                self.members[index] = self.join();
                format!("machine of {name} gone")
            }
            3 => {
                let pid = member.worker.pid();
                signal("-STOP", pid);
                self.chance.pause(PAUSE_MAX_MS);
                signal("-CONT", pid);
                format!("{name} frozen")
            }
            4 => {
                member.network.cut();
                self.chance.pause(PAUSE_MAX_MS);
                self.members[index].network.mend();
                format!("{name} without network")
            }
            _ => {
                self.cluster.kill_server();
                self.chance.pause(3000);
                self.cluster.start_server();
                "server killed and started again".to_owned()
            }
        }
    }

    /// The status of a run, if a worker answers.
    fn status(&self, id: &str) -> Option<String> {
        let shown = self.cluster.ran(&["show", id]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).ok()?;
        Some(shown["status"].as_str()?.to_owned())
    }

    /// Runs the workflow to its end during at most so many faults. Returns how many there were, and its result.
    fn run(&mut self, id: &str, faults: u32) -> (u32, String) {
        let words = ["start", "--heartbeat", HEARTBEAT, "--steps-per-history", "40", "--detach"];
        // All turns and one more: a turn that counted twice would stop the run.
        let budget = format!("0.{}", AGENTS * ROUNDS + 1);
        let flow = ["flow", "--id", id, "--budget", &budget];
        let started = self.cluster.ran(&[&words[..], &flow].concat());
        assert!(started.status.success(), "{}", text(&started));
        let mut done = 0;
        loop {
            let is_over = done == faults || self.status(id).is_some_and(|own| own != "running");
            if is_over {
                let ran = self.cluster.ran(&["wait", id]);
                match ran.status.code() {
                    Some(0) => return (done, String::from_utf8(ran.stdout).unwrap()),
                    // A step that is lost three times fails, and the run can be resumed.
                    _ if text(&ran).contains("is failed") => {
                        let resumed = self.cluster.ran(&["resume", id, "--detach"]);
                        assert!(resumed.status.success(), "{}", text(&resumed));
                        eprintln!("{id} is resumed");
                    }
                    _ => panic!("{}", text(&ran)),
                }
            } else {
                done += 1;
                eprintln!("{id}, fault {done}: {}", self.fault());
                self.chance.pause(1500);
            }
        }
    }

    /// Checks what the agents of the run noted, and removes the notes.
    fn check(&self, id: &str) {
        let read = |name: &str| fs::read_to_string(self.cluster.project(name)).unwrap_or_default();
        let log = read("log");
        assert_eq!(read("overlaps"), "", "two children of one agent at once:\n{log}");
        let mut reached = BTreeMap::new();
        for line in log.lines() {
            let (agent, at) = line.split_once(' ').unwrap();
            let at: usize = at.parse().unwrap();
            let before = reached.insert(agent, at).unwrap_or(0);
            assert!(before <= at, "{agent} was at {before}, then at {at} again:\n{log}");
        }
        assert_eq!(reached.len(), AGENTS, "{log}");
        let run = self.cluster.show(id);
        let turns = u32::try_from(AGENTS * ROUNDS).unwrap();
        let cost = run["total_cost_usd"].as_f64().unwrap();
        assert!((cost - f64::from(turns) * 0.01).abs() < 1e-9, "{cost} for {turns} turns");
        fs::remove_file(self.cluster.project("log")).unwrap();
    }
}

#[test]
fn random_faults_repeat_no_finished_step_and_leave_nothing_running() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let faults = number("RAYMOND_CLUSTER_STORM").and_then(|faults| u32::try_from(faults).ok());
    let faults = faults.unwrap_or(10);
    let seed = number("RAYMOND_STORM_SEED").unwrap_or(20_261_117);
    let Some(mut storm) = Storm::new(seed) else { return };
    let local = storm
        .cluster
        .local(&["start", "flow", "--no-lint", "--id", "local", "-q"])
        .output()
        .unwrap();
    assert!(local.status.success(), "{}", text(&local));
    fs::remove_file(storm.cluster.project("log")).unwrap();
    let (mut done, mut runs, begun) = (0, 0, Instant::now());
    while done < faults {
        runs += 1;
        let id = format!("r{runs}");
        let (more, result) = storm.run(&id, faults - done);
        done += more;
        assert_eq!(result, String::from_utf8_lossy(&local.stdout), "seed {seed}, {id}");
        storm.check(&id);
    }
    eprintln!("{done} faults in {runs} runs, {:?}", begun.elapsed());
    storm.members.clear();
    storm.cluster.kill_server();
    let folder = storm.cluster.folder.path().to_str().unwrap().to_owned();
    wait_until("nothing is left running", || processes(&folder).is_empty());
}
