//! The words that a setting or an option may have as its value stand in texts that are
//! written by hand: the setting's help, etc/config.toml and docs/GUIDE.md have all of them.

use getgpu_settings::{
    ArgvZero, Auto, AutoNone, DeviceNames, EnforceMemory, IdleAction, LeaseAt, Log, Policy,
    RunOrFail, Shown, SlurmTaken, SlurmTasks, Type, Unshared, WithoutGrant, keys,
};

const CONFIG: &str = "etc/config.toml";
const GUIDE: &str = "docs/GUIDE.md";

/// The settings that have words as values.
#[rustfmt::skip]
const SETTINGS: [(&str, &[&str]); 17] = [
    ("without_grant", WithoutGrant::WORDS), ("unshared", Unshared::WORDS), ("idle_action", IdleAction::WORDS),
    ("log", Log::WORDS), ("auto", Auto::WORDS), ("auto_none", AutoNone::WORDS), ("slurm.tasks", SlurmTasks::WORDS),
    ("slurm.taken", SlurmTaken::WORDS), ("enforce_memory", EnforceMemory::WORDS), ("type", Type::WORDS), ("policy", Policy::WORDS),
    ("when_taken", RunOrFail::WORDS), ("when_no_gpu", RunOrFail::WORDS), ("argv0", ArgvZero::WORDS),
    ("lease", LeaseAt::WORDS), ("visible", Shown::WORDS), ("names", DeviceNames::WORDS),
];

fn read(path: &str) -> String {
    std::fs::read_to_string(xtask::top().join(path)).unwrap()
}

/// The comment above a setting in etc/config.toml.
fn comment(config: &str, setting: &str) -> String {
    let (above, _) = config.split_once(&format!("\n#{setting} = ")).unwrap();
    let lines = above
        .lines()
        .rev()
        .take_while(|line| line.starts_with("# "));
    lines.collect()
}

#[test]
fn help_and_the_settings_file_have_every_word_of_a_setting() {
    let config = read(CONFIG);
    for (setting, words) in SETTINGS {
        let comment = comment(&config, setting);
        let help = keys::find(setting).unwrap().help;
        for word in words {
            assert!(
                comment.contains(&format!("\"{word}\"")),
                "{CONFIG}: the comment above `{setting}` lacks \"{word}\": {comment}"
            );
            assert!(
                help.contains(word),
                "the help of `{setting}` lacks {word}: {help}"
            );
        }
    }
}

#[test]
fn the_guide_has_every_word_of_an_option() {
    let guide = read(GUIDE);
    for (option, words) in [("type", Type::WORDS), ("policy", Policy::WORDS)] {
        let typed = format!("`--{option} {}`", words.join("\\|"));
        assert!(
            guide.contains(&typed),
            "{GUIDE}: the table of options lacks {typed}"
        );
    }
}

#[test]
fn every_type_of_words_is_in_the_table() {
    let this = include_str!("setting_words.rs");
    let files = xtask::size::products(xtask::top()).unwrap();
    let of_settings = files
        .iter()
        .filter(|name| name.starts_with("common/settings/"));
    let mut found = 0;
    for file in of_settings {
        for made in read(file).split("\nwords! {\n").skip(1) {
            let mut lines = made.lines().map(str::trim_start);
            let line = lines
                .find(|line| line.starts_with(char::is_uppercase))
                .unwrap();
            let name = line.trim_end_matches(" {");
            let words = format!("{name}::WORDS");
            assert!(
                this.contains(&words),
                "{file}: add {words} to SETTINGS of setting_words.rs"
            );
            found += 1;
        }
    }
    assert!(found >= 14, "{found}");
}
