//! Paths in `/proc/self/mountinfo`.

/// A path of a line. The kernel writes spaces, tabs, line feeds and backslashes of paths as three octal digits, and all
/// other bytes unescaped, whether they are text or not.
pub fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let number = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = number.and_then(|number| u8::from_str_radix(number, 8).ok()) {
            plain.push(byte);
            rest = &after[3..];
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_are_decoded() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"/a/b", b"/a/b"),
            (b"/a\\040b\\011c\\012", b"/a b\tc\n"),
            (b"/a\\134040", b"/a\\040"),
            (b"/\xff\\377", b"/\xff\xff"),
            (b"/a\\04", b"/a\\04"),
            (b"/a\\999\\777", b"/a\\999\\777"),
        ];
        for (written, plain) in cases {
            assert_eq!(unescaped(written), plain);
        }
    }
}
