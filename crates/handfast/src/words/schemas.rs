//! JSON schemas in `docs/reference`, from the keys of the configuration and the types of the reports; `scripts/pages` writes them, and a test checks the files.

use std::fs;
use std::path::Path;

use handfast_doctor::size::Size;
use handfast_probe::{capture::CaptureReport, rounds::Round};
use handfast_report::{live, run::Run};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};

/// Set by `scripts/pages`.
const WRITE: &str = "HANDFAST_WRITE_PAGES";

/// Each schema's file in `docs/reference`, and what is in it.
fn schemas() -> [(&'static str, String); 8] {
    [
        ("configuration", handfast_config::json_schema()),
        ("load-report", schema::<handfast_report::Report>("handfast load report, handfast-load/1")),
        ("load-live", schema::<live::Line>("A line of handfast load --live-json, handfast-live/1")),
        ("load-run", schema::<Run>("What handfast load --metrics serves at /status.json, handfast-run/1")),
        ("probe-report", schema::<handfast_probe::Report>("A report of handfast probe")),
        ("probe-watch", schema::<Round>("A line of handfast probe --watch --json, handfast-probe-watch/1")),
        ("capture-report", schema::<CaptureReport>("A report of handfast probe --from-pcap")),
        ("size-report", schema::<Size>("A report of handfast doctor size")),
    ]
}

/// Returns the schema of a type, as text.
fn schema<T: JsonSchema>(title: &str) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(|schema: &mut Schema| {
        if let Some(description) = schema.get("description").and_then(|text| text.as_str()) {
            let description = description.replace("`None`", "`null`");
            schema.insert("description".to_owned(), description.into());
        }
    }));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    format!("{:#}\n", schema.to_value())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
fn the_kept_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, schema) in schemas() {
        let path = folder.join(name).with_extension("schema.json");
        if std::env::var_os(WRITE).is_some() {
            fs::write(path, schema).expect("a file of the tree");
        } else {
            let is_kept = fs::read_to_string(path).is_ok_and(|kept| kept == schema);
            assert!(is_kept, "docs/reference/{name}.schema.json is out of date: run scripts/pages");
        }
    }
}
