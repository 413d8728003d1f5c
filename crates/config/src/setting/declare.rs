//! The two macros that declare settings: closed lists of words, and structs.

/// Declares an enum whose variants are words of the configuration file.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident { $($(#[$doc:meta])* $Variant:ident = $word:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Enum { $($(#[$doc])* $Variant,)+ }

        impl $Enum {
            /// Every word, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$Variant,)+];

            /// The word in a file.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $Enum {
            type Err = crate::setting::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$Variant),)+
                    _ => Err(crate::setting::UnknownWord {
                        word: text.to_owned(),
                        accepted: &[$($word,)+],
                    }),
                }
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $Enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl crate::setting::Key for $Enum {
            fn from_key(text: &str) -> Result<Self, crate::setting::UnknownWord> {
                text.parse()
            }
        }

        impl crate::setting::Setting for $Enum {
            fn read(
                node: &serde_json::Value,
                at: &crate::finding::At<'_>,
                findings: &mut crate::finding::Findings,
            ) -> Option<Self> {
                crate::setting::word(node, at, findings)
            }
        }
    };
}
pub(crate) use words;

/// Declares a struct whose fields are settings.
///
/// Each line has the field in Rust and in the file and its default: `absent(default)` when
/// the field is missing, `unset(default)` when it is missing or zero. `filled(default)` is
/// like `absent`, but an empty value is not written, as in the kubelet: read again, it is
/// the default. Defaults that depend
/// on other fields are in [`crate::defaults`].
macro_rules! settings {
    (@zero unset) => { crate::setting::Zero::Unset };
    (@zero absent) => { crate::setting::Zero::Kept };
    (@zero filled) => { crate::setting::Zero::KeptUnwritten };
    (
        $(#[$meta:meta])*
        pub struct $Struct:ident {
            $($(#[$doc:meta])* $field:ident: $ty:ty = $name:literal, $zero:ident($default:expr);)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Struct { $($(#[$doc])* pub $field: $ty,)+ }

        impl Default for $Struct {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $Struct {
            #[doc(hidden)]
            /// The names of all fields in a file.
            pub const FIELDS: &'static [&'static str] = &[$($name,)+];

            #[doc(hidden)]
            /// The names of the same fields in Rust, in the same order.
            pub const MEMBERS: &'static [&'static str] = &[$(stringify!($field),)+];
        }

        impl crate::setting::Setting for $Struct {
            fn read(
                node: &serde_json::Value,
                at: &crate::finding::At<'_>,
                findings: &mut crate::finding::Findings,
            ) -> Option<Self> {
                let mut read = Self::default();
                for (name, node) in crate::setting::object(node, at, findings)? {
                    let at = at.field(name);
                    match name.as_str() {
                        $($name => {
                            if crate::setting::settings!(@zero $zero).is_set_by::<$ty>(node)
                                && let Some(value) = crate::setting::Setting::read(node, &at, findings)
                            {
                                read.$field = value;
                            }
                        })+
                        _ => findings.unknown(&at),
                    }
                }
                Some(read)
            }

            fn assign(
                &mut self,
                path: &[&str],
                node: &serde_json::Value,
                at: &crate::finding::At<'_>,
                findings: &mut crate::finding::Findings,
            ) {
                let Some((name, rest)) = path.split_first() else {
                    if let Some(value) = Self::read(node, at, findings) {
                        *self = value;
                    }
                    return;
                };
                let at = at.field(name);
                match *name {
                    $($name => {
                        crate::setting::Setting::assign(&mut self.$field, rest, node, &at, findings);
                    })+
                    _ => findings.unknown(&at),
                }
            }
        }

        impl serde::Serialize for $Struct {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $(if !crate::setting::settings!(@zero $zero).omits(&self.$field) {
                    map.serialize_entry($name, &self.$field)?;
                })+
                map.end()
            }
        }
    };
}
pub(crate) use settings;
