//! Structs that programs see as JSON, and what they look like: the schemas of `docs/api.openapi.json` and the types of the
//! page are made from that.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    id::{AgentId, StateName},
    machine::Tokens,
    money::Usd,
};

/// The shape of a value in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// Anything.
    Any,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// The struct with this name.
    Named(&'static str),
    /// That, or `null`.
    Optional(Box<Self>),
    /// A list.
    List(Box<Self>),
    /// An object with any names.
    Map(Box<Self>),
}

/// A type that programs see.
pub trait Shaped {
    /// What it looks like.
    fn shape() -> Shape;
}

/// A struct that programs see.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// The struct whose fields it has, too.
    pub base: Option<&'static str>,
    /// Name, shape and meaning.
    pub fields: Vec<(&'static str, Shape, &'static str)>,
}

macro_rules! shaped {
    ($($shape:ident: $($type:ty),+;)+) => {
        $($(impl Shaped for $type {
            fn shape() -> Shape {
                Shape::$shape
            }
        })+)+
    };
}

shaped! {
    Text: String, &'static str, AgentId, StateName;
    Integer: u32, u64, usize;
    Number: Usd;
    Flag: bool;
    Any: Value;
}

impl Shaped for Tokens {
    fn shape() -> Shape {
        Shape::Named("Tokens")
    }
}

impl<T: Shaped> Shaped for Option<T> {
    fn shape() -> Shape {
        Shape::Optional(Box::new(T::shape()))
    }
}

impl<T: Shaped> Shaped for Vec<T> {
    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }
}

impl<T: Shaped> Shaped for BTreeMap<String, T> {
    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }
}

/// Defines structs that programs see, and `described`, which lists them. The fields after `added:` are added by what
/// shows them, those after `hidden:` are not shown.
#[macro_export]
macro_rules! shown {
    ($(
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        struct $name:ident $(as $shown:literal)? $(: $base:ident)? {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty,)+
            $(added: $($(#[doc = $added_doc:literal])+ $added:ident: $added_type:ty,)+)?
            $(hidden: $($(#[doc = $hidden_doc:literal])+ $hidden:ident: $hidden_type:ty,)+)?
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq, serde::Serialize $($(, $derive)+)?)]
            #[allow(clippy::struct_field_names, reason = "programs have known these names for long")]
            pub struct $name {
                $(
                    /// What it has in common with others.
                    #[serde(flatten)]
                    pub base: $base,
                )?
                $($(#[doc = $doc])+ pub $field: $type,)+
                $($($(#[doc = $hidden_doc])+ #[serde(skip)] pub $hidden: $hidden_type,)+)?
            }

            impl $crate::view::Shaped for $name {
                fn shape() -> $crate::view::Shape {
                    $crate::view::Shape::Named([$($shown,)? stringify!($name)][0])
                }
            }
        )+

        /// All structs that are defined here.
        pub fn described() -> Vec<$crate::view::Described> {
            use $crate::view::Shaped as _;
            vec![$($crate::view::Described {
                name: [$($shown,)? stringify!($name)][0],
                about: concat!($($about),+),
                base: None$(.or(Some(stringify!($base))))?,
                fields: vec![
                    $((stringify!($field), <$type>::shape(), concat!($($doc),+)),)+
                    $($((stringify!($added), <$added_type>::shape(), concat!($($added_doc),+)),)+)?
                ],
            }),+]
        }
    };
}
