//! Volumes that a pod waits for: its status is `ContainerCreating` meanwhile, for any cause.

use server::wire::WaitingVolume;

/// The status word for a pod in a table, with the volumes that it waits for. The last event has the cause.
pub(super) fn status_word(word: &str, waiting: &[WaitingVolume]) -> Option<String> {
    let is_starting =
        ["ContainerCreating", "PodInitializing"].contains(&word) || word.starts_with("Init:");
    let names: Vec<&str> = waiting.iter().map(|volume| volume.name.as_str()).collect();
    let noun = match names.as_slice() {
        _ if !is_starting => return None,
        [] => return None,
        [_] => "volume",
        _ => "volumes",
    };
    Some(format!("{word} (waiting for {noun} {})", names.join(", ")))
}

/// The type of a volume, and the reason if the pod waits for it.
pub(super) fn described(kind: &str, name: &str, waiting: &[WaitingVolume]) -> String {
    let Some(waiting) = waiting.iter().find(|volume| volume.name == name) else {
        return kind.to_owned();
    };
    match &waiting.failure {
        Some(failure) => format!("{kind}, not mounted: {failure}"),
        None => format!("{kind}, being mounted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(name: &str, failure: Option<&str>) -> WaitingVolume {
        WaitingVolume { name: name.to_owned(), failure: failure.map(str::to_owned) }
    }

    // behaviour: VOL-75
    #[test]
    fn starting_pod_names_the_volumes_that_it_waits_for() {
        let (one, two) = (waiting("data", None), waiting("keys", Some("secret \"k\" not found")));
        let both = [one.clone(), two];
        let rows = [
            ("ContainerCreating", &both[..0], None),
            ("ContainerCreating", &both[..1], Some("ContainerCreating (waiting for volume data)")),
            ("Init:0/1", &both[..], Some("Init:0/1 (waiting for volumes data, keys)")),
            ("Running", &both[..], None),
        ];
        for (word, waiting, expected) in rows {
            assert_eq!(status_word(word, waiting).as_deref(), expected, "{word}");
        }
    }

    // behaviour: VOL-75
    #[test]
    fn description_of_a_volume_has_the_cause() {
        let all = [waiting("data", None), waiting("keys", Some("secret \"k\" not found"))];
        assert_eq!(described("emptyDir", "other", &all), "emptyDir");
        assert_eq!(described("nfs", "data", &all), "nfs, being mounted");
        let keys = "secret, not mounted: secret \"k\" not found";
        assert_eq!(described("secret", "keys", &all), keys);
    }
}
