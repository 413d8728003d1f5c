//! The size classes of images in pull metrics.

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The classes of images larger than this many bytes.
const CLASSES: [(u64, &str); 12] = [
    (100 * GIB, "GT100GB"),
    (60 * GIB, "60GB-100GB"),
    (40 * GIB, "40GB-60GB"),
    (30 * GIB, "30GB-40GB"),
    (20 * GIB, "20GB-30GB"),
    (10 * GIB, "10GB-20GB"),
    (5 * GIB, "5GB-10GB"),
    (GIB, "1GB-5GB"),
    (500 * MIB, "500MB-1GB"),
    (100 * MIB, "100MB-500MB"),
    (10 * MIB, "10MB-100MB"),
    (0, "0-10MB"),
];

/// The class of an image by its bytes; 0 means unknown.
pub fn size_class(bytes: u64) -> &'static str {
    let found = CLASSES.into_iter().find(|(more_than, _)| bytes > *more_than);
    found.map_or("N/A", |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: ACT-122
    #[test]
    fn image_size_class_matches_upstream() {
        let rows = [
            (0, "N/A"),
            (1, "0-10MB"),
            (10 * MIB, "0-10MB"),
            (10 * MIB + 1, "10MB-100MB"),
            (GIB, "500MB-1GB"),
            (GIB + 1, "1GB-5GB"),
            (u64::MAX, "GT100GB"),
        ];
        for (bytes, class) in rows {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }
}
