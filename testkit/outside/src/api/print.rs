//! An item and what it can do, line by line.

use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, Visibility};

use super::Export;
use super::text::line;
use super::tree::{Tree, is_hidden};

/// An item that is written under the name `defined` and exported as `name`.
pub(super) fn export(tree: &Tree, item: &Item, name: &str, defined: &str) -> Export {
    let (kind, attributes, mut lines) = declaration(item);
    let open_fields = lines.iter().any(|line| line.starts_with("    pub "));
    let non_exhaustive = attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
    let mut about: Vec<_> = attributes.iter().filter_map(shown).collect();
    about.append(&mut lines);
    let mut impls: Vec<_> = tree.items().filter_map(|item| implementation(item, defined)).flatten().collect();
    impls.sort();
    about.extend(impls);
    if name != defined {
        about.insert(0, format!("// written as {defined}"));
    }
    Export { kind, non_exhaustive, open_fields, lines: about }
}

/// Attributes that users notice. `must_use` and `doc` texts are no part of the contract; that there is one is.
fn shown(attribute: &Attribute) -> Option<String> {
    let path = attribute.path();
    if path.is_ident("must_use") {
        return Some("#[must_use]".to_owned());
    }
    if path.is_ident("cfg") || path.is_ident("derive") || path.is_ident("non_exhaustive") {
        let meta = &attribute.meta;
        return Some(format!("#[{}]", line(meta)));
    }
    None
}

fn declaration(item: &Item) -> (&'static str, &[Attribute], Vec<String>) {
    match item {
        Item::Struct(item) => {
            let (name, generics, bounds) = (&item.ident, &item.generics, &item.generics.where_clause);
            let mut lines = vec![line(quote!(pub struct #name #generics #bounds))];
            lines.extend(fields(&item.fields, true));
            ("struct", &item.attrs, lines)
        }
        Item::Enum(item) => {
            let (name, generics) = (&item.ident, &item.generics);
            let mut lines = vec![line(quote!(pub enum #name #generics))];
            for variant in &item.variants {
                let marks = variant.attrs.iter().filter_map(shown).map(|mark| format!("    {mark}"));
                lines.extend(marks);
                let (name, discriminant) =
                    (&variant.ident, variant.discriminant.as_ref().map(|(_, value)| value));
                let value = discriminant.map(|value| format!(" = {}", line(value))).unwrap_or_default();
                lines.push(format!("    {}{value}", line(quote!(#name))));
                lines.extend(fields(&variant.fields, false).into_iter().map(|field| format!("    {field}")));
            }
            ("enum", &item.attrs, lines)
        }
        Item::Trait(item) => {
            let (name, generics, above) = (&item.ident, &item.generics, &item.supertraits);
            let bounds = &item.generics.where_clause;
            let mut lines = vec![line(quote!(pub trait #name #generics : #above #bounds))];
            lines.extend(item.items.iter().filter_map(trait_item));
            ("trait", &item.attrs, lines)
        }
        Item::Fn(item) => ("fn", &item.attrs, vec![format!("pub {}", line(&item.sig))]),
        Item::Type(item) => {
            let (name, generics, stands_for) = (&item.ident, &item.generics, &item.ty);
            ("type", &item.attrs, vec![line(quote!(pub type #name #generics = #stands_for))])
        }
        Item::Const(item) => {
            let (name, of) = (&item.ident, &item.ty);
            ("const", &item.attrs, vec![line(quote!(pub const #name : #of))])
        }
        // `resolve` finds no others.
        other => ("other", &[], vec![line(other)]),
    }
}

/// Fields that can be seen: the public ones of a struct, all of an enum's variant.
fn fields(fields: &Fields, only_public: bool) -> Vec<String> {
    let seen = |field: &&syn::Field| !only_public || matches!(field.vis, Visibility::Public(_));
    let text = |(number, field): (usize, &syn::Field)| {
        let name = field.ident.as_ref().map_or_else(|| number.to_string(), ToString::to_string);
        let public = if only_public { "pub " } else { "" };
        format!("    {public}{name}: {}", line(&field.ty))
    };
    fields.iter().enumerate().filter(|(_, field)| seen(field)).map(text).collect()
}

fn trait_item(item: &TraitItem) -> Option<String> {
    match item {
        TraitItem::Fn(item) if !is_hidden(&item.attrs) => Some(format!("    {}", line(&item.sig))),
        TraitItem::Type(item) => Some(format!("    {}", line(item))),
        TraitItem::Const(item) => Some(format!("    {}", line(item))),
        _ => None,
    }
}

/// The lines of an impl block of that type: its public functions, or the trait.
fn implementation(item: &Item, name: &str) -> Option<Vec<String>> {
    let Item::Impl(block) = item else { return None };
    if !is_about(&block.self_ty, name) || block.attrs.iter().any(is_test) {
        return None;
    }
    let head = head(block);
    if block.trait_.is_some() {
        return Some(vec![head]);
    }
    Some(block.items.iter().filter_map(inherent).map(|text| format!("{head}: {text}")).collect())
}

fn inherent(item: &ImplItem) -> Option<String> {
    match item {
        ImplItem::Fn(item) if public(&item.vis) && !is_hidden(&item.attrs) => {
            let marks: String = item.attrs.iter().filter_map(shown).map(|mark| format!("{mark} ")).collect();
            // That a function changes its own copy of `self` is nobody's business.
            Some(format!("{marks}pub {}", line(&item.sig).replace("(mut self", "(self")))
        }
        ImplItem::Const(item) if public(&item.vis) => {
            let (name, of) = (&item.ident, &item.ty);
            Some(line(quote!(pub const #name : #of)))
        }
        _ => None,
    }
}

fn public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.meta.to_token_stream().to_string().contains("test")
}

fn head(block: &ItemImpl) -> String {
    let (generics, of, bounds) = (&block.generics, &block.self_ty, &block.generics.where_clause);
    match &block.trait_ {
        Some((not, path, _)) => line(quote!(impl #generics #not #path for #of #bounds)),
        None => line(quote!(impl #generics #of #bounds)),
    }
}

fn is_about(of: &Type, name: &str) -> bool {
    match of {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        Type::Reference(reference) => is_about(&reference.elem, name),
        _ => false,
    }
}
