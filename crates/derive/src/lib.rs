//! `#[derive(Describe)]`: a workload's parameters, declared once, in the struct that takes them; `#[derive(Metrics)]`:
//! its metrics, in the struct that has a repetition's values.
//!
//! Of each field the name (or that of `#[serde(rename)]`), the type and the documentation become the parameter's;
//! `#[parameter(…)]` has what they do not say: a call of one of the functions in `crate::description::declared`, such
//! as `bytes(4096, 1..=1 << 30).only_with("file", &[""])`. A field with `#[serde(flatten)]` stands for the parameters
//! of its type.
//!
//! Of each field of a struct of values, an `f64` or an `Option<f64>`, the name becomes the metric's. `#[metric(…)]`
//! has the rest: a call of a function of `crate::description::Metric` without its first argument, the name, such as
//! `rate("MiB/s", "bytes read").note("As the tool reports it.")`.

use proc_macro::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Expr, Field, Fields, Ident, Lit, LitStr, Meta,
    Result,
};

/// Implements `crate::description::Describe` for a struct of parameters.
#[proc_macro_derive(Describe, attributes(parameter))]
pub fn describe(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implementation(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn implementation(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let parts = fields(input)?.map(described).collect::<Result<Vec<_>>>()?;
    let name = &input.ident;
    Ok(quote! {
        impl crate::description::Describe for #name {
            fn parameters() -> Vec<crate::description::Parameter> {
                #[allow(unused_imports, reason = "a struct may have flattened fields alone")]
                use crate::description::declared::*;
                let mut all = Vec::new();
                #(#parts)*
                all
            }
        }
    })
}

/// The fields of a struct.
fn fields(input: &DeriveInput) -> Result<impl Iterator<Item = &Field>> {
    match &input.data {
        Data::Struct(DataStruct {
            fields: Fields::Named(fields),
            ..
        }) => Ok(fields.named.iter()),
        _ => Err(Error::new(
            input.span(),
            "a struct with named fields is described",
        )),
    }
}

/// The field's attribute of this name.
fn attribute<'a>(field: &'a Field, name: &str) -> Result<&'a Attribute> {
    let found = field
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident(name));
    found.ok_or_else(|| Error::new(field.span(), format!("#[{name}(…)] is missing")))
}

/// The field's name, also as a text.
fn named(field: &Field) -> Result<(&Ident, LitStr)> {
    let ident = field.ident.as_ref();
    let ident = ident.ok_or_else(|| Error::new(field.span(), "a described field has a name"))?;
    Ok((ident, LitStr::new(&ident.to_string(), ident.span())))
}

/// The statement that adds a field's parameters.
fn described(field: &Field) -> Result<proc_macro2::TokenStream> {
    let kind = &field.ty;
    let serde = Serde::of(&field.attrs)?;
    if serde.flattened {
        return Ok(quote! { all.extend(<#kind as crate::description::Describe>::parameters()); });
    }
    let declaration: Expr = attribute(field, "parameter")?.parse_args()?;
    let name = match serde.name {
        Some(name) => name,
        None => named(field)?.1,
    };
    let doc = documentation(&field.attrs);
    Ok(quote! { all.push(Declared::<#kind>::named(#declaration, #name, #doc)); })
}

/// Implements `crate::description::Metrics` for a struct of values.
#[proc_macro_derive(Metrics, attributes(metric))]
pub fn metrics(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    metrics_of(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn metrics_of(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let (mut described, mut values) = (Vec::new(), Vec::new());
    for field in fields(input)? {
        let declaration: Expr = attribute(field, "metric")?.parse_args()?;
        let (ident, name) = named(field)?;
        described.push(metric(declaration, &name)?);
        values.push(quote! { (#name, Option::<f64>::from(self.#ident)) });
    }
    let name = &input.ident;
    Ok(quote! {
        impl crate::description::Metrics for #name {
            fn described() -> Vec<crate::description::Metric> {
                vec![#(#described),*]
            }

            fn values(&self) -> Vec<(&'static str, f64)> {
                let all = [#(#values),*];
                all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
            }
        }
    })
}

/// A metric's declaration with its name as the first argument of the innermost call.
fn metric(declaration: Expr, name: &LitStr) -> Result<proc_macro2::TokenStream> {
    match declaration {
        Expr::Call(call) => {
            let (function, arguments) = (call.func, call.args);
            Ok(quote! { crate::description::Metric::#function(#name, #arguments) })
        }
        Expr::MethodCall(call) => {
            let receiver = metric(*call.receiver, name)?;
            let (method, arguments) = (call.method, call.args);
            Ok(quote! { #receiver.#method(#arguments) })
        }
        other => Err(Error::new(
            other.span(),
            "a function of Metric is called here",
        )),
    }
}

/// What serde is asked for a field.
#[derive(Default)]
struct Serde {
    flattened: bool,
    name: Option<LitStr>,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        for attribute in attributes {
            if !attribute.path().is_ident("serde") {
                continue;
            }
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("flatten") {
                    found.flattened = true;
                } else if meta.path.is_ident("rename") {
                    found.name = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("the description does not follow this attribute"));
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// The lines of a documentation comment as one.
fn documentation(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = attributes.iter().filter_map(line).collect();
    lines.join(" ")
}
