//! Whether an image must be fetched.

/// What to do about a container's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// Use what is there, under this reference.
    Present(String),
    /// Fetch it.
    Pull,
    /// It is not there and must not be fetched.
    Forbidden,
}

/// Whether it matters by the policy that an image is there.
pub fn is_looked_for(policy: Option<&str>) -> bool {
    policy != Some("Always")
}

/// Decides by policy and by what the runtime has. `Always` asks the registry each time; a name
/// without a policy is `IfNotPresent`, which is what a defaulted pod says.
pub fn fetch(policy: Option<&str>, present: Option<&str>) -> Fetch {
    match (policy, present) {
        (Some("Always"), _) | (_, None) if policy != Some("Never") => Fetch::Pull,
        (_, Some(image)) => Fetch::Present(image.to_owned()),
        (_, None) => Fetch::Forbidden,
    }
}

/// The name with `:latest` when it has neither tag nor digest. The name is otherwise left as the pod
/// writes it: the runtime knows its own default registry.
pub fn with_default_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if image.contains('@') || last.contains(':') {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_decides() {
        let here = || Fetch::Present("sha256:1".to_owned());
        let rows = [
            (Some("Always"), None, Fetch::Pull),
            (Some("Always"), Some("sha256:1"), Fetch::Pull),
            (Some("IfNotPresent"), None, Fetch::Pull),
            (Some("IfNotPresent"), Some("sha256:1"), here()),
            (Some("Never"), None, Fetch::Forbidden),
            (Some("Never"), Some("sha256:1"), here()),
            (None, None, Fetch::Pull),
            (None, Some("sha256:1"), here()),
        ];
        for (policy, present, expected) in rows {
            assert_eq!(fetch(policy, present), expected, "{policy:?} {present:?}");
        }
    }

    #[test]
    fn an_image_is_looked_for_where_it_makes_a_difference() {
        for policy in [Some("Always"), Some("IfNotPresent"), Some("Never"), None] {
            let differs = fetch(policy, None) != fetch(policy, Some("sha256:1"));
            assert_eq!(is_looked_for(policy), differs, "{policy:?}");
        }
    }

    #[test]
    fn latest_is_the_tag_of_names_without_tag_and_digest() {
        let rows = [
            ("busybox", "busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("reg:5000/busybox", "reg:5000/busybox:latest"),
            ("reg:5000/busybox:1", "reg:5000/busybox:1"),
            ("busybox@sha256:00", "busybox@sha256:00"),
        ];
        for (image, expected) in rows {
            assert_eq!(with_default_tag(image), expected);
        }
    }
}
