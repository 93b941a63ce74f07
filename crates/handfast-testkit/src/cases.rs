//! Selection of the combinations of a large table: a part that every change must pass, or all of them where there is time.

/// Variable of the environment with which all combinations are tried (`scripts/every-case`).
pub const EVERY_CASE: &str = "HANDFAST_TEST_EVERY_CASE";

fn is_every_case() -> bool {
    std::env::var_os(EVERY_CASE).is_some()
}

/// The number of random draws to make: `few`, or `all` with [`EVERY_CASE`].
pub fn draws(few: u64, all: u64) -> u64 {
    if is_every_case() { all } else { few }
}

/// Combinations of rows and columns: each row with `few` columns, so that all columns come up equally often; with [`EVERY_CASE`] all of
/// them.
pub fn pairs<'a, R, C>(rows: &'a [R], columns: &'a [C], few: usize) -> impl Iterator<Item = (&'a R, &'a C)> {
    let count = if is_every_case() { columns.len() } else { few.min(columns.len()) };
    rows.iter().enumerate().flat_map(move |(number, row)| {
        (0..count).map(move |step| (row, &columns[(number * few + step) % columns.len()]))
    })
}

/// Every n-th of them, n being `one_of`; all of them with [`EVERY_CASE`].
pub fn some<T>(all: &[T], one_of: usize) -> impl Iterator<Item = &T> {
    all.iter().step_by(if is_every_case() { 1 } else { one_of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_and_every_column_comes_up() {
        let (rows, columns): (Vec<_>, Vec<_>) = ((0..35).collect(), (0..15).collect());
        let some: Vec<_> = pairs(&rows, &columns, 3).collect();
        assert!(rows.iter().all(|row| some.iter().filter(|(tried, _)| *tried == row).count() >= 3));
        assert!(columns.iter().all(|column| some.iter().filter(|(_, tried)| *tried == column).count() >= 7));
    }
}
