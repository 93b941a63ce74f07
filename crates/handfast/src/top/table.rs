//! Rows and columns as lines of a terminal: sorted, filtered, and fitted to its width.
//!
//! In: a [`Table`], how it is to be sorted, the width. Out: [`Line`]s, the first with the columns' names. Pure.

use crate::screen::{Line, Shade};

/// One column.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) right: bool,
    /// The number of columns that it may be cut down to; 0: it is never cut.
    pub(super) least: usize,
    /// Of columns that find no place, the one with the highest goes first; 0: it stays.
    pub(super) rank: u8,
}

/// One place of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) line: Line,
    /// What it is sorted by; `None`: its text.
    pub(super) key: Option<f64>,
}

/// Makes a table: the values of the rows, what is computed for each row, and each column with its cell.
macro_rules! table {
    (
        $values:expr => |$value:pat_param| { $($computed:tt)* }
        $($kind:ident($($column:tt)*) => $cell:expr;)*
    ) => {{
        const COLUMNS: &[Column] = &[$($kind($($column)*)),*];
        let rows = $values.map(|$value| {
            $($computed)*
            vec![$($cell),*]
        });
        Table { columns: COLUMNS, rows: rows.collect() }
    }};
}
pub(super) use table;

/// A table.
pub(super) struct Table {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Cell>>,
}

/// How a table is sorted: by which column (`None`: as it comes), and whether the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: Option<usize>,
    pub(super) reversed: bool,
}

impl Table {
    /// Its lines, within `width`: the names of the columns, then the rows that hold `filter`.
    pub(super) fn lines(mut self, order: Order, filter: &str, width: usize) -> Vec<Line> {
        let filter = filter.to_lowercase();
        self.rows.retain(|row| row.iter().any(|cell| cell.line.text().to_lowercase().contains(&filter)));
        if let Some(column) = order.column.filter(|column| *column < self.columns.len()) {
            sort(&mut self.rows, column);
        }
        if order.reversed {
            self.rows.reverse();
        }
        let layout = self.layout(width);
        let mut head = Line::default();
        for &(place, wide) in &layout {
            let mark = match (order.column == Some(place), order.reversed) {
                (false, _) => "",
                (true, false) => "▼",
                (true, true) => "▲",
            };
            let title = Line::of(format!("{}{mark}", self.columns[place].title), Shade::Faint);
            put(&mut head, &title, wide, self.columns[place].right);
        }
        let mut lines = vec![head];
        for row in &self.rows {
            let mut line = Line::default();
            layout
                .iter()
                .for_each(|&(place, wide)| put(&mut line, &row[place].line, wide, self.columns[place].right));
            lines.push(line);
        }
        lines
    }

    /// The columns that are shown, with their widths.
    fn layout(&self, width: usize) -> Vec<(usize, usize)> {
        let natural = |place: usize| {
            let cells = self.rows.iter().map(|row| row[place].line.width()).max().unwrap_or_default();
            // One more for the mark of the order.
            (place, cells.max(self.columns[place].title.chars().count() + 1))
        };
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let mut layout: Vec<(usize, usize)> = shown.iter().map(|place| natural(*place)).collect();
            let all = layout.iter().map(|(_, wide)| wide + 2).sum::<usize>().saturating_sub(2);
            let mut excess = all.saturating_sub(width);
            // The widest gives first.
            while excess > 0 {
                let gives = |(place, wide): &(usize, usize)| {
                    let least = self.columns[*place].least;
                    if least > 0 { wide.saturating_sub(least) } else { 0 }
                };
                let Some(widest) = layout.iter_mut().filter(|it| gives(it) > 0).max_by_key(|it| it.1) else {
                    break;
                };
                widest.1 -= 1;
                excess -= 1;
            }
            let dropped = shown.iter().copied().filter(|place| self.columns[*place].rank > 0);
            match dropped.max_by_key(|place| self.columns[*place].rank) {
                Some(place) if excess > 0 => shown.retain(|known| *known != place),
                _ => return layout,
            }
        }
    }
}

/// Numbers from the greatest down, text from A on. Stable.
fn sort(rows: &mut [Vec<Cell>], column: usize) {
    rows.sort_by(|one, other| match (one[column].key, other[column].key) {
        (Some(one), Some(other)) => other.total_cmp(&one),
        (one_key, other_key) => other_key
            .is_some()
            .cmp(&one_key.is_some())
            .then_with(|| one[column].line.text().cmp(&other[column].line.text())),
    });
}

/// Adds a place of a row, `wide` columns and two blanks.
fn put(line: &mut Line, cell: &Line, wide: usize, right: bool) {
    if !line.0.is_empty() {
        line.0.push(("  ".to_owned(), Shade::Plain));
    }
    let blank = " ".repeat(wide.saturating_sub(cell.width()));
    if right {
        line.0.push((blank.clone(), Shade::Plain));
    }
    let mut room = wide;
    let cut = cell.width() > wide;
    for (text, shade) in &cell.0 {
        let length = text.chars().count();
        if length < room || (length == room && !cut) {
            line.0.push((text.clone(), *shade));
            room -= length;
        } else if room > 0 {
            let text: String = text.chars().take(room - 1).chain(['…']).collect();
            line.0.push((text, *shade));
            break;
        }
    }
    if !right {
        line.0.push((blank, Shade::Plain));
    }
}
