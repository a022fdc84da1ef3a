//! Lists existing names, for messages about a missing name.

use crate::shown;

/// The maximum number of names that a message lists.
const SHOWN: usize = 20;

/// The minimum similarity, from 0 to 1, that a name must have to be suggested in place of another.
const ALIKE: f64 = 0.6;

/// For a message about a missing column, lists the first few existing columns and the column that
/// the user probably meant.
pub(crate) fn known<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let quoted = |name: &str| format!("`{}`", shown(name));
    let listed: Vec<String> = names.clone().take(SHOWN).map(quoted).collect();
    if listed.is_empty() {
        return "it has no columns".to_owned();
    }
    let more = match names.clone().count() - listed.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let hint = nearest(name, names).map(|name| format!("; did you mean {}?", quoted(name)));
    format!("it has {}{more}{}", listed.join(", "), hint.unwrap_or_default())
}

/// Returns the name that is most similar to this one, if any is similar enough.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let likeness = |other: &str| {
        let other = other.to_lowercase();
        let (short, long) =
            if wanted.len() < other.len() { (&wanted, &other) } else { (&other, &wanted) };
        let is_part = short.chars().count() > 1 && long.starts_with(short.as_str());
        let likeness = strsim::normalized_damerau_levenshtein(&wanted, &other);
        if is_part { likeness.max(ALIKE) } else { likeness }
    };
    let scored = names.map(|other| (likeness(other), other));
    let best = scored.fold(None, |best: Option<(f64, &str)>, one| match best {
        Some(best) if best.0 >= one.0 => Some(best),
        _ => Some(one),
    });
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_is_found_among_many() {
        let many: Vec<String> =
            (0..60).map(|at| format!("c{at}")).chain(["ts".into(), "Price".into()]).collect();
        let names = || many.iter().map(String::as_str);
        assert!(known("tss", names()).ends_with("`c19` and 42 more; did you mean `ts`?"));
        assert_eq!(nearest("price", names()), Some("Price"));
        assert_eq!(nearest("prcie", names()), Some("Price"));
        assert_eq!(nearest("venue", names()), None);
        assert_eq!(nearest("symbol", ["sym", "ts"].into_iter()), Some("sym"));
        assert_eq!(nearest("t", ["ts", "x"].into_iter()), None);
        assert_eq!(known("x", [].into_iter()), "it has no columns");
        assert_eq!(known("x", ["a"].into_iter()), "it has `a`");
    }
}
