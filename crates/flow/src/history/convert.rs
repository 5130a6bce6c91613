//! Conversion, field by field, between a type on disk and the type in memory that it stands for.

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, AskId, RunId, SessionId, StateName, StepId},
    machine::{Message, Tokens, UsageWindow},
    money::Usd,
    payload::Payload,
    source::Timeout,
    tag::TagKind,
};

/// Turns a value on disk into one in memory, or back. Unlike [`From`], it can reach into an
/// `Option`, a `Vec` and a `Box`.
pub(crate) trait Convert<T> {
    /// The same value as a `T`.
    fn convert(self) -> T;
}

/// Declares types on disk and their conversion to and from the types of the same name in memory.
/// All fields and variants are named on both sides, so that one that either side gains or loses does
/// not compile until it is decided what it means on disk.
macro_rules! mirror {
    () => {};
    (
        $(#[$attribute:meta])* struct $module:ident::$name:ident {
            $($(#[$field_attribute:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(clippy::struct_field_names, reason = "the names are those on disk")]
        $(#[$attribute])*
        pub(crate) struct $name {
            $($(#[$field_attribute])* $field: $type),*
        }
        impl Convert<$name> for $module::$name {
            fn convert(self) -> $name {
                let Self { $($field),* } = self;
                $name { $($field: $field.convert()),* }
            }
        }
        impl Convert<$module::$name> for $name {
            fn convert(self) -> $module::$name {
                let Self { $($field),* } = self;
                $module::$name { $($field: $field.convert()),* }
            }
        }
        mirror! { $($rest)* }
    };
    (
        $(#[$attribute:meta])* enum $module:ident::$name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident
                $({ $($(#[$field_attribute:meta])* $field:ident: $type:ty),* $(,)? })?
                $(($inner:ty))?
            ),* $(,)?
        }
        $($rest:tt)*
    ) => {
        #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
        $(#[$attribute])*
        pub(crate) enum $name {
            $($(#[$variant_attribute])* $variant
                $({ $($(#[$field_attribute])* $field: $type),* })?
                $(($inner))?
            ),*
        }
        impl Convert<$name> for $module::$name {
            fn convert(self) -> $name {
                match self {
                    $(Self::$variant $({ $($field),* })? $((mirror!(@name $inner, it)))? => {
                        $name::$variant
                            $({ $($field: $field.convert()),* })?
                            $((mirror!(@name $inner, it).convert()))?
                    })*
                }
            }
        }
        impl Convert<$module::$name> for $name {
            fn convert(self) -> $module::$name {
                match self {
                    $(Self::$variant $({ $($field),* })? $((mirror!(@name $inner, it)))? => {
                        $module::$name::$variant
                            $({ $($field: $field.convert()),* })?
                            $((mirror!(@name $inner, it).convert()))?
                    })*
                }
            }
        }
        mirror! { $($rest)* }
    };
    // The content of a tuple variant has no name of its own.
    (@name $type:ty, $name:ident) => { $name };
}
pub(super) use mirror;

/// Types that are the same on disk and in memory.
macro_rules! same {
    ($($type:ty),* $(,)?) => {
        $(impl Convert<$type> for $type {
            fn convert(self) -> $type {
                self
            }
        })*
    };
}

same! {
    bool, u32, u64, usize, String,
    AgentId, AskId, RunId, SessionId, StateName, StepId, TagKind, Timeout, Tokens, Usd,
    Message, Payload, UsageWindow,
    BTreeMap<String, String>, BTreeMap<String, Payload>, BTreeMap<SessionId, SessionId>, (SessionId, String),
}

impl<X: Convert<Y>, Y> Convert<Option<Y>> for Option<X> {
    fn convert(self) -> Option<Y> {
        self.map(Convert::convert)
    }
}

impl<X: Convert<Y>, Y> Convert<Vec<Y>> for Vec<X> {
    fn convert(self) -> Vec<Y> {
        self.into_iter().map(Convert::convert).collect()
    }
}

impl<X: Convert<Y>, Y> Convert<Box<Y>> for Box<X> {
    fn convert(self) -> Box<Y> {
        Box::new((*self).convert())
    }
}
