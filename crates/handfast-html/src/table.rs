//! The one table of all pages.
//!
//! In: headings and rows. Out: a table with header cells for its columns, rows and groups. On a narrow screen a table with text in several
//! columns becomes a list of records, each value beside its heading; one of numbers scrolls, with its first column in place.

use maud::{Markup, html};

/// Rows that share a heading.
struct Group {
    title: Markup,
    rows: Vec<Vec<Markup>>,
}

/// A table. The first cell of a row is the heading of the row.
pub struct Table<'a> {
    name: &'a str,
    columns: Vec<Column<'a>>,
    groups: Vec<Group>,
}

#[derive(Clone, Copy)]
struct Column<'a> {
    heading: &'a str,
    has_numbers: bool,
    place: usize,
}

/// From this number of rows on, a column with one value is a sentence.
const SEVERAL: usize = 3;

/// A text as a cell; words that mean good or bad have a colour.
pub fn text(text: impl AsRef<str>) -> Markup {
    let text = text.as_ref();
    match text {
        "held" | "yes" => html! { span.good { (text) } },
        "missed" | "no" => html! { span.bad { (text) } },
        _ => html! { (text) },
    }
}

impl<'a> Table<'a> {
    /// Without rows. The name is for screen readers. Headings have a bar between them; `#` begins that of a column of numbers.
    pub fn new(name: &'a str, headings: &'a str) -> Self {
        let column = |(place, heading): (usize, &'a str)| Column {
            heading: heading.trim_start_matches('#'),
            has_numbers: heading.starts_with('#'),
            place,
        };
        Self { name, columns: headings.split('|').enumerate().map(column).collect(), groups: Vec::new() }
    }

    /// A table of texts.
    pub fn of_text(name: &'a str, headings: &'a str, rows: impl IntoIterator<Item = Vec<String>>) -> Markup {
        let mut table = Self::new(name, headings);
        rows.into_iter().for_each(|row| table.row(row.iter().map(text)));
        table.draw()
    }

    /// A table with numbers in all columns but the first.
    pub fn of_numbers(
        name: &'a str,
        headings: &'a str,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Markup {
        let mut table = Self::new(name, headings);
        table.columns.iter_mut().skip(1).for_each(|column| column.has_numbers = true);
        rows.into_iter().for_each(|row| table.row(row.iter().map(text)));
        table.draw()
    }

    /// Begins rows with a common heading.
    pub fn group(&mut self, title: Markup) {
        self.groups.push(Group { title, rows: Vec::new() });
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Markup>) {
        if self.groups.is_empty() {
            self.group(Markup::default());
        }
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(cells.into_iter().collect());
        }
    }

    /// The value of a column that has only one.
    fn only_value(&self, column: &Column<'_>) -> Option<&Markup> {
        let rows: Vec<_> = self.groups.iter().flat_map(|group| &group.rows).collect();
        let first = rows.first()?.get(column.place)?;
        let is_only = || rows.iter().all(|row| row.get(column.place).is_some_and(|cell| cell.0 == first.0));
        (column.place > 0 && rows.len() >= SEVERAL && is_only()).then_some(first)
    }

    /// The table, with a sentence above it for columns that have one value.
    pub fn draw(&self) -> Markup {
        let (once, columns): (Vec<&Column<'_>>, Vec<_>) =
            self.columns.iter().partition(|column| self.only_value(column).is_some());
        let once: Vec<(&str, &Markup)> =
            once.iter().filter_map(|column| Some((column.heading, self.only_value(column)?))).collect();
        let stacks = columns.iter().skip(1).any(|column| !column.has_numbers);
        html! {
            @if once.iter().any(|(_, value)| !value.0.is_empty()) {
                p.once { "In every row: "
                    @for (place, (heading, value)) in once.iter().enumerate() {
                        @if place > 0 { " · " } (heading) " " b { (value) }
                    }
                }
            }
            div.scroll.stack[stacks] role="group" aria-label=(self.name) tabindex="0" {
                table {
                    thead { tr { @for column in &columns {
                        th.number[column.has_numbers] scope="col" { (column.heading) }
                    } } }
                    @for group in &self.groups { (body(group, &columns)) }
                }
            }
        }
    }
}

fn body(group: &Group, columns: &[&Column<'_>]) -> Markup {
    html! {
        tbody {
            @if !group.title.0.is_empty() {
                tr.group { th scope="rowgroup" colspan=(columns.len()) { (group.title) } }
            }
            @for row in &group.rows { tr { @for column in columns { (cell(row.get(column.place), column)) } } }
        }
    }
}

fn cell(content: Option<&Markup>, column: &Column<'_>) -> Markup {
    let content = content.filter(|content| !content.0.is_empty());
    html! {
        @if column.place == 0 { th scope="row" { @if let Some(content) = content { (content) } } }
        @else if let Some(content) = content {
            td.number[column.has_numbers] data-label=(column.heading) { div { (content) } }
        }
        @else { td.number[column.has_numbers] {} }
    }
}
