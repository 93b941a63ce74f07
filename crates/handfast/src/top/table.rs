//! A table that is sorted, filtered and fitted to the width of a terminal; its columns are those of `handfast-text`.
//!
//! In: a [`Table`], how it is to be sorted, the width. Out: [`Line`]s, the first with the columns' names. Pure.

use handfast_text::table::{Column, GAP, layout, width};
use handfast_text::wrap::wrapped;

use crate::screen::{Line, Pieces, Shade};

/// From this `least` width on, a column has sentences.
const SENTENCE: usize = 40;

/// One place of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) line: Line,
    /// Sort key; `None`: its text.
    pub(super) key: Option<f64>,
}

/// Makes a table: the values of the rows, what is computed for each row, and each column with its cell.
macro_rules! table {
    (
        $values:expr => |$value:pat_param| { $($computed:tt)* }
        $($column:expr => $cell:expr;)*
    ) => {{
        const COLUMNS: &[Column<'_>] = &[$($column),*];
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
    pub(super) columns: &'static [Column<'static>],
    pub(super) rows: Vec<Vec<Cell>>,
}

/// Sort order of a table: by which column (`None`: as it comes), and whether it is reversed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: Option<usize>,
    pub(super) reversed: bool,
}

impl Table {
    /// Its lines, within `room`: the names of the columns, then the rows that contain `filter`. A sentence in the last column is broken.
    pub(super) fn lines(mut self, order: Order, filter: &str, room: usize) -> Vec<Line> {
        let filter = filter.to_lowercase();
        self.rows.retain(|row| row.iter().any(|cell| cell.line.to_string().to_lowercase().contains(&filter)));
        if let Some(column) = order.column.filter(|column| *column < self.columns.len()) {
            sort(&mut self.rows, column);
        }
        if order.reversed {
            self.rows.reverse();
        }
        let natural = |place: usize| {
            let cells = self.rows.iter().map(|row| row[place].line.width()).max().unwrap_or_default();
            // One more for the mark of the order.
            cells.max(width(self.columns[place].title) + 1)
        };
        let layout = layout(self.columns, natural, room);
        let mut head = Line::default();
        for &(place, wide) in &layout {
            let mark = match (order.column == Some(place), order.reversed) {
                (false, _) => "",
                (true, false) => "▼",
                (true, true) => "▲",
            };
            let title = Line::of(format!("{}{mark}", self.columns[place].title), Shade::Faint);
            put(&mut head, title, wide, self.columns[place].right);
        }
        let mut lines = vec![head];
        for row in self.rows {
            let mut line = Line::default();
            let mut more = Vec::new();
            for &(place, wide) in &layout {
                let mut cell = row[place].line.clone();
                let is_sentence = self.columns[place].least >= SENTENCE && cell.spans.len() == 1;
                if place + 1 == self.columns.len() && is_sentence && cell.width() > wide {
                    let style = cell.spans[0].style;
                    let indent = " ".repeat(line.width() + GAP);
                    let mut broken = wrapped("", "", &cell.to_string(), wide).into_iter();
                    cell = Line::styled(broken.next().unwrap_or_default(), style);
                    more.extend(broken.map(|rest| Line::styled(format!("{indent}{rest}"), style)));
                }
                put(&mut line, cell, wide, self.columns[place].right);
            }
            lines.push(line);
            lines.append(&mut more);
        }
        lines
    }
}

/// Numbers from the greatest down, text from A on. Stable.
fn sort(rows: &mut [Vec<Cell>], column: usize) {
    rows.sort_by(|one, other| match (one[column].key, other[column].key) {
        (Some(one), Some(other)) => other.total_cmp(&one),
        (one_key, other_key) => other_key
            .is_some()
            .cmp(&one_key.is_some())
            .then_with(|| one[column].line.to_string().cmp(&other[column].line.to_string())),
    });
}

/// Adds a place of a row, `wide` columns and two blanks.
fn put(line: &mut Line, cell: Line, wide: usize, right: bool) {
    let gap = if line.spans.is_empty() { 0 } else { GAP };
    let cell = cell.cut_to(wide);
    let blank = wide.saturating_sub(cell.width());
    let (before, behind) = if right { (gap + blank, 0) } else { (gap, blank) };
    line.push_span(" ".repeat(before));
    line.extend(cell);
    line.push_span(" ".repeat(behind));
}
