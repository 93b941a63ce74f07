//! Builds HTML so that text cannot become markup.

pub(super) struct Html(String);

impl Html {
    pub(super) fn new() -> Self {
        Self(String::with_capacity(32 * 1024))
    }

    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text, in which nothing is markup; also right inside a quoted attribute.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// An element that holds text.
    pub(super) fn element(&mut self, tag: &str, text: &str) -> &mut Self {
        let name = tag.split(' ').next().unwrap_or(tag);
        self.raw("<").raw(tag).raw(">").text(text).raw("</").raw(name).raw(">")
    }

    /// A heading and the sentence that says what is seen below it.
    pub(super) fn section(&mut self, title: &str, meaning: &str) -> &mut Self {
        self.raw("<section>").element("h2", title);
        if !meaning.is_empty() {
            self.element("p class=meaning", meaning);
        }
        self
    }

    /// The head of a table, with a bar between its headings; those that begin with `#` are of columns of numbers.
    pub(super) fn table(&mut self, headings: &str) -> &mut Self {
        self.raw("<div class=wide><table><thead><tr>");
        for heading in headings.split('|') {
            match heading.strip_prefix('#') {
                Some(heading) => self.element("th class=number", heading),
                None => self.element("th", heading),
            };
        }
        self.raw("</tr></thead><tbody>")
    }

    pub(super) fn end_table(&mut self) -> &mut Self {
        self.raw("</tbody></table></div>")
    }

    /// A cell with a bar, and what it shows in words.
    pub(super) fn bar_cell(&mut self, label: &str, parts: &[(&str, f64)], words: &str) -> &mut Self {
        self.raw("<td class=bars>").bar(label, parts).element("small", words).raw("</td>")
    }

    pub(super) fn cell(&mut self, text: &str) -> &mut Self {
        self.element("td", text)
    }

    pub(super) fn number(&mut self, text: &str) -> &mut Self {
        self.element("td class=number", text)
    }

    /// A bar of parts, each with its class and its share of the whole width (0 … 1).
    fn bar(&mut self, label: &str, parts: &[(&str, f64)]) -> &mut Self {
        self.raw("<svg class=bar viewBox=\"0 0 100 8\" preserveAspectRatio=none role=img aria-label=\"");
        self.text(label).raw("\">");
        let mut left = 0.0;
        for (class, share) in parts {
            let width = (share * 100.0).clamp(0.0, 100.0 - left);
            self.raw(&format!("<rect class={class} x={left:.2} width={width:.2} height=8 />"));
            left += width;
        }
        self.raw("</svg>")
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}
