//! Whether store and limit did the same work.

use serde::Serialize;

use crate::report::Lines;
use crate::statistics::{count, ratio, rounded};

/// By how much both may differ, in percent: more would make the ratio of their speeds meaningless.
pub(crate) const DIFFERENCE_MAX: u32 = 10;

/// What one orchestration costs the disk, on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Effort {
    pub(crate) rows: f64,
    pub(crate) statements: f64,
    pub(crate) fsyncs: f64,
    /// `None` where the system does not tell.
    pub(crate) bytes: Option<f64>,
}

impl Effort {
    pub(crate) fn new(all: &dauer_store::Effort, bytes: Option<u64>, orchestrations: u64) -> Self {
        let each = |number: u64| ratio(count(number), count(orchestrations));
        Self {
            rows: each(all.rows),
            statements: each(all.statements),
            fsyncs: each(all.syncs),
            bytes: bytes.map(each),
        }
    }
}

/// Both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) store: Effort,
    pub(crate) limit: Effort,
    pub(crate) comparable: bool,
}

impl Comparison {
    pub(crate) fn new(store: Effort, limit: Effort) -> Self {
        let pairs = pairs(&store, &limit);
        let comparable = pairs.iter().flatten().all(|(_, store, limit)| agree(*store, *limit));
        Self { store, limit, comparable }
    }

    /// As a table.
    pub(crate) fn lines(&self, lines: &mut Lines) {
        let width = 22;
        lines.text(format!(
            "{:<width$} {:>12} {:>12} {:>12}",
            "per orchestration", "store", "limit", "difference"
        ));
        for (name, store, limit) in pairs(&self.store, &self.limit).into_iter().flatten() {
            let difference = 100.0 * ratio(limit - store, store);
            lines.text(format!("{name:<width$} {store:>12.3} {limit:>12.3} {difference:>10.1} %"));
        }
        if self.store.bytes.is_none() {
            lines.maybe("bytes", None, "this system does not tell");
        }
        let verdict = if self.comparable {
            "the limit is comparable: all"
        } else {
            "THE LIMIT IS NOT COMPARABLE: not all"
        };
        lines.text(format!("{verdict} are within {DIFFERENCE_MAX} %"));
    }

    /// With fewer digits.
    pub(crate) fn rounded(self) -> Self {
        let short = |effort: Effort| Effort {
            rows: rounded(effort.rows, 3),
            statements: rounded(effort.statements, 3),
            fsyncs: rounded(effort.fsyncs, 4),
            bytes: effort.bytes.map(|bytes| rounded(bytes, 0)),
        };
        Self { store: short(self.store), limit: short(self.limit), ..self }
    }
}

fn pairs(store: &Effort, limit: &Effort) -> [Option<(&'static str, f64, f64)>; 4] {
    [
        Some(("rows", store.rows, limit.rows)),
        Some(("statements", store.statements, limit.statements)),
        Some(("fsyncs", store.fsyncs, limit.fsyncs)),
        store.bytes.zip(limit.bytes).map(|(store, limit)| ("bytes", store, limit)),
    ]
}

fn agree(store: f64, limit: f64) -> bool {
    (limit - store).abs() <= store * f64::from(DIFFERENCE_MAX) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: Effort = Effort { rows: 20.0, statements: 30.0, fsyncs: 0.05, bytes: Some(40_000.0) };

    #[test]
    fn ten_percent_is_comparable_and_more_is_not() {
        assert!(Comparison::new(STORE, STORE).comparable);
        let close = Effort { rows: 21.9, statements: 27.1, fsyncs: 0.054, bytes: Some(43_900.0) };
        assert!(Comparison::new(STORE, close).comparable);
        for far in [
            Effort { rows: 22.1, ..STORE },
            Effort { rows: 17.9, ..STORE },
            Effort { statements: 33.1, ..STORE },
            Effort { fsyncs: 0.056, ..STORE },
            Effort { bytes: Some(35_000.0), ..STORE },
        ] {
            assert!(!Comparison::new(STORE, far).comparable, "{far:?}");
        }
    }

    #[test]
    fn bytes_that_nobody_counts_are_not_compared() {
        let unknown = Effort { bytes: None, ..STORE };
        assert!(Comparison::new(unknown, unknown).comparable);
        let all =
            dauer_store::Effort { commits: 10, statements: 300, rows: 200, syncs: 12, ..Default::default() };
        let each = Effort::new(&all, Some(5_000), 10);
        assert_eq!(each, Effort { rows: 20.0, statements: 30.0, fsyncs: 1.2, bytes: Some(500.0) });
    }
}
