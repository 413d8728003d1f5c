//! The commands of a page of the documentation.

use anyhow::{Context, Result};

/// The lines of the first block of commands below a heading.
pub(crate) fn commands(page: &str, heading: &str) -> Result<Vec<String>> {
    let mut lines = page.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading);
    lines.next().with_context(|| format!("the page has no heading {heading:?}"))?;
    let section = lines.take_while(|line| !line.starts_with("## "));
    let block = section.skip_while(|line| !line.starts_with("```")).skip(1);
    let commands = block.take_while(|line| !line.starts_with("```"));
    Ok(commands.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_first_block_below_the_heading() {
        let page =
            "# Page\n```\na\n```\n## One\nText.\n```\nb c\nd\n```\n```\ne\n```\n## Two\nText.\n";
        assert_eq!(commands(page, "One").unwrap(), ["b c", "d"]);
        assert_eq!(commands(page, "Two").unwrap(), [""; 0]);
        commands(page, "Three").unwrap_err();
    }
}
