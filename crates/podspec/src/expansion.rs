//! References to variables in texts: `$(NAME)`.

/// The most bytes of one name, value or argument.
pub const MOST_OF_STRING: usize = 128 * 1024;

/// Replaces `$(NAME)` by the variable's value. `$$` stands for `$`, so `$$(NAME)` stays text; a
/// reference that cannot be resolved stays as written. Nothing if the result is longer than a string may
/// be; no more than that is ever built.
pub fn expand<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
    let mut expanded = Bounded(String::with_capacity(text.len().min(MOST_OF_STRING)));
    // Without it, every `$(` that is never closed would search the whole rest.
    let last_close = text.rfind(')');
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push(&rest[..dollar])?;
        let after = &rest[dollar + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            expanded.push("$")?;
            rest = tail;
        } else if last_close.is_some_and(|close| close >= text.len() - after.len())
            && let Some((name, tail)) = reference(after)
        {
            match value(name) {
                Some(value) => expanded.push(value)?,
                None => expanded.push(&rest[dollar..dollar + name.len() + 3])?,
            }
            rest = tail;
        } else {
            expanded.push("$")?;
            rest = after;
        }
    }
    expanded.push(rest)?;
    Some(expanded.0)
}

/// A text that stays within the limit of a string.
struct Bounded(String);

impl Bounded {
    fn push(&mut self, text: &str) -> Option<()> {
        if text.len() > MOST_OF_STRING - self.0.len() {
            return None;
        }
        self.0.push_str(text);
        Some(())
    }
}

/// The name in `(NAME)…` and what comes after it.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}
