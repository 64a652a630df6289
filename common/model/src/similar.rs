//! The words of values, and what was meant by a word that does not exist. Pure.

use clap::ValueEnum;

/// How alike two words must be: what clap asks of mistyped options.
const LIKE: f64 = 0.7;

/// What a value is called in options, settings and JSON.
pub fn word_of(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The candidate that is most like `word`, if one is much like it.
pub fn similar<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = candidates
        .into_iter()
        .map(|candidate| (strsim::jaro(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > LIKE);
    rated
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn the_most_similar_word_if_any() {
        let words = ["wait", "share", "share_auto"];
        assert_eq!(similar("wiat", words), Some("wait"));
        assert_eq!(similar("shaer", words), Some("share"));
        assert_eq!(similar("xyzzy", words), None);
    }
}
