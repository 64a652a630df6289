//! What a setting is as a row of a table: its name, who may set it, its line of help, how it is shown and read. The
//! tables are `keys` and those of the extras.

use super::Settings;

/// One setting: its name, who may set it, its line of help, and how it is read and shown. A row of a table.
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Policy: only the system's file may set it.
    pub policy: bool,
    /// One line of help.
    pub help: &'static str,
    /// The value in force, as it would be written in the file.
    pub show: fn(&Settings) -> String,
    /// Puts a value in force, given as one text or a list of texts; else what is wrong
    /// with it.
    pub put: fn(&mut Settings, &[String]) -> Result<(), String>,
}

/// Makes a table of settings: for each whether it is policy or a preference, its name, its line of
/// help, how it is shown and how it is read.
macro_rules! keys {
    ($(#[$about:meta])* $table:ident: $($kind:ident $name:literal, $help:expr, $show:expr, |$settings:ident, $texts:ident| $put:expr;)*) => {
        $(#[$about])*
        pub(crate) const $table: &[$crate::key::Key] = &[$($crate::key::Key {
            name: $name,
            policy: $crate::key::keys!(@ $kind),
            help: $help,
            show: $show,
            put: |$settings, $texts| { $put; Ok(()) },
        },)*];
    };
    (@ policy) => { true };
    (@ preference) => { false };
}
pub(crate) use keys;
