//! `--show-config`: every setting with its value in force and where that comes from, then
//! what files say for single programs, groups and users. Each line could stand in a settings file.

use getgpu_settings::{Environment, Loaded, Scoped, keys, quoted};

/// The files that were looked for and the lock in use, as comments for people.
pub fn head(environment: &Environment, lock: &str) -> String {
    let files = std::iter::once(&environment.system_file)
        .chain(&environment.prefix_file)
        .chain(&environment.user_file);
    let lines = files.map(|path| {
        let state = if path.exists() { "read" } else { "not there" };
        format!("# {}: {state}\n", path.display())
    });
    let head: String = lines.collect();
    format!("{head}# lock: {lock}\n")
}

/// The same of a table for a program, a group or a user.
fn scoped(line: &Scoped) -> String {
    let value = if let [one] = line.texts.as_slice() {
        quoted(one)
    } else {
        quoted(&line.texts)
    };
    format!(
        "{}.{}.{} = {value}  # {}\n",
        line.scope.word(),
        quoted(&line.name),
        line.key,
        line.file.display()
    )
}

/// A line per setting, as it would be written in a file.
pub fn text(loaded: &Loaded) -> String {
    let lines = keys::all().map(|key| {
        let (typed, place) = (
            loaded.typed.get(key.name),
            loaded.settings.places.get(key.name),
        );
        let file = place.and_then(|place| Some(place.rsplit_once(':')?.0));
        let from = typed.map(String::as_str).or(file).unwrap_or("built in");
        let value = (key.show)(&loaded.settings);
        format!("{} = {value}  # {from}\n", key.name)
    });
    lines.chain(loaded.scoped.iter().map(scoped)).collect()
}
