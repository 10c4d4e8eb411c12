//! JSON as YAML, for people who read long documents. Every text that could be taken for something else is quoted, also by
//! the rules of YAML 1.1, which many readers still follow: there `no` is false, and `1e3` a text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How deep blocks are nested. What lies deeper stays JSON, which YAML contains: no reader follows indentation so far, and
/// payloads may be nested deeper than a stack.
const DEPTH_MAX: usize = 64;

/// Spaces for each level.
const INDENT: usize = 2;

/// Words that are no texts without quotes, in any case.
const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan"];

/// A document, from JSON that is valid.
pub(super) fn document(json: &str) -> serde_json::Result<String> {
    let mut text = String::new();
    match Node::parse(serde_json::from_str(json)?, 0)? {
        Node::Scalar(scalar) => text.push_str(&scalar),
        block => block.write(&mut text, 0),
    }
    text.push('\n');
    Ok(text)
}

/// One element of a list at the top, from JSON that is valid.
pub(super) fn element(json: &str) -> serde_json::Result<String> {
    document(&format!("[{json}]"))
}

/// A value, with the order of fields and the digits of numbers as they were.
enum Node {
    /// On one line.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// The fields of an object, each once, in their order: YAML forbids repeats, and readers of JSON take the last of them.
struct Fields<'j>(Vec<(String, &'j RawValue)>);

