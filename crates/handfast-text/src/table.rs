//! Text in columns, for letters of one width: how wide a text is, and tables as wide as their cells or as the terminal.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns between two cells.
pub const GAP: usize = 2;

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A text in at most `room` columns; the last one is an ellipsis if the text was wider.
pub fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if width(text) <= room {
        return text.into();
    }
    let (mut end, mut left) = (0, room.saturating_sub(1));
    for letter in text.chars() {
        let Some(rest) = left.checked_sub(letter.width().unwrap_or_default()) else { break };
        (end, left) = (end + letter.len_utf8(), rest);
    }
    let ellipsis = if room > 0 { "…" } else { "" };
    format!("{}{ellipsis}", &text[..end]).into()
}

/// A text filled up with blanks: behind it, or before it where it is to be at the right.
pub fn padded(text: &str, columns: usize, right: bool) -> String {
    let blank = " ".repeat(columns.saturating_sub(width(text)));
    if right { format!("{blank}{text}") } else { format!("{text}{blank}") }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column<'t> {
    /// Its title.
    pub title: &'t str,
    /// True if its cells are aligned to the right.
    pub right: bool,
    /// The number of columns that it may be cut down to; 0: it is never cut.
    pub least: usize,
    /// Of columns that find no place, the one with the highest goes first; 0: it stays.
    pub rank: u8,
}

impl<'t> Column<'t> {
    /// Words, which are at the left.
    pub const fn words(title: &'t str, least: usize, rank: u8) -> Self {
        Self { title, right: false, least, rank }
    }

    /// Figures, which are at the right and never cut.
    pub const fn figures(title: &'t str, rank: u8) -> Self {
        Self { title, right: true, least: 0, rank }
    }
}

/// The columns that are shown in `room`, with their widths. `natural` is how wide a column's cells are.
pub fn layout(columns: &[Column<'_>], natural: impl Fn(usize) -> usize, room: usize) -> Vec<(usize, usize)> {
    let mut layout: Vec<(usize, usize)> = (0..columns.len()).map(|place| (place, natural(place))).collect();
    // Cut text is not wider than the room, so that the loop below is short whatever a cell has.
    layout
        .iter_mut()
        .filter(|it| columns[it.0].least > 0)
        .for_each(|it| it.1 = it.1.min(room.max(columns[it.0].least)));
    loop {
        let all = layout.iter().map(|(_, wide)| wide + GAP).sum::<usize>().saturating_sub(GAP);
        let mut excess = all.saturating_sub(room);
        let mut narrowed = layout.clone();
        // The widest gives first.
        while excess > 0 {
            let gives =
                |(place, wide): &(usize, usize)| columns[*place].least > 0 && *wide > columns[*place].least;
            let Some(widest) = narrowed.iter_mut().filter(|it| gives(it)).max_by_key(|it| it.1) else {
                break;
            };
            widest.1 -= 1;
            excess -= 1;
        }
        let dropped = layout.iter().filter(|(place, _)| columns[*place].rank > 0);
        match dropped.max_by_key(|(place, _)| columns[*place].rank) {
            Some(&last) if excess > 0 => layout.retain(|known| *known != last),
            _ => return narrowed,
        }
    }
}

/// A table as lines without blanks at their ends; the first has the titles.
pub fn lines(columns: &[Column<'_>], rows: &[Vec<String>], room: usize) -> Vec<String> {
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    let all = || std::iter::once(&titles).chain(rows);
    let natural = |place: usize| all().map(|row| width(&row[place])).max().unwrap_or_default();
    let layout = layout(columns, natural, room);
    let line = |row: &Vec<String>| {
        let cell =
            |&(place, wide): &(usize, usize)| padded(&cut(&row[place], wide), wide, columns[place].right);
        let cells: Vec<String> = layout.iter().map(cell).collect();
        cells.join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'_>; 3] =
        [Column::words("name", 4, 0), Column::figures("count", 0), Column::words("more", 0, 1)];

    fn rows() -> Vec<Vec<String>> {
        [["日本語", "7", "x"], ["a long name", "1,204", ""]]
            .map(|row| row.map(str::to_owned).to_vec())
            .to_vec()
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let lines = lines(&COLUMNS, &rows(), 80);
        assert_eq!(lines, ["name         count  more", "日本語           7  x", "a long name  1,204"]);
    }

    #[test]
    fn what_finds_no_place_is_cut_and_then_left_out() {
        assert_eq!(lines(&COLUMNS, &rows(), 18), ["name   count  more", "日本…      7  x", "a lo…  1,204"]);
        assert_eq!(lines(&COLUMNS, &rows(), 13), ["name    count", "日本語      7", "a lon…  1,204"]);
        assert_eq!(lines(&COLUMNS, &rows(), 1), ["name  count", "日…       7", "a l…  1,204"]);
    }

    #[test]
    fn a_text_is_never_wider_than_its_room() {
        for room in 0..9 {
            let text = cut("a日b本c", room);
            assert!(width(&text) <= room && (room < 7 || text == "a日b本c"), "{room}: {text}");
        }
        assert_eq!((cut("日本", 3), cut("日本", 0)), ("日…".into(), "".into()));
    }
}
