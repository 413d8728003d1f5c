//! Converts the texts of a flag to a value of the document.

use model::names::{label_value, qualified_name};
use model::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::Syntax;
use crate::duration::GoDuration;

/// Joins all texts given for one flag; the error describes the expected syntax.
pub(super) fn join(syntax: Syntax, texts: &[&str]) -> Result<Value, String> {
    match syntax {
        Syntax::Bool
        | Syntax::Integer
        | Syntax::Number
        | Syntax::Digits
        | Syntax::Duration
        | Syntax::Text
        | Syntax::Address
        | Syntax::Version
        | Syntax::Taints
        | Syntax::Modules => {
            // Each occurrence replaces the previous one. The last one is used, but all must be valid.
            let mut last = Value::Null;
            for text in texts {
                last = single(syntax, text)?;
            }
            Ok(last)
        }
        Syntax::List => {
            let mut items = Vec::new();
            for text in texts {
                items.extend(comma_separated(text)?.into_iter().map(Value::String));
            }
            Ok(Value::Array(items))
        }
        Syntax::ReservedMemory => {
            let mut items = Vec::new();
            for text in texts {
                items.extend(reservations(text)?);
            }
            Ok(Value::Array(items))
        }
        Syntax::Pairs
        | Syntax::OnePair
        | Syntax::Thresholds
        | Syntax::Gates
        | Syntax::Headers
        | Syntax::Labels => {
            let mut map = Map::new();
            for text in texts {
                add_pairs(syntax, text, &mut map)?;
            }
            Ok(Value::Object(map))
        }
    }
}

fn single(syntax: Syntax, text: &str) -> Result<Value, String> {
    match syntax {
        Syntax::Bool => {
            parse_bool(text).map(Value::Bool).ok_or_else(|| "expected true or false".to_owned())
        }
        Syntax::Integer => integer(text).map(Value::from),
        Syntax::Number => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from)
            .ok_or_else(|| "expected a number".to_owned()),
        // Unlike others, this one is always decimal: 010 is ten.
        Syntax::Digits => Some(text)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse::<i32>().ok())
            .map(Value::from)
            .ok_or_else(|| "expected an integer".to_owned()),
        Syntax::Duration => text
            .parse::<GoDuration>()
            .map(|duration| Value::String(duration.to_string()))
            .map_err(|error| error.to_string()),
        Syntax::Version => match text {
            "raw" => Ok(text.into()),
            _ => single(Syntax::Bool, text),
        },
        Syntax::Taints => taints(text).map(Value::Array),
        Syntax::Modules => modules(text).map(Value::Array),
        _ => Ok(text.into()),
    }
}

/// The spellings of booleans on a command line.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A whole number of a flag, or an error text.
pub fn integer(text: &str) -> Result<i64, String> {
    parse_integer(text).ok_or_else(|| "expected an integer".to_owned())
}

/// A whole number; a prefix can select another base, and underscores may group the digits.
fn parse_integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let digits = digits.replace('_', "");
    i64::from_str_radix(&format!("{sign}{digits}"), base).ok()
}

/// One line of comma separated values; quotes keep a comma inside a value.
fn comma_separated(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut values = vec![String::new()];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let value = values.last_mut().expect("there is always a last value");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                value.push('"');
            }
            '"' if quoted || value.is_empty() => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            _ => value.push(c),
        }
    }
    if quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    Ok(values)
}

fn add_pairs(syntax: Syntax, text: &str, map: &mut Map<String, Value>) -> Result<(), String> {
    let separator = match syntax {
        Syntax::Thresholds => '<',
        Syntax::Headers => ':',
        _ => '=',
    };
    let whole = [text];
    let parts: Vec<&str> = match syntax {
        Syntax::OnePair => whole.to_vec(),
        _ => text.split(',').filter(|part| !part.is_empty()).collect(),
    };
    for part in parts {
        let (key, value) = match part.split_once(separator) {
            Some((key, value)) => (key.trim(), value.trim()),
            None if syntax == Syntax::Labels => (part.trim(), ""),
            None => return Err(format!("expected pairs of the form key{separator}value")),
        };
        match syntax {
            Syntax::Gates => {
                let value = parse_bool(value)
                    .ok_or_else(|| format!("the value of {key} must be true or false"))?;
                map.insert(key.to_owned(), value.into());
            }
            Syntax::Headers => {
                if let Value::Array(values) = map.entry(key).or_insert_with(|| json!([])) {
                    values.push(value.into());
                }
            }
            _ => {
                map.insert(key.to_owned(), value.into());
            }
        }
    }
    Ok(())
}

/// `node:type=amount[,type=amount...][;node:...]`
fn reservations(text: &str) -> Result<Vec<Value>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(';').map(reservation).collect()
}

fn reservation(text: &str) -> Result<Value, String> {
    let form = || "expected node:type=amount[,type=amount...]".to_owned();
    let (node, limits) = text.split_once(':').ok_or_else(form)?;
    let node: i32 = node.parse().map_err(|_| form())?;
    let mut map = Map::new();
    for limit in limits.split(',') {
        let (name, amount) = limit.split_once('=').ok_or_else(form)?;
        if name != "memory" && !name.starts_with("hugepages-") {
            return Err(format!("{name:?} is neither memory nor hugepages-<size>"));
        }
        let amount: Quantity = amount.parse().map_err(|error| format!("{error}"))?;
        map.insert(name.to_owned(), amount.to_string().into());
    }
    Ok(json!({ "numaNode": node, "limits": map }))
}

/// `key[=value]:Effect[,...]`
fn taints(text: &str) -> Result<Vec<Value>, String> {
    let mut taints = Vec::new();
    for spec in text.split(',').filter(|_| !text.is_empty()) {
        let form = || format!("{spec:?} is not of the form key=value:Effect");
        let (key, effect) = spec.split_once(':').ok_or_else(form)?;
        let (key, value) = key.split_once('=').unwrap_or((key, ""));
        if effect.contains(':') || value.contains('=') {
            return Err(form());
        }
        if let Some(problem) = qualified_name(key).into_iter().chain(label_value(value)).next() {
            return Err(format!("{spec:?}: {problem}"));
        }
        let taint = json!({ "key": key, "value": value, "effect": effect });
        let is_same = |other: &Value| other["key"] == key && other["effect"] == effect;
        if taints.iter().any(is_same) {
            return Err(format!("{key}:{effect} is given twice"));
        }
        taints.push(taint);
    }
    Ok(taints)
}

/// `pattern=N[,...]`
fn modules(text: &str) -> Result<Vec<Value>, String> {
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let form = || format!("{part:?} is not of the form pattern=number");
            let (pattern, verbosity) = part.split_once('=').ok_or_else(form)?;
            let verbosity: u32 = verbosity.parse().map_err(|_| form())?;
            if pattern.is_empty() {
                return Err(form());
            }
            Ok(json!({ "filePattern": pattern, "verbosity": verbosity }))
        })
        .collect()
}
