//! The names of task queues: the common one, one for every combination of labels, one for each worker, and one for what is
//! not a step.

/// The queue of steps that need these labels, which are sorted.
pub(crate) fn labelled(common: &str, labels: &[String]) -> String {
    labels.iter().fold(common.to_owned(), |name, label| format!("{name}+{label}"))
}

/// The queue of one worker: for steps that it has, and for turns of sessions that it has.
pub(crate) fn own(common: &str, worker: &str) -> String {
    format!("{common}@{worker}")
}

/// The queue of what a run needs beside its steps, which any worker does at once: it must not wait while all places of all
/// workers are taken.
pub(crate) fn jobs(common: &str) -> String {
    format!("{common}:jobs")
}

/// The queues from which a worker with these labels takes steps, without the common one: a step that needs some of the
/// labels is for it, too.
pub(crate) fn of_labels(common: &str, labels: &[String]) -> Vec<String> {
    let mut sorted = labels.to_vec();
    sorted.sort();
    sorted.dedup();
    let mut sets = vec![Vec::new()];
    for label in sorted {
        let with =
            sets.iter().map(|set: &Vec<String>| [&set[..], std::slice::from_ref(&label)].concat());
        sets.extend(with.collect::<Vec<_>>());
    }
    sets.iter().filter(|set| !set.is_empty()).map(|set| labelled(common, set)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_takes_steps_that_need_any_of_its_labels_or_several() {
        let labels = ["gpu", "big", "gpu"].map(str::to_owned);
        assert_eq!(of_labels("q", &labels), ["q+big", "q+gpu", "q+big+gpu"]);
        assert!(of_labels("q", &[]).is_empty());
        let needed = ["big", "gpu"].map(str::to_owned);
        assert!(of_labels("q", &labels).contains(&labelled("q", &needed)));
    }
}
