//! Objects as JSON or YAML.

use anyhow::{Context, Result};
use serde::Serialize;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// An object in JSON.
    Json,
    /// The same object in YAML.
    Yaml,
}

impl Output {
    /// An object as text, with the newline at its end. Both formats have the same content.
    pub(crate) fn text(self, object: &impl Serialize) -> Result<String> {
        match self {
            Self::Json => {
                let text = serde_json::to_string_pretty(object).context("write the output")?;
                Ok(format!("{text}\n"))
            }
            // Through JSON, so that both formats have the same content.
            Self::Yaml => {
                let object = serde_json::to_value(object).context("write the output")?;
                let text = serde_saphyr::to_string(&object).context("write the output")?;
                Ok(format!("{}\n", text.trim_end()))
            }
        }
    }

    /// One object of a stream: a line of JSON, or a YAML document.
    pub(crate) fn item(self, object: &impl Serialize) -> Result<String> {
        match self {
            Self::Json => {
                let line = serde_json::to_string(object).context("write the output")?;
                Ok(format!("{line}\n"))
            }
            Self::Yaml => Ok(format!("---\n{}", self.text(object)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn both_formats_have_the_same_content() {
        let object =
            json!({ "name": "yes", "count": 3, "items": [{ "id": "0644" }], "none": null });
        let json: Value = serde_json::from_str(&Output::Json.text(&object).unwrap()).unwrap();
        let yaml: Value = serde_saphyr::from_str(&Output::Yaml.text(&object).unwrap()).unwrap();
        assert_eq!((&json, &yaml), (&object, &object));
    }

    #[test]
    fn streams_are_lines_of_json_or_yaml_documents() {
        let object = json!({ "a": 1 });
        assert_eq!(Output::Json.item(&object).unwrap(), "{\"a\":1}\n");
        assert_eq!(Output::Yaml.item(&object).unwrap(), "---\na: 1\n");
    }
}
