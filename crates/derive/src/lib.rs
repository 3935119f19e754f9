//! `#[derive(Describe)]`: a workload's parameters, declared once, in the struct that takes them.
//!
//! Of each field the name (or that of `#[serde(rename)]`), the type and the documentation become the parameter's;
//! `#[parameter(…)]` has what they do not say: a call of one of the functions in `crate::description::declared`, such
//! as `bytes(4096, 1..=1 << 30).only_with("file", &[""])`. A field with `#[serde(flatten)]` stands for the parameters
//! of its type.

use proc_macro::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Lit, LitStr, Meta, Result};

/// Implements `crate::description::Describe` for a struct of parameters.
#[proc_macro_derive(Describe, attributes(parameter))]
pub fn describe(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implementation(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn implementation(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "only a struct has parameters"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.span(), "parameters have names"));
    };
    let parts = fields
        .named
        .iter()
        .map(described)
        .collect::<Result<Vec<_>>>()?;
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

/// The statement that adds a field's parameters.
fn described(field: &Field) -> Result<proc_macro2::TokenStream> {
    let kind = &field.ty;
    let serde = Serde::of(&field.attrs)?;
    if serde.flattened {
        return Ok(quote! { all.extend(<#kind as crate::description::Describe>::parameters()); });
    }
    let Some(declaration) = field
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("parameter"))
    else {
        return Err(Error::new(field.span(), "#[parameter(…)] is missing"));
    };
    let declaration: Expr = declaration.parse_args()?;
    let name = match (serde.name, &field.ident) {
        (Some(name), _) => name,
        (None, Some(name)) => LitStr::new(&name.to_string(), name.span()),
        (None, None) => return Err(Error::new(field.span(), "parameters have names")),
    };
    let doc = documentation(&field.attrs);
    Ok(quote! { all.push(Declared::<#kind>::named(#declaration, #name, #doc)); })
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
