//! The archive that the kernel unpacks into its first root: cpio, in its `newc` form.

use std::io::{self, Write};

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
/// Names and contents are aligned to this.
const ALIGNMENT: usize = 4;
const TRAILER: &str = "TRAILER!!!";

/// An archive that is being written. Directories precede their content.
#[derive(Debug)]
pub(crate) struct Archive<W> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, inode: 0 }
    }

    /// A directory, by its path without the first slash.
    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY | 0o755, &[])
    }

    /// A file that all users may read, and run if it is executable.
    pub(crate) fn file(&mut self, path: &str, content: &[u8], runs: bool) -> io::Result<()> {
        self.entry(path, FILE | if runs { 0o755 } else { 0o644 }, content)
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK | 0o777, target.as_bytes())
    }

    /// Writes the trailer and returns the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.inode = 0;
        self.header(TRAILER, 0, 0)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.inode += 1;
        self.header(path, mode, content.len())?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn header(&mut self, path: &str, mode: u32, length: usize) -> io::Result<()> {
        let too_long =
            |_| io::Error::new(io::ErrorKind::FileTooLarge, "more than an entry can have");
        let length = u32::try_from(length).map_err(too_long)?;
        let name_length = u32::try_from(path.len() + 1).map_err(too_long)?;
        // inode, mode, owner, group, links, time, length, four numbers of devices, length of the name, check
        let fields = [self.inode, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
        let fields = fields.map(|field| format!("{field:08x}")).concat();
        let header = format!("070701{fields}{path}\0");
        self.out.write_all(header.as_bytes())?;
        self.pad(header.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        let missing = length.next_multiple_of(ALIGNMENT) - length;
        self.out.write_all(&[0; ALIGNMENT][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_have_their_lengths() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("bin").unwrap();
        archive.file("bin/x", b"hello", true).unwrap();
        archive.link("y", "bin/x").unwrap();
        let bytes = archive.finish().unwrap();
        let mut at = 0;
        let mut seen = Vec::new();
        loop {
            let text = std::str::from_utf8(&bytes[at..at + 110]).unwrap();
            assert!(text.starts_with("070701"), "no header at {at}: {text}");
            let field = |number: usize| {
                usize::from_str_radix(&text[6 + 8 * number..14 + 8 * number], 16).unwrap()
            };
            let (mode, length, name_length) = (field(1), field(6), field(11));
            let name = &bytes[at + 110..at + 110 + name_length - 1];
            let name = std::str::from_utf8(name).unwrap().to_owned();
            at += (110 + name_length).next_multiple_of(4);
            if name == TRAILER {
                break;
            }
            let content = String::from_utf8(bytes[at..at + length].to_vec()).unwrap();
            seen.push((name, format!("{mode:o}"), content));
            at += length.next_multiple_of(4);
        }
        assert_eq!(at, bytes.len());
        let entry = |name: &str, mode: &str, content: &str| {
            (name.to_owned(), mode.to_owned(), content.to_owned())
        };
        let expected = [
            entry("bin", "40755", ""),
            entry("bin/x", "100755", "hello"),
            entry("y", "120777", "bin/x"),
        ];
        assert_eq!(seen, expected);
    }
}
