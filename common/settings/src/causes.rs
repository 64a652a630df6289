//! What can go wrong with settings, as the user reads it: each row has the status, the line and the
//! hint of one failure.

use std::path::Display;

use getgpu_model::causes;

causes! {
    /// Why settings are not used.
    pub(crate) enum SettingsCause<'a> {
        Unreadable { path: Display<'a>, why: String, remedy: &'a str } => Usage:
            "{path}: cannot be read: {why}", "{remedy}";
        /// `what` the file is to people.
        NotTrusted { what: &'a str, path: Display<'a>, why: String, remedy: TrustRemedy } => Usage:
            "{what}{path}: not used: {why}", "{remedy}";
        ListUnreadable { path: Display<'a>, why: String } => Usage:
            "list of allowed devices {path}: cannot be read: {why}",
            "nothing is handed out until it can be read";
        NoToml { at: String, why: String } => Usage: "{at}: {why}";
        NoTable { at: String, scope: &'a str } => Usage:
            "{at}: expected [{scope}.\"NAME\"] with settings below it";
        NoLimit { at: &'a str, name: &'a str, scope: &'a str, limits: String } => Usage:
            "{at}: `{name}` is not set by {scope}", "tables of groups and users have limits: {limits}";
        PolicyOfSite { place: &'a str, name: &'a str } => Usage:
            "{place}: `{name}` can be set by the administrator only",
            "policy belongs in /etc/getgpu/config.toml, outside its [program] tables";
        UnknownSetting { place: &'a str, name: &'a str, meant: String } => Usage:
            "{place}: unknown setting `{name}`{meant}", "getgpu --show-config lists all settings";
        NoValue { at: &'a str, name: &'a str, why: String } => Usage: "{at}: `{name}`: {why}";
        NoValueTyped { typed: &'a str, why: String } => Usage: "{typed}: {why}";
        NeitherOnNorOff { name: &'a str, shown: String } => Usage:
            "{name}={shown}: neither on nor off", "{name}=1, or unset it";
    }

    /// What makes a file one that is believed.
    pub(crate) enum TrustRemedy {
        Caller => "it must belong to you or root (chown), and no other user may write the file or its directory (chmod go-w)";
        Host => "as root: chown root and chmod go-w, for the file and its directory";
        Prefix => "the file and its directory must belong to root or the prefix's owner (chown), and nobody else may write there (chmod go-w)";
    }
}
