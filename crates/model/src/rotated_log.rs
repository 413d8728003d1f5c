//! The names of the files of a container log: `0.log`, `0.log.20261118-134200` after rotation,
//! `0.log.20261118-134200.gz` after compression.

use jiff::civil::DateTime;

/// The suffix of a compressed file.
const COMPRESSED: &str = ".gz";

/// The suffix of an unfinished file.
const UNFINISHED: &str = ".tmp";

/// The length of `20261118-134200`.
const STAMP: usize = 15;

/// The kind of a file in the directory of a log, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFileKind {
    /// The file that the runtime writes.
    Live,
    /// A file that was rotated.
    Rotated(RotatedName),
    /// The draft of a compressed file.
    Unfinished,
    /// Not a file of this log.
    Other,
}

impl LogFileKind {
    /// The kind of the file with this name for the log with that name.
    pub fn of(log: &str, file: &str) -> Self {
        let Some(rest) = file.strip_prefix(log) else { return Self::Other };
        if rest.is_empty() {
            return Self::Live;
        }
        let Some(rest) = rest.strip_prefix('.') else { return Self::Other };
        if rest.ends_with(UNFINISHED) {
            return Self::Unfinished;
        }
        RotatedName::parse(rest).map_or(Self::Other, Self::Rotated)
    }
}

/// The suffix of a rotated file after the name of its log. Ordered by rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RotatedName {
    /// When it was rotated, in local time, or a little later: the names of a log's files are ascending.
    pub time: DateTime,
    /// Whether it is compressed.
    pub compressed: bool,
}

impl RotatedName {
    /// A file that is rotated now and not compressed.
    pub fn plain(time: DateTime) -> Self {
        Self { time, compressed: false }
    }

    fn parse(text: &str) -> Option<Self> {
        let (stamp, compressed) = match text.strip_suffix(COMPRESSED) {
            Some(stamp) => (stamp, true),
            None => (text, false),
        };
        let (date, clock) = stamp.split_once('-')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if stamp.len() != STAMP || date.len() != 8 || !digits(date) || !digits(clock) {
            return None;
        }
        let number = |from: usize, to: usize| stamp.get(from..to)?.parse::<i8>().ok();
        let year = stamp.get(0..4)?.parse().ok()?;
        let (month, day) = (number(4, 6)?, number(6, 8)?);
        let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
        let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
        Some(Self { time, compressed })
    }

    /// The name of the file.
    pub fn file_name(&self, log: &str) -> String {
        let (date, clock) = (self.time.date(), self.time.time());
        let ending = if self.compressed { COMPRESSED } else { "" };
        format!(
            "{log}.{:04}{:02}{:02}-{:02}{:02}{:02}{ending}",
            date.year(),
            date.month(),
            date.day(),
            clock.hour(),
            clock.minute(),
            clock.second()
        )
    }
}

/// The kind of a file for the log with its name as prefix: `12.log` for `12.log.20261118-134200`.
pub fn kind_by_name(file: &str) -> LogFileKind {
    match file.split_once(".log.") {
        Some((number, _)) if !number.is_empty() => {
            LogFileKind::of(&file[..number.len() + ".log".len()], file)
        }
        _ => LogFileKind::Other,
    }
}

/// Whether a name is that of a rotated file of some log, or of an unfinished one.
pub fn is_rotated_name(file: &str) -> bool {
    matches!(kind_by_name(file), LogFileKind::Rotated(_) | LogFileKind::Unfinished)
}

/// The name of a rotated file once it is compressed.
pub fn compressed_name(rotated: &str) -> String {
    format!("{rotated}{COMPRESSED}")
}

/// The name under which a rotated file is compressed.
pub fn unfinished_name(rotated: &str) -> String {
    format!("{rotated}{UNFINISHED}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of_any_log() -> [(&'static str, bool); 6] {
        [
            ("0.log", false),
            ("12.log.20261118-134200", true),
            ("0.log.20261118-134200.gz", true),
            ("0.log.20261118-134200.tmp", true),
            ("0.log.notes", false),
            (".log.20261118-134200", false),
        ]
    }

    #[test]
    fn files_of_a_log_are_recognized_by_name() {
        use LogFileKind::{Live, Other, Rotated, Unfinished};
        let time = jiff::civil::date(2026, 11, 18).at(13, 42, 0, 0);
        let (plain, gz) = (RotatedName::plain(time), RotatedName { time, compressed: true });
        let rows = [
            ("0.log", Live),
            ("0.log.20261118-134200", Rotated(plain)),
            ("0.log.20261118-134200.gz", Rotated(gz)),
            ("0.log.20261118-134200.tmp", Unfinished),
            ("0.log.20261118-134200.gz.tmp", Unfinished),
            ("0.log.tmp", Other),
            ("0.log.20261318-134200", Other),
            ("0.log.2026118-1342000", Other),
            ("0.log.20261118-1342", Other),
            ("0.log.20261118x134200", Other),
            ("0.log.+0261118-134200", Other),
            ("0.log.x", Other),
            ("0.logs", Other),
            ("10.log.20261118-134200", Other),
            ("1.log", Other),
        ];
        for (name, expected) in rows {
            assert_eq!(LogFileKind::of("0.log", name), expected, "{name}");
        }
        for (name, expected) in rows_of_any_log() {
            assert_eq!(is_rotated_name(name), expected, "{name}");
        }
        assert!(plain < gz);
        assert_eq!(plain.file_name("0.log"), "0.log.20261118-134200");
        assert_eq!(gz.file_name("0.log"), compressed_name(&plain.file_name("0.log")));
        assert_eq!(unfinished_name("0.log.20261118-134200"), "0.log.20261118-134200.tmp");
    }
}