impl<'j> Deserialize<'j> for Fields<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'j> Visitor<'j> for Reader {
            type Value = Fields<'j>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Fields<'j>, A::Error> {
                let (mut fields, mut places) = (Vec::new(), BTreeMap::new());
                while let Some((key, value)) = map.next_entry::<String, &'j RawValue>()? {
                    let place = *places.entry(key.clone()).or_insert(fields.len());
                    match fields.get_mut(place) {
                        None => fields.push((key, value)),
                        Some((_, earlier)) => *earlier = value,
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Node {
    fn parse(raw: &RawValue, depth: usize) -> serde_json::Result<Self> {
        let json = raw.get();
        Ok(match json.as_bytes().first() {
            Some(b'{' | b'[') if depth == DEPTH_MAX => Self::Scalar(json.to_owned()),
            Some(b'{') => {
                let Fields(fields) = serde_json::from_str(json)?;
                let node =
                    |(key, value): (String, &RawValue)| Ok((scalar(&key), Self::parse(value, depth + 1)?));
                Self::Map(fields.into_iter().map(node).collect::<serde_json::Result<_>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(json)?;
                let node = |item| Self::parse(item, depth + 1);
                Self::List(items.into_iter().map(node).collect::<serde_json::Result<_>>()?)
            }
            Some(b'"') => Self::Scalar(scalar(&serde_json::from_str::<String>(json)?)),
            Some(b'-' | b'0'..=b'9') => Self::Scalar(number(json)),
            _ => Self::Scalar(json.to_owned()),
        })
    }

    /// Writes a block whose lines begin with so many spaces; the first line is begun already, the last is not ended.
    fn write(&self, text: &mut String, indent: usize) {
        let next = |text: &mut String, first: bool| {
            if !first {
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', indent));
            }
        };
        match self {
            Self::Scalar(scalar) => text.push_str(scalar),
            Self::List(items) if items.is_empty() => text.push_str("[]"),
            Self::Map(fields) if fields.is_empty() => text.push_str("{}"),
            Self::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    next(text, index == 0);
                    // As long as the indentation, so that what follows on this line is in the right column.
                    text.push_str("- ");
                    item.write(text, indent + INDENT);
                }
            }
            Self::Map(fields) => {
                for (index, (key, value)) in fields.iter().enumerate() {
                    next(text, index == 0);
                    text.push_str(key);
                    text.push(':');
                    if value.is_block() {
                        text.push('\n');
                        text.extend(std::iter::repeat_n(' ', indent + INDENT));
                    } else {
                        text.push(' ');
                    }
                    value.write(text, indent + INDENT);
                }
            }
        }
    }

    fn is_block(&self) -> bool {
        match self {
            Self::Scalar(_) => false,
            Self::List(items) => !items.is_empty(),
            Self::Map(fields) => !fields.is_empty(),
        }
    }
}

/// A number of JSON; one with an exponent gets the point and the sign without which YAML 1.1 takes it for a text.
fn number(json: &str) -> String {
    let Some((digits, exponent)) = json.split_once(['e', 'E']) else { return json.to_owned() };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// A text: as it is if it can be nothing else, and in double quotes, with all that is special written out, if it might.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            // Line breaks of YAML 1.1, the mark of byte order, and what no document may contain.
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            control if control.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Letters first, nothing that means something anywhere, and no word that is a value: numbers, dates, blanks at the ends and
/// signs of the language are all left out.
fn is_plain(text: &str) -> bool {
    let letter = |character: char| character.is_ascii_alphabetic();
    let inside = |character: char| character.is_ascii_alphanumeric() || " _-./".contains(character);
    text.starts_with(letter)
        && !text.ends_with(' ')
        && text.chars().all(inside)
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_never_taken_for_something_else() {
        let plain = ["order-7", "a", "Hello world", "a.b/c_d", "e5", "truest", "inf"];
        for text in plain {
            assert_eq!(scalar(text), text);
        }
        let quoted = [
            "",
            " ",
            "1",
            "-1",
            "+1",
            "1.5",
            ".5",
            "1e3",
            "0x1f",
            "0o7",
            "1_000",
            "12:30:45",
            ".inf",
            ".NaN",
            "true",
            "True",
            "FALSE",
            "yes",
            "No",
            "on",
            "Off",
            "y",
            "N",
            "null",
            "Null",
            "~",
            "2026-12-24",
            "2026-12-24T18:00:00Z",
            " a",
            "a ",
            "a: b",
            "a:",
            "a #b",
            "#a",
            "- a",
            "-",
            "? a",
            "[a",
            "{a",
            "]",
            "}",
            "a, b",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'a'",
            "---",
            "...",
            "=",
            "<<",
            "ä",
        ];
        for text in quoted {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
    }

    #[test]
    fn what_is_special_is_written_out() {
        let cases = [
            ("two\nlines\n", r#""two\nlines\n""#),
            ("\ttab\r", r#""\ttab\r""#),
            ("say \"no\" \\ yes", r#""say \"no\" \\ yes""#),
            ("\0\u{1b}\u{7f}\u{85}", r#""\x00\x1b\x7f\x85""#),
            ("\u{2028}\u{feff}\u{ffff}", r#""\u2028\ufeff\uffff""#),
            ("schön 😀", "\"schön 😀\""),
        ];
        for (text, written) in cases {
            assert_eq!(scalar(text), written);
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let cases = [
            ("0", "0"),
            ("-1.50", "-1.50"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1e3", "1.0e+3"),
            ("1.5E-3", "1.5e-3"),
            ("-2E+7", "-2.0e+7"),
        ];
        for (json, written) in cases {
            assert_eq!(document(json).unwrap(), format!("{written}\n"));
        }
    }

    #[test]
    fn documents_are_blocks() {
        let json = r#"{"dauer":1,"id":"7","none":null,"tags":{"zone":"north","no":true},"empty":{},"list":[],
            "open":[{"kind":"timer","due":"2026-12-24T18:00:00Z"},[1,[2,"3"],[]],{},"x"],"a b":{"c":{"d":[true]}},"":0}"#;
        let expected = "\
dauer: 1
id: \"7\"
none: null
tags:
  zone: north
  \"no\": true
empty: {}
list: []
open:
  - kind: timer
    due: \"2026-12-24T18:00:00Z\"
  - - 1
    - - 2
      - \"3\"
    - []
  - {}
  - x
a b:
  c:
    d:
      - true
\"\": 0
";
        assert_eq!(document(json).unwrap(), expected);
        assert_eq!(element(r#"{"a":1,"b":[2]}"#).unwrap(), "- a: 1\n  b:\n    - 2\n");
        assert_eq!(document(r#""no""#).unwrap(), "\"no\"\n");
        assert_eq!(document("[]").unwrap(), "[]\n");
    }

    #[test]
    fn a_field_that_is_repeated_is_the_last_of_them() {
        assert_eq!(document(r#"{"a":1,"b":2,"a":3}"#).unwrap(), "a: 3\nb: 2\n");
    }

    #[test]
    fn what_is_nested_without_end_stays_json() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = document(&deep).unwrap();
        assert!(text.starts_with(&"- ".repeat(DEPTH_MAX)) && text.contains("- [[["), "{}", &text[..200]);
    }
}
