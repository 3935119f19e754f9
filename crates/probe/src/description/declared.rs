//! What a struct of parameters says of each in `#[parameter(…)]`: its kind, default and bounds, and where it has a
//! meaning.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::{Condition, Kind, Parameter};

/// A parameter of type `T`, without its name and documentation.
pub struct Declared<T> {
    kind: Kind,
    unit: Option<&'static str>,
    applies: Vec<Condition>,
    values: PhantomData<T>,
}

/// A whole number.
pub trait Whole {}
impl Whole for u32 {}
impl Whole for u64 {}
impl Whole for usize {}

/// What takes a path.
pub trait Text {}
impl Text for PathBuf {}
impl Text for String {}

/// One of the variants of `T`, by the names that serde has for them.
pub fn choice<T: DeserializeOwned>(default: &'static str) -> Declared<T> {
    one_of(default, variants::<T>())
}

/// One of these variants of `T`, where a workload has no use for the others.
pub fn among<T: DeserializeOwned>(default: &'static str, choices: &[&'static str]) -> Declared<T> {
    let all = variants::<T>();
    assert!(
        choices.iter().all(|choice| all.contains(choice)),
        "{choices:?} of {all:?}"
    );
    one_of(default, choices)
}

/// One of these words.
pub fn words(default: &'static str, words: &[&'static str]) -> Declared<String> {
    one_of(default, words)
}

fn one_of<T>(default: &'static str, choices: &[&'static str]) -> Declared<T> {
    Declared::of(Kind::Choice {
        default,
        choices: choices.to_vec(),
        pattern: None,
        numbers: Vec::new(),
    })
}

/// A whole number.
pub fn integer<T: Whole>(default: u64, bounds: RangeInclusive<u64>) -> Declared<T> {
    let (minimum, maximum) = bounds.into_inner();
    Declared::of(Kind::Integer {
        default,
        minimum,
        maximum,
    })
}

/// A number of bytes.
pub fn bytes<T: Whole>(default: u64, bounds: RangeInclusive<u64>) -> Declared<T> {
    let (minimum, maximum) = bounds.into_inner();
    Declared::of(Kind::Bytes {
        default,
        minimum,
        maximum,
    })
    .unit("B")
}

/// A length of time in seconds.
pub fn seconds(default: f64, bounds: RangeInclusive<f64>) -> Declared<f64> {
    let (minimum, maximum) = bounds.into_inner();
    Declared::of(Kind::Duration {
        default,
        minimum,
        maximum,
    })
    .unit("s")
}

/// Yes or no.
pub fn boolean(default: bool) -> Declared<bool> {
    Declared::of(Kind::Boolean { default })
}

/// A file or folder; the empty path means that none is given.
pub fn path<T: Text>(default: &'static str) -> Declared<T> {
    Declared::of(Kind::Path { default })
}

/// A list of texts, such as the arguments of a program.
pub fn arguments() -> Declared<Vec<String>> {
    Declared::of(Kind::Arguments)
}

impl Declared<String> {
    /// The same, or a word of this form, such as `nr:N`.
    pub fn or(mut self, form: &'static str) -> Self {
        if let Kind::Choice { pattern, .. } = &mut self.kind {
            *pattern = Some(form);
        }
        self
    }

    /// The same, where the `N` of that form is in one of these ranges, each from its first number to its last.
    pub fn within(mut self, ranges: Vec<(u32, u32)>) -> Self {
        if let Kind::Choice { numbers, .. } = &mut self.kind {
            *numbers = ranges;
        }
        self
    }
}

impl<T> Declared<T> {
    const fn of(kind: Kind) -> Self {
        Self {
            kind,
            unit: None,
            applies: Vec::new(),
            values: PhantomData,
        }
    }

    /// The same, counted in this unit.
    pub fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    /// The same, with a meaning only where another parameter is one of these.
    pub fn only_with<V: Copy + Into<Value>>(self, parameter: &'static str, levels: &[V]) -> Self {
        self.under(parameter, levels, true)
    }

    /// The same, with a meaning only where another parameter is none of these.
    pub fn never_with<V: Copy + Into<Value>>(self, parameter: &'static str, levels: &[V]) -> Self {
        self.under(parameter, levels, false)
    }

    fn under<V: Copy + Into<Value>>(
        mut self,
        parameter: &'static str,
        levels: &[V],
        within: bool,
    ) -> Self {
        self.applies.push(Condition {
            parameter,
            levels: levels.iter().map(|&level| level.into()).collect(),
            within,
        });
        self
    }

    /// The parameter of this name and documentation.
    pub fn named(self, name: &'static str, doc: &'static str) -> Parameter {
        Parameter {
            name,
            kind: self.kind,
            unit: self.unit,
            applies: self.applies,
            doc,
        }
    }
}

/// The names that serde has for the variants of an enumeration.
fn variants<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut found: &[_] = &[];
    // The error is the way out: there is no value to be had.
    let _ = T::deserialize(Asked { found: &mut found });
    assert!(
        !found.is_empty(),
        "{} has no variants",
        std::any::type_name::<T>()
    );
    found
}

/// A deserializer that notes which variants it is asked for.
struct Asked<'a> {
    found: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Nothing;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Nothing> {
        *self.found = variants;
        Err(Nothing)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Nothing> {
        Err(Nothing)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// There is no value.
#[derive(Debug)]
struct Nothing;

impl fmt::Display for Nothing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("there is no value")
    }
}

impl std::error::Error for Nothing {}

impl de::Error for Nothing {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}
