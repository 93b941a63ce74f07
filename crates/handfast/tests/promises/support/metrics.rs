//! One reading of the metrics page. In: OpenMetrics text. Out: sums over the samples that have certain labels.

/// A reading.
pub(crate) struct Metrics {
    text: String,
}

/// One sample: name, labels as written, value.
type Sample<'a> = (&'a str, &'a str, f64);

impl Metrics {
    /// Keeps the page; it must be whole.
    pub(crate) fn new(text: String) -> Self {
        assert!(text.trim_end().ends_with("# EOF"), "a page of metrics ends in `# EOF`: {text:?}");
        Self { text }
    }

    fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (series, value) = match line.split_once('}') {
                Some((series, value)) => (series, value.trim_start()),
                None => line.split_once(' ')?,
            };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            Some((name, labels, value.split(' ').next()?.parse().ok()?))
        })
    }

    /// The samples of a name that have these labels.
    fn of<'a>(&'a self, name: &'a str, labels: &[(&str, &str)]) -> impl Iterator<Item = Sample<'a>> {
        let expected: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        self.samples().filter(move |(found, has, _)| {
            *found == name && expected.iter().all(|want| has.split(',').any(|label| label == want))
        })
    }

    /// The sum of all samples of a name that have these labels; 0 when there are none.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.of(name, labels).map(|(_, _, value)| value).sum()
    }

    /// Returns true if there is a sample of a name with these labels.
    pub(crate) fn has_with(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.of(name, labels).next().is_some()
    }

    /// Returns true if there is a sample of this name at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.samples().any(|(found, ..)| found == name)
    }

    /// The page.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
