//! Finding the name that was meant.

/// Least similarity (Jaro-Winkler, 0 to 1) of a name that is proposed.
const SIMILAR: f64 = 0.7;

/// `no WHAT "NAME"`, with the nearest of the known names or, if none is near, all of them.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((_, candidate)) => format!("no {what} {name:?}; did you mean {candidate:?}?"),
        None if known.is_empty() => format!("no {what} {name:?}; there is none"),
        None => format!("no {what} {name:?}; there is: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_proposed_and_far_ones_are_listed() {
        assert_eq!(
            unknown("workload", "syscal.cost", ["null", "syscall.cost"]),
            "no workload \"syscal.cost\"; did you mean \"syscall.cost\"?"
        );
        assert_eq!(
            unknown("choice", "zzz", ["loop", "single"]),
            "no choice \"zzz\"; there is: loop, single"
        );
        assert_eq!(
            unknown("parameter", "x", []),
            "no parameter \"x\"; there is none"
        );
    }
}
