//! The versions of coding agents that Raymond names are those that it is tested with.

use raymond_engine::agent::{AgentConfig, NATIVES};
use raymond_testkit::table;

#[test]
fn doctor_names_the_versions_of_the_table() {
    let natives = NATIVES.iter().map(|native| {
        let agent = (native.make)(AgentConfig::default());
        (native.name, agent.versions().unwrap())
    });
    let dotted = |version: [u64; 3]| version.map(|number| number.to_string()).join(".");
    for (name, versions) in natives {
        let row = table::row(name);
        assert_eq!(versions.package, row.package);
        assert_eq!(Some(&*dotted(versions.oldest)), row.oldest, "{name}: the oldest");
        assert_eq!(dotted(versions.tested), row.tested, "{name}: the tested one");
    }
}
