//! Checking a request's parameters against a workload's description.

use serde_json::{Map, Value};

use crate::description::{Kind, Parameter};
use crate::names;
use oscope_sys::error::Failure;

/// The parameters as the workload takes them: every value checked, every default filled in.
///
/// # Errors
/// `Failure::Request` that names the parameter, and says what would be right.
pub fn complete(
    given: &Map<String, Value>,
    parameters: &[Parameter],
) -> Result<Map<String, Value>, Failure> {
    for name in given.keys() {
        if !parameters.iter().any(|parameter| parameter.name == name) {
            let known = parameters.iter().map(|parameter| parameter.name);
            return Err(Failure::request(
                name,
                names::unknown("parameter", name, known),
            ));
        }
    }
    parameters
        .iter()
        .map(|parameter| {
            let value = match given.get(parameter.name) {
                Some(value) => {
                    check(parameter, value)?;
                    value.clone()
                }
                None => parameter.kind.default(),
            };
            Ok((parameter.name.to_owned(), value))
        })
        .collect()
}

/// Check one value; the error says what would be right.
fn check(parameter: &Parameter, value: &Value) -> Result<(), Failure> {
    let must_be = |expected: &str| {
        let message = format!("must be {expected}, not {value}");
        Err(Failure::request(parameter.name, message))
    };
    match &parameter.kind {
        Kind::Choice {
            choices, pattern, ..
        } => match value.as_str() {
            Some(word)
                if choices.contains(&word)
                    || pattern.is_some_and(|pattern| fits(pattern, word)) =>
            {
                Ok(())
            }
            _ => must_be(&format!("one of {}", listed(choices, *pattern))),
        },
        Kind::Integer {
            minimum, maximum, ..
        } if !is_whole(*minimum, *maximum, value) => {
            must_be(&format!("a whole number from {minimum} to {maximum}"))
        }
        Kind::Bytes {
            minimum, maximum, ..
        } if !is_whole(*minimum, *maximum, value) => must_be(&format!(
            "a whole number of bytes from {minimum} to {maximum}"
        )),
        Kind::Duration {
            minimum, maximum, ..
        } if !value
            .as_f64()
            .is_some_and(|seconds| (*minimum..=*maximum).contains(&seconds)) =>
        {
            must_be(&format!("a number of seconds from {minimum} to {maximum}"))
        }
        Kind::Boolean { .. } if !value.is_boolean() => must_be("true or false"),
        Kind::Path { .. } if !is_text(value) => must_be("a path without a NUL in it"),
        Kind::Arguments
            if !value
                .as_array()
                .is_some_and(|items| items.iter().all(is_text)) =>
        {
            must_be("a list of texts without a NUL in them")
        }
        _ => Ok(()),
    }
}

fn is_whole(minimum: u64, maximum: u64, value: &Value) -> bool {
    value
        .as_u64()
        .is_some_and(|number| (minimum..=maximum).contains(&number))
}

/// Whether the kernel takes it as a path (path_resolution(7)) or an argument (execve(2)), which a NUL ends.
fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.contains('\0'))
}

fn listed(choices: &[&str], pattern: Option<&str>) -> String {
    let mut all = choices.to_vec();
    all.extend(pattern);
    all.join(", ")
}

/// Whether `word` is what `pattern` says: a word, a colon and, for `N`, a number.
fn fits(pattern: &str, word: &str) -> bool {
    let Some(prefix) = pattern.strip_suffix('N') else {
        return false;
    };
    word.strip_prefix(prefix).is_some_and(|digits| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u32>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parameters() -> Vec<Parameter> {
        let parameter = |name, kind| Parameter {
            name,
            kind,
            unit: None,
            applies: Vec::new(),
            doc: "",
        };
        vec![
            parameter(
                "call",
                Kind::Choice {
                    default: "getpid",
                    choices: vec!["getpid", "read"],
                    pattern: Some("nr:N"),
                    numbers: Vec::new(),
                },
            ),
            parameter(
                "work",
                Kind::Integer {
                    default: 0,
                    minimum: 0,
                    maximum: 9,
                },
            ),
            parameter(
                "resident",
                Kind::Bytes {
                    default: 0,
                    minimum: 0,
                    maximum: 4096,
                },
            ),
            parameter(
                "duration",
                Kind::Duration {
                    default: 10.0,
                    minimum: 0.01,
                    maximum: 3600.0,
                },
            ),
            parameter("populate", Kind::Boolean { default: false }),
            parameter("file", Kind::Path { default: "" }),
            parameter("arguments", Kind::Arguments),
        ]
    }

    fn complete_with(name: &str, value: Value) -> Result<Map<String, Value>, Failure> {
        let given = [(name.to_owned(), value)].into_iter().collect();
        complete(&given, &parameters())
    }

    #[test]
    fn defaults_fill_what_is_not_given() {
        let all = complete(&Map::new(), &parameters()).unwrap();
        assert_eq!(
            Value::Object(all),
            json!({"call": "getpid", "work": 0, "resident": 0, "duration": 10.0, "populate": false,
                   "file": "", "arguments": []})
        );
    }

    #[test]
    fn values_at_the_bounds_are_taken() {
        for (name, value) in [
            ("call", json!("read")),
            ("call", json!("nr:39")),
            ("work", json!(9)),
            ("resident", json!(4096)),
            ("duration", json!(0.01)),
            ("duration", json!(3600)),
            ("populate", json!(true)),
            ("file", json!("")),
            ("file", json!("/a folder/ä\n")),
            ("arguments", json!([])),
            ("arguments", json!(["-c", "", "a b'\"$x\n"])),
        ] {
            let all = complete_with(name, value.clone()).unwrap();
            assert_eq!(all[name], value);
        }
    }

    #[test]
    fn wrong_values_name_the_parameter() {
        for (name, value) in [
            ("call", json!("reed")),
            ("call", json!("nr:")),
            ("call", json!("nr:-1")),
            ("call", json!("nr:+1")),
            ("call", json!("nr:99999999999")),
            ("call", json!(1)),
            ("work", json!(10)),
            ("work", json!(-1)),
            ("work", json!(1.5)),
            ("work", json!("1")),
            ("resident", json!(4097)),
            ("duration", json!(0.0)),
            ("duration", json!("10s")),
            ("duration", Value::Null),
            ("populate", json!("true")),
            ("populate", json!(1)),
            ("file", json!("/a\0b")),
            ("file", json!(1)),
            ("file", Value::Null),
            ("arguments", json!("ls -l")),
            ("arguments", json!(["a\0b"])),
            ("arguments", json!([1])),
        ] {
            match complete_with(name, value.clone()) {
                Err(Failure::Request { field, message, .. }) => {
                    assert_eq!(field, name);
                    assert!(message.contains("not "), "{message}");
                }
                other => panic!("{name}={value}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_unknown_choice_lists_the_choices_and_an_unknown_name_the_nearest() {
        let choice = complete_with("call", json!("open"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            choice,
            "call: must be one of getpid, read, nr:N, not \"open\""
        );
        let name = complete_with("cal", json!("read")).unwrap_err().to_string();
        assert!(name.contains("did you mean \"call\"?"), "{name}");
    }
}
