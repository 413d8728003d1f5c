//! References to variables in texts: `$(NAME)`.

/// The maximum size of a name, value or argument.
pub const MOST_OF_STRING: usize = 128 * 1024;

/// Replaces `$(NAME)` by the variable's value. `$$` stands for `$`, so `$$(NAME)` stays text; an unresolved
/// reference stays as written. `None` if the result exceeds the maximum size;
/// it is never built beyond that.
pub fn expand<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
    let mut expanded = Bounded(String::with_capacity(text.len().min(MOST_OF_STRING)));
    // Without this check, every unclosed `$(` would search the whole rest.
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

/// A text within the maximum size.
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

/// The name in `(NAME)…` and the rest.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}
